"""Modes of evaluation in a deployment, and the variables of processing jobs that judge one run in succession.

SageMaker ends each processing job after its time. An evaluator near its end stores its progress and ends with an exit
message that begins with `CONTINUED_PREFIX`. Its end is an event; the environment in that event gives start_evaluation
the settings of the successor: a link of the same chain. A job that broke off has a successor too, at most
`MOST_RESTARTS` times in a row.
"""

from __future__ import annotations

PER_JOB = "per-job"  # one processing job for each training job
PER_RULE = "per-rule"  # one for each rule of it
FLEET = "fleet"  # workers that share all runs
EVALUATOR_MODES = (PER_JOB, PER_RULE, FLEET)  # docs/evaluators.md

JOB_NAME_PREFIX = "trackside-"  # for the names of all processing jobs that judge a training job

# Beginnings of the exit messages of evaluators.
CONTINUED_PREFIX = "ToBeContinued: "
NOTHING_JUDGED = "No rule could judge this run"

MOST_LINKS = 100  # largest length of a chain: 900 days of the longest processing jobs
MOST_RESTARTS = 1  # in a row, after links that broke off

# In the environment of a processing job.
LINK = "TRACKSIDE_LINK"  # its number in the chain, from 1
RESTARTS = "TRACKSIDE_RESTARTS"  # the number of links before it, in a row, that broke off
RULES_AFTER = "TRACKSIDE_RULES_AFTER"
MAX_RUNTIME = "TRACKSIDE_MAX_RUNTIME_SECONDS"

LONGEST_MARGIN_SECONDS = 900.0
MARGIN_SHARE = 0.2


def hand_over_seconds(max_runtime_seconds: float) -> float:
    """Return the seconds for which an evaluator judges before it hands over.

    The rest covers the start of the container, the end of a sweep, and undelivered verdicts.
    """
    return max_runtime_seconds - min(LONGEST_MARGIN_SECONDS, MARGIN_SHARE * max_runtime_seconds)
