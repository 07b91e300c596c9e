"""Verdicts on the speed of a run, from what `trackside.profiling` and the adapters measured. See docs/profiling.md."""
