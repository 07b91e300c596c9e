"""Runs read back on any machine: lists, judged parts, verdicts, comparisons. No process is started."""
