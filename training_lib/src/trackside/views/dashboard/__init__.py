"""The dashboard: the report of each run, served and kept up to date, and pages about tensors and pairs of runs."""
