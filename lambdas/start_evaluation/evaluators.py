"""The evaluators of a run in each mode: one processing job, one for each rule, or a place in the fleet's table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lambdas.shared.decisions import Nothing
from lambdas.shared.processing_jobs import evaluator_name
from lambdas.start_evaluation.logic import StartEvaluation
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.deployment.custom_rule_job import CONFIGURATION, MOST_VALUE_CHARACTERS, judged_separately
from trackside.contracts.deployment.evaluators import FLEET, MAX_RUNTIME, PER_RULE, RULES_AFTER
from trackside.contracts.deployment.lease import LeaseRecord
from trackside.contracts.event import TrainingJob
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleRequest


@dataclass(frozen=True)
class OpenLease:
    """The decision to have the fleet judge that run."""

    record: LeaseRecord


def decide_evaluators(
    start: StartEvaluation,
    job: TrainingJob,
    request: RuleRequest | Nothing | None,
    settings: StartEvaluationSettings,
    *,
    now: float,
) -> Iterator[StartEvaluation | OpenLease | Nothing]:
    """Yield the decisions for a run. `start` is the one processing job of the mode `per-job`.

    `request` is the run's own; only `per-rule` needs it.
    """
    if settings.evaluator_mode == FLEET:
        # An owner of the lease of an earlier job of that name has a smaller token.
        yield OpenLease(LeaseRecord(job, start.run.uri, free_at=now, token=job.created_at))
    elif settings.evaluator_mode == PER_RULE and isinstance(request, RuleRequest):
        yield from _one_for_each_rule(start, job, request, settings)
    else:
        # Also for a request that cannot be read: the evaluator reports its mistakes.
        yield _with_variables(start, {MAX_RUNTIME: str(settings.max_runtime_seconds)})


def _one_for_each_rule(
    start: StartEvaluation, job: TrainingJob, request: RuleRequest, settings: StartEvaluationSettings
) -> Iterator[StartEvaluation | Nothing]:
    names = _names(request, place=settings.custom_rules_from)
    limit = {MAX_RUNTIME: str(settings.max_runtime_seconds)}
    alone = _alone(names, most=settings.most_rule_jobs)
    for name in filter(None, alone):
        started = _with_variables(start, {**limit, CONFIGURATION: name})
        yield replace(
            started,
            name=(of_rule := evaluator_name(job, configuration=name)),
            request={**started.request, "ProcessingJobName": of_rule},
        )
    rest = [name for name in names[len(alone) :] if name]
    if rest:
        few = f"{', '.join(rest[:3])}{', …' if len(rest) > 3 else ''}"
        why = f"at most {settings.most_rule_jobs} are started, for names of at most {MOST_VALUE_CHARACTERS} characters"
        yield Nothing(f"{len(rest)} rules of {job.name} share one processing job ({few}): {why}.", surprising=True)
        yield _with_variables(start, {**limit, RULES_AFTER: str(len(alone))})


def _names(request: RuleRequest, *, place: str) -> list[str]:
    """Return the names of the configurations, in order; "" for one that a rule file in a job of its own judges."""
    separate_rules = judged_separately(request, place=place)
    return ["" if rule in separate_rules else rule.name for rule in request.rules] or list(built_in_catalogue().usual)


def _alone(names: Sequence[str], *, most: int) -> Sequence[str]:
    """Return the first names, each of which gets a job of its own. One job is kept for the others, if any are left."""
    fitting = next((place for place, name in enumerate(names) if len(name) > MOST_VALUE_CHARACTERS), len(names))
    if fitting == len(names) and sum(map(bool, names)) <= most:
        return names
    taken = 0
    for place, name in enumerate(names[:fitting]):
        if name and taken == most - 1:
            return names[:place]
        taken += bool(name)
    return names[:fitting]


def _with_variables(start: StartEvaluation, more: Mapping[str, str]) -> StartEvaluation:
    return replace(start, request={**start.request, "Environment": {**start.request["Environment"], **more}})
