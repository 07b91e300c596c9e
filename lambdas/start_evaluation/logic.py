"""The processing jobs for a started training job: the evaluator, and one for each rule from a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lambdas.shared.decisions import Nothing
from lambdas.shared.processing_jobs import processing_job_name
from lambdas.shared.runs import find_run
from lambdas.start_evaluation.placement import cluster_of, network_of
from lambdas.start_evaluation.settings import StartEvaluationSettings
from trackside.contracts.deployment.custom_rule_job import (
    MOST_JOBS,
    MOST_VALUE_CHARACTERS,
    CustomRuleJob,
    job_variables,
    judged_separately,
)
from trackside.contracts.event import TrainingJob, TrainingJobStateChange
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run_layout import RunLocation


@dataclass(frozen=True)
class StartEvaluation:
    """The decision to start a processing job for `run`.

    - `name`: name of the processing job
    - `job`: the training job
    - `request`: all arguments of CreateProcessingJob
    - `reason`: why it takes another's place; "" if it does not
    """

    name: str
    job: TrainingJob
    run: RunLocation
    request: Mapping[str, Any]
    reason: str = ""


def decide(change: TrainingJobStateChange, settings: StartEvaluationSettings) -> StartEvaluation | Nothing:
    """Return the start for a running job that is tagged with a run of this deployment; nothing for others."""
    if change.status != "InProgress":
        return Nothing(f"{change.job.name} is {change.status}, so there is nothing to watch.")
    run = find_run(change, bucket=settings.run_bucket, spoke_accounts=settings.spoke_accounts)
    if isinstance(run, Nothing):
        return run
    environment = {
        "TRACKSIDE_RUN": run.uri,
        "TRACKSIDE_EVENT_BUS": settings.event_bus,
        **job_variables(change.job),
        "TRACKSIDE_POLL_SECONDS": str(settings.poll_seconds),
    }
    if settings.custom_rules_from:
        environment["TRACKSIDE_CUSTOM_RULES_FROM"] = settings.custom_rules_from
    too_long = [name for name, value in environment.items() if len(value) > MOST_VALUE_CHARACTERS]
    if too_long:
        what = f"{', '.join(too_long)} of {change.job.name} would be longer than the {MOST_VALUE_CHARACTERS} characters"
        return Nothing(f"{what} that a processing job's environment holds. Choose a shorter place.", surprising=True)
    name = processing_job_name(change.job)
    request = processing_job_request(
        name, change.job, run, environment, settings, image_uri=settings.image_uri, role_arn=settings.role_arn
    )
    return StartEvaluation(name, change.job, run, request)


def decide_custom(
    job: TrainingJob, run: RunLocation, request: RuleRequest, settings: StartEvaluationSettings
) -> Iterator[StartEvaluation | Nothing]:
    """Yield one job for each rule from a file in the run's request that this deployment runs.

    For the others, yield the reason. The evaluator reports on the bus that they are not judged.
    """
    separate_rules = judged_separately(request, place=settings.custom_rules_from)
    for rule in request.rules:
        if rule.custom is None:
            continue
        if rule not in separate_rules:
            why = f"only files below {settings.custom_rules_from or '(none)'} are run, and not more than {MOST_JOBS}"
            yield Nothing(f"{rule.name} of {job.name} is not judged: {why}.", surprising=True)
            continue
        name = processing_job_name(job, rule.name)
        rule_job = CustomRuleJob(
            training_job=job,
            run_uri=run.uri,
            configuration=rule.name,
            rule=rule.custom.class_name,
            actions=rule.actions,
            place=settings.custom_rules_from,
        )
        image, role = settings.custom_rule_image_uri, settings.custom_rule_role_arn
        given = processing_job_request(
            name, job, run, rule_job.to_environment(), settings, image_uri=image, role_arn=role
        )
        yield StartEvaluation(name, job, run, given)


def processing_job_request(
    name: str,
    job: TrainingJob,
    run: RunLocation,
    environment: Mapping[str, str],
    settings: StartEvaluationSettings,
    *,
    image_uri: str,
    role_arn: str,
) -> dict[str, Any]:
    """Return all arguments of CreateProcessingJob, for one processing job of `job`."""
    return {
        "ProcessingJobName": name,
        "AppSpecification": {"ImageUri": image_uri},
        "RoleArn": role_arn,
        "Environment": dict(environment),
        "ProcessingResources": {"ClusterConfig": cluster_of(settings)},
        **network_of(settings),
        "StoppingCondition": {"MaxRuntimeInSeconds": settings.max_runtime_seconds},
        "Tags": [
            {"Key": "trackside:training-job", "Value": job.arn},
            {"Key": "trackside:run", "Value": run.uri},
            *_cost_tags(settings),
        ],
    }


def _cost_tags(settings: StartEvaluationSettings) -> Iterator[Mapping[str, str]]:
    for tag in settings.cost_tags:
        name, _, value = tag.partition("=")
        yield {"Key": name, "Value": value}
