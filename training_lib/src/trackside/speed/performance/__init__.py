"""Verdicts on the speed of a run, from what `profiling` and the adapters measured. See docs/profiling.md."""
