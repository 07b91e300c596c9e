"""The always-on statistics, and reductions."""
