"""How things look in a terminal, a pipe and a log file: one look for all commands. Rich is imported below here only."""
