"""Measurements of where the time and the machine go: the sampler of the machine, the clock of a step, stack samples.

The training half: light, and without any framework. Verdicts on what is measured are made in `speed.performance`.
See docs/profiling.md and docs/decisions/0074-where-profiling-lives.md.
"""
