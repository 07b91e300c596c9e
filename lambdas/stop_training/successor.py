"""The training job that goes on in the place of a stopped one: the reasons against it, and its request."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lambdas.stop_training.logic import Known
from lambdas.stop_training.settings import StopTrainingSettings
from trackside.contracts.action import Action
from trackside.contracts.deployment.stop_record import StopOutcome
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.event import RuleEvaluation, RuleEvaluationStatus
from trackside.contracts.job_choice import (
    MOST_TAG_CHARACTERS,
    MOST_VARIABLE_CHARACTERS,
    RESUMED_FROM_TAG,
    RUN_TAG,
    RUN_VARIABLE,
)
from trackside.contracts.run.rescue import CURABLE_RULES, Issue, Standing
from trackside.contracts.run.resumption import (
    CHECKPOINT_VARIABLE,
    EARLIER_RUN_VARIABLE,
    NAME_MARK,
    ORDER_VARIABLE,
    Resumption,
    place_after,
)
from trackside.contracts.run_layout import run_of_job
from trackside.contracts.verdict import Severity

MOST_NAME_CHARACTERS, MOST_VARIABLES, MOST_TAGS = 63, 100, 50  # API_CreateTrainingJob
_DIGEST_CHARACTERS = 8
_CHECKPOINTS = "/opt/ml/checkpoints"  # API_CheckpointConfig: where it names no folder
_PIPELINE_TAG = "sagemaker:pipeline-execution-arn"
# Field of DescribeTrainingJob -> what made a job that has it: it starts jobs itself, and knows nothing of another one.
_MADE_BY = {
    "TuningJobArn": "a hyperparameter-tuning job",
    "AutoMLJobArn": "an AutoML job",
    "LabelingJobArn": "a labeling job",
}


@dataclass(frozen=True)
class Successor:
    """A job that is to be created.

    name        its name, the same at each attempt
    request     all arguments of CreateTrainingJob
    order       its place in the row of jobs
    checkpoint  the file or folder that it goes on from
    """

    name: str
    request: Mapping[str, Any]
    order: Resumption
    checkpoint: str


def is_to_resume(evaluation: RuleEvaluation, known: Known, settings: StopTrainingSettings) -> bool:
    """Return True if this finding stopped the job, asks for another one, and nothing is decided about that yet."""
    if Action.RESUME_TRAINING not in evaluation.requested_actions(settings.default_actions):
        return False
    outcomes = {one.outcome for one in known.decisions if one.evaluation.finding_id == evaluation.finding_id}
    return StopOutcome.STOPPED in outcomes and not outcomes & {StopOutcome.RESUMED, StopOutcome.NOT_RESUMED}


def reason_to_leave(evaluation: RuleEvaluation, known: Known, settings: StopTrainingSettings) -> str:
    """Return why no other job may go on, a clause that needs no look at the job; "" if one may."""
    if not settings.resume_roles:
        return "this deployment may create no training jobs (its setting resume_roles is empty)"
    return _standing_of(evaluation, known)[1]


def successor_of(
    evaluation: RuleEvaluation,
    known: Known,
    described: Mapping[str, Any],
    tags: Mapping[str, str],
    settings: StopTrainingSettings,
    *,
    fields: Collection[str],
) -> Successor | str:
    """Return the job that goes on; a clause about the reason if none may.

    Args:
        evaluation: The finding that stopped the job.
        known: The state of table and switch.
        described: The answer of DescribeTrainingJob.
        tags: The job's tags.
        settings: Of this function.
        fields: The arguments of CreateTrainingJob.
    """
    found, why_not = _standing_of(evaluation, known)
    checkpoint = found.evidence.checkpoint
    before = _order_in(described)
    if isinstance(before, str):
        return before
    why_not = why_not or next(
        _refusals(evaluation, described, tags, settings, before=before, checkpoint=checkpoint), ""
    )
    if why_not:
        return why_not
    number, earlier = (before.number, before.rules) if before else (0, ())
    order = Resumption(
        before.first if before else evaluation.job.name,
        number + 1,
        evaluation.job.identity,
        checkpoint_step=found.evidence.checkpoint_step,
        at_step=max(found.evidence.step, evaluation.evidence.step),
        folder=_folder_of(described),
        rules=tuple(dict.fromkeys((*earlier, found.rule_id, evaluation.rule_id))),
        billed_seconds=(before.billed_seconds if before else 0) + int(described.get("BillableTimeInSeconds") or 0),
    )
    name, place = successor_name(order.first, order.number), place_after(tags[RUN_TAG], order.number)
    variables = {
        # So that it leaves out the batches of the fault, unless the script's owner has chosen something else.
        **({} if "TRACKSIDE_RESCUE" in _variables(described) else _RESCUE),
        **_variables(described),
        ORDER_VARIABLE: order.to_json(),
        EARLIER_RUN_VARIABLE: run_of_job(tags[RUN_TAG], evaluation.job.name),
        CHECKPOINT_VARIABLE: checkpoint,
        RUN_VARIABLE: place,
    }
    own_tags = {name: value for name, value in tags.items() if not name.lower().startswith("aws:")}
    own_tags |= {RUN_TAG: place, RESUMED_FROM_TAG: order.after}
    if too_much := _excess(variables, own_tags):
        return too_much
    same = {name: value for name, value in described.items() if name in fields and value not in (None, {}, [], "")}
    request = {
        **same,
        "TrainingJobName": name,
        "Environment": variables,
        "Tags": [{"Key": key, "Value": value} for key, value in own_tags.items()],
    }
    return Successor(name, request, order, checkpoint)


def successor_name(first: str, number: int) -> str:
    """Return the name of a job in the row after `first`: no other row has it, however long the names are."""
    end = f"{NAME_MARK}{number}"
    if len(first) + len(end) <= MOST_NAME_CHARACTERS:
        return f"{first}{end}"
    digest = hashlib.sha256(first.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    kept = first[: MOST_NAME_CHARACTERS - len(end) - len(digest) - 1].rstrip("-")
    return f"{kept}-{digest}{end}"


_RESCUE = {"TRACKSIDE_RESCUE": "1", "TRACKSIDE_RESCUE_MODE": "restart"}


def _standing_of(evaluation: RuleEvaluation, known: Known) -> tuple[RuleEvaluation, str]:
    """Return the curable issue that stands since the earliest step, and why going back cures it not ("": it may)."""
    latest = {one.evaluation.configuration_name: one.evaluation for one in known.rules.values()}
    latest[evaluation.configuration_name] = evaluation
    critical = [
        one
        for one in latest.values()
        if one.status is RuleEvaluationStatus.ISSUES_FOUND and one.severity is Severity.CRITICAL
    ]
    found = min(
        (one for one in critical if one.rule_id in CURABLE_RULES),
        key=lambda one: one.evidence.since_step,
        default=evaluation,
    )
    standing = Standing(tuple(Issue(one.rule_id, one.evidence.since_step) for one in critical))
    if evaluation.rule_id not in CURABLE_RULES:
        return found, f"going back does not cure what {evaluation.configuration_name} finds"
    since = found.evidence.since_step
    if refusal := standing.incurable_before(since):
        return found, refusal
    if not found.evidence.checkpoint:
        return found, f"no checkpoint from before step {since} is known"
    return found, ""


def _refusals(
    evaluation: RuleEvaluation,
    described: Mapping[str, Any],
    tags: Mapping[str, str],
    settings: StopTrainingSettings,
    *,
    before: Resumption | None,
    checkpoint: str,
) -> Iterator[str]:
    created_at = evaluation.job.created_at
    if created_at and int(described["CreationTime"].timestamp()) != created_at:
        yield "the job was deleted, and another one has its name"
    for name, maker in _MADE_BY.items():
        if described.get(name):
            yield f"{maker} made the job, and starts its jobs itself"
    if _PIPELINE_TAG in tags:
        yield "a pipeline made the job, and starts its jobs itself"
    if described.get("ServerlessJobConfig"):
        yield "the job is serverless, so no code of ours runs in it"
    if described.get("RoleArn") not in settings.resume_roles:
        yield f"its role {described.get('RoleArn')} is not among resume_roles"
    if RUN_TAG not in tags:
        yield f"the job carries no tag {RUN_TAG}"
    if before and evaluation.rule_id in before.rules:
        rule = evaluation.configuration_name
        yield f"{rule} found the same before in {before.job_before.name}: going back cures it not"
    if before and before.number >= settings.resumes_per_job:
        yield f"{before.first} went on {before.number} times, the most that resumes_per_job allows"
    if not (described.get("CheckpointConfig") or {}).get("S3Uri"):
        yield "the job has no CheckpointConfig, so its checkpoints are gone with it"
    folder = _folder_of(described)
    if not posixpath.normpath(checkpoint).startswith(f"{folder}/"):
        yield f"its checkpoint {checkpoint} lies outside of {folder}, which S3 keeps"


def _folder_of(described: Mapping[str, Any]) -> str:
    """Return the folder of checkpoints in the job's container."""
    kept = described.get("CheckpointConfig") or {}
    return posixpath.normpath(str(kept.get("LocalPath") or _CHECKPOINTS))


def _excess(variables: Mapping[str, str], tags: Mapping[str, str]) -> str:
    """Return what SageMaker would refuse as too much or too long, a clause; "" for nothing."""
    for name, value in variables.items():
        if len(value) > MOST_VARIABLE_CHARACTERS:
            return f"its variable {name} would have more than {MOST_VARIABLE_CHARACTERS} characters"
    for name, value in tags.items():
        if len(value) > MOST_TAG_CHARACTERS:
            return f"its tag {name} would have more than {MOST_TAG_CHARACTERS} characters"
    if len(variables) > MOST_VARIABLES:
        return f"it would have more than {MOST_VARIABLES} variables"
    return f"it would have more than {MOST_TAGS} tags" if len(tags) > MOST_TAGS else ""


def _order_in(described: Mapping[str, Any]) -> Resumption | str | None:
    """Return the job's own place in a row; None for the first job; a clause if it cannot be read."""
    text = _variables(described).get(ORDER_VARIABLE)
    try:
        return Resumption.from_json(text) if text else None
    except ConfigurationError:
        return f"its variable {ORDER_VARIABLE} is not ours"


def _variables(described: Mapping[str, Any]) -> dict[str, str]:
    return dict(described.get("Environment") or {})
