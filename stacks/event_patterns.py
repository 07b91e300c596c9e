"""Which events reach which reaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_events as events

from trackside.contracts.action import Action
from trackside.contracts.deployment.custom_rule_job import ACTIONS, RUN
from trackside.contracts.deployment.evaluators import JOB_NAME_PREFIX, NOTHING_JUDGED
from trackside.contracts.event import (
    AWS_DETAIL_TYPE,
    AWS_SOURCE,
    DETAIL_TYPE,
    NOTIFICATION_DETAIL_TYPE,
    PROCESSING_DETAIL_TYPE,
    SOURCE,
    TERMINAL_JOB_STATUSES,
    RuleEvaluationStatus,
)
from trackside.contracts.job_choice import ACTIONS_TAG, CHOICE_NAME, RUN_TAG
from trackside.contracts.run_layout import END_MARKER_KEY, TENSORS, WATERMARKS

ISSUES_FOUND = RuleEvaluationStatus.ISSUES_FOUND.value


def issue_found(action: Action) -> events.EventPattern:
    """Our event: a rule that asks for this action found an issue."""
    return events.EventPattern(
        source=[SOURCE],
        detail_type=[DETAIL_TYPE],
        detail={"RuleEvaluationStatus": [ISSUES_FOUND], "Actions": [action.value]},
    )


def official_issue_found() -> events.EventPattern:
    """AWS's event: one of the original's rules found an issue while the job runs. The rules are a list of objects,
    into which EventBridge looks. Later states repeat the same list, hence InProgress only."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={
            "TrainingJobStatus": ["InProgress"],
            "DebugRuleEvaluationStatuses": {"RuleEvaluationStatus": [ISSUES_FOUND]},
        },
    )


def owner_told() -> events.EventPattern:
    """Ours: notify_owner told the owner."""
    return events.EventPattern(source=[SOURCE], detail_type=[NOTIFICATION_DETAIL_TYPE])


def nothing_judged(bucket_name: str) -> events.EventPattern:
    """A processing job of ours ended well, but no rule could judge the run."""
    return _our_processing_job("Completed", bucket_name, ExitMessage=[{"prefix": NOTHING_JUDGED}])


def rule_status_changed() -> events.EventPattern:
    """Our event, whatever the rule said."""
    return events.EventPattern(source=[SOURCE], detail_type=[DETAIL_TYPE])


def official_rule_status_changed() -> events.EventPattern:
    """AWS's event of a job that the original's rules judge, in every state of the job."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={"DebugRuleEvaluationStatuses": {"RuleConfigurationName": [{"exists": True}]}},
    )


def training_changed() -> events.EventPattern:
    """A training job that opted in by its tag is in another state."""
    return events.EventPattern(
        source=[AWS_SOURCE], detail_type=[AWS_DETAIL_TYPE], detail={"Tags": {RUN_TAG: [{"exists": True}]}}
    )


def training_started() -> events.EventPattern:
    """A training job that opted in by its tag is running."""
    return _training_job(["InProgress"])


def training_ended() -> events.EventPattern:
    """A training job that opted in by its tag will never write again."""
    return _training_job(list(TERMINAL_JOB_STATUSES))


def evaluation_failed(bucket_name: str, *, but_for: str) -> events.EventPattern:
    """A processing job of ours failed: killed, no image, a rule request that is wrong. `but_for`: the role of those
    whose end `evaluator_ended` tells to start_evaluation, which knows whether another goes on."""
    return _our_processing_job("Failed", bucket_name, RoleArn=[{"anything-but": [but_for]}])


def custom_rule_failed(bucket_name: str) -> events.EventPattern:
    """A processing job of ours that judged by a rule from a file failed. None of the others is told its actions."""
    return _our_processing_job("Failed", bucket_name, told={ACTIONS: [{"exists": True}]})


def evaluator_ended(role_arn: str) -> events.EventPattern:
    """An evaluator has ended, however it did. It is known by its role, as `custom_rule_ended` says."""
    return custom_rule_ended(role_arn)


def custom_rule_ended(role_arn: str) -> events.EventPattern:
    """A processing job that judged by a rule from a file has ended. It is known by its role, which only the function
    that starts such jobs may pass: a name or a tag could be anybody's."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[PROCESSING_DETAIL_TYPE],
        detail={"ProcessingJobStatus": list(TERMINAL_JOB_STATUSES), "RoleArn": [role_arn]},
    )


def run_written(bucket_name: str) -> events.EventPattern:
    """S3: a run has got further, or has ended. Those without watermarks are looked at now and then."""
    written = [f"*/{WATERMARKS}/*", f"*/{TENSORS}/{END_MARKER_KEY}"]
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={"bucket": {"name": [bucket_name]}, "object": {"key": [{"wildcard": key} for key in written]}},
    )


def _our_processing_job(
    status: str, bucket_name: str, *, told: Mapping[str, Any] | None = None, **more: Any
) -> events.EventPattern:
    """A processing job with a name of ours is in that state, has `more` in its detail, and was `told` that. By the
    bucket of its run it is known from those of another deployment in the same account."""
    environment = {RUN: [{"prefix": f"s3://{bucket_name}/"}], **(told or {})}
    name = [{"prefix": JOB_NAME_PREFIX}]
    detail = {"ProcessingJobStatus": [status], "ProcessingJobName": name, "Environment": environment, **more}
    return events.EventPattern(source=[AWS_SOURCE], detail_type=[PROCESSING_DETAIL_TYPE], detail=detail)


def _training_job(statuses: list[str]) -> events.EventPattern:
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={"TrainingJobStatus": statuses, "Tags": {RUN_TAG: [{"exists": True}]}},
    )


def official_issue_found_and_asks_for(action: Action) -> events.EventPattern:
    """AWS's event as `official_issue_found`, of a job whose tag asks for this action."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={
            "TrainingJobStatus": ["InProgress"],
            "DebugRuleEvaluationStatuses": {"RuleEvaluationStatus": [ISSUES_FOUND]},
            "Tags": {ACTIONS_TAG: [{"wildcard": f"*{action.value}*"}]},
        },
    )


def wrong_choice() -> events.EventPattern:
    """Our event: what a job says of its rules cannot be done."""
    return events.EventPattern(
        source=[SOURCE],
        detail_type=[DETAIL_TYPE],
        detail={"RuleConfigurationName": [CHOICE_NAME], "RuleEvaluationStatus": [RuleEvaluationStatus.ERROR.value]},
    )


def untagged_training_started(names: Sequence[str]) -> events.EventPattern:
    """A training job without the tag runs; `names` are patterns with asterisks, none for any name. Of the states on the
    way two are looked at, for each look may cost a call to SageMaker, and one event may be lost."""
    detail: dict[str, Any] = {
        "TrainingJobStatus": ["InProgress"],
        "SecondaryStatus": ["Starting", "Training"],
        "Tags": {RUN_TAG: [{"exists": False}]},
    }
    if names:
        detail["TrainingJobName"] = [{"wildcard": name} for name in names]
    return events.EventPattern(source=[AWS_SOURCE], detail_type=[AWS_DETAIL_TYPE], detail=detail)
