"""Processing jobs that judge one run after another, for SageMaker ends each after its time: the words between them.

An evaluator that is to be ended soon stores how far it has come, and ends with an exit message that begins with
`CONTINUED_PREFIX`. Its end is an event, whose environment tells start_evaluation what the successor is to do: a link of
the same chain. One that broke off has a successor, too, but not again and again.
"""

from __future__ import annotations

JOB_NAME_PREFIX = "trackside-"  # of every processing job that judges a training job

# Beginnings of the exit messages of evaluators.
CONTINUED_PREFIX = "ToBeContinued: "
NOTHING_JUDGED = "No rule could judge this run"

MOST_LINKS = 100  # of a chain: 900 days of the longest processing jobs
MOST_RESTARTS = 1  # in a row, after links that broke off

# In the environment of a processing job.
LINK = "TRACKSIDE_LINK"  # which one of its chain it is, from 1
RESTARTS = "TRACKSIDE_RESTARTS"  # how many before it, in a row, broke off
RULES_AFTER = "TRACKSIDE_RULES_AFTER"
MAX_RUNTIME = "TRACKSIDE_MAX_RUNTIME_SECONDS"

LONGEST_MARGIN_SECONDS = 900.0
MARGIN_SHARE = 0.2


def hand_over_seconds(max_runtime_seconds: float) -> float:
    """How long an evaluator judges before it hands over: what is left covers the start of the container, which counts
    too, the rest of a sweep, and what is still to be delivered."""
    return max_runtime_seconds - min(LONGEST_MARGIN_SECONDS, MARGIN_SHARE * max_runtime_seconds)
