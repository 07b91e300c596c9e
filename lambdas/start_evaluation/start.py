"""Everything that the start of a training job calls for, one after another: evaluators first, then rule files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lambdas.shared.decisions import Nothing
from lambdas.start_evaluation.evaluators import OpenLease, decide_evaluators
from lambdas.start_evaluation.logic import StartEvaluation, decide, decide_custom
from lambdas.start_evaluation.run_request import read_request
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.evaluator_mode import PER_RULE
from trackside.contracts.event import read_training_job_state_change


def decide_start(
    event: Mapping[str, Any], settings: StartEvaluationSettings, *, now: float
) -> Iterator[StartEvaluation | OpenLease | Nothing]:
    """Errors: `ConfigurationError` for an event of another shape, `ClientError` of S3."""
    change = read_training_job_state_change(event)
    decision = decide(change, settings)
    if isinstance(decision, Nothing):
        yield decision
        return
    request = read_request(decision.run) if settings.evaluator_mode == PER_RULE else None
    yield from decide_evaluators(decision, change.job, request, settings, now=now)
    if settings.custom_rules_from:
        request = request or read_request(decision.run)  # after the evaluator's start, which needs no answer of S3
        if isinstance(request, Nothing):
            yield request
        else:
            yield from decide_custom(change.job, decision.run, request, settings)
