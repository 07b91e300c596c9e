"""The look of output in a terminal, a pipe and a log file, for all commands. Rich is imported below here only."""
