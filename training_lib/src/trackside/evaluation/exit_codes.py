"""Exit codes of an evaluator."""

from __future__ import annotations

from trackside.evaluation.results.summary import Summary

JUDGED = 0  # judged to the end, or stopped on request; issues found or not
BROKE_OFF = 1  # a mistake of ours
BAD_CONFIGURATION = 2  # also where only some of the request could not be done, and the rest was
RUN_UNREADABLE = 3
UNDELIVERED = 4  # some verdict did not reach every sink
RULE_CRASHED = 5
LEASE_LOST = 6  # of a process that a worker of the fleet started: the worker is gone, or another has the run


def exit_code_of(summary: Summary) -> int:
    """Return the exit code of an evaluation that was not broken off."""
    if summary.crashed:
        return RULE_CRASHED
    if summary.refused:
        return BAD_CONFIGURATION
    return UNDELIVERED if summary.undelivered else JUDGED
