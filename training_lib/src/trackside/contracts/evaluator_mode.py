"""What judges the runs of a deployment: docs/evaluators.md."""

from __future__ import annotations

PER_JOB = "per-job"  # one processing job for each training job
PER_RULE = "per-rule"  # one for each rule of it
FLEET = "fleet"  # workers that share all runs
EVALUATOR_MODES = (PER_JOB, PER_RULE, FLEET)
