"""The patterns of events for each reaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aws_cdk import aws_events as events

from trackside.contracts.action import Action
from trackside.contracts.deployment.custom_rule_job import ACTIONS, RUN
from trackside.contracts.deployment.evaluators import JOB_NAME_PREFIX, NOTHING_JUDGED
from trackside.contracts.deployment.wildcards import MOST_COMPLEX, wildcard_complexity
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


def issue_found(*actions: Action) -> events.EventPattern:
    """Return the pattern of our event: a rule that asks for one of these actions found an issue."""
    return events.EventPattern(
        source=[SOURCE],
        detail_type=[DETAIL_TYPE],
        detail={"RuleEvaluationStatus": [ISSUES_FOUND], "Actions": [action.value for action in actions]},
    )


def official_issue_found() -> events.EventPattern:
    """Return the pattern of AWS's event: a rule of SageMaker Debugger found an issue while the job runs.

    The rules are a list of objects, into which EventBridge looks. Later states repeat the same list, hence InProgress
    only.
    """
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={
            "TrainingJobStatus": ["InProgress"],
            "DebugRuleEvaluationStatuses": {"RuleEvaluationStatus": [ISSUES_FOUND]},
        },
    )


def owner_notified() -> events.EventPattern:
    """Return the pattern of our event: notify_owner has notified the owner."""
    return events.EventPattern(source=[SOURCE], detail_type=[NOTIFICATION_DETAIL_TYPE])


def nothing_judged(bucket_name: str) -> events.EventPattern:
    """Return the pattern of a processing job of ours that ended well, but no rule could judge the run."""
    return _our_processing_job("Completed", bucket_name, ExitMessage=[{"prefix": NOTHING_JUDGED}])


def rule_status_changed() -> events.EventPattern:
    """Return the pattern of our event about a rule, with any status."""
    return events.EventPattern(source=[SOURCE], detail_type=[DETAIL_TYPE])


def official_rule_status_changed() -> events.EventPattern:
    """Return the pattern of AWS's event of a job that SageMaker Debugger's rules judge, in every state of the job."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={"DebugRuleEvaluationStatuses": {"RuleConfigurationName": [{"exists": True}]}},
    )


def training_changed() -> events.EventPattern:
    """Return the pattern of a new state of a training job with our tag."""
    return events.EventPattern(
        source=[AWS_SOURCE], detail_type=[AWS_DETAIL_TYPE], detail={"Tags": {RUN_TAG: [{"exists": True}]}}
    )


def training_started_or_ended() -> events.EventPattern:
    """Return the pattern of a training job with our tag that runs, or that will never write again."""
    statuses = ["InProgress", *TERMINAL_JOB_STATUSES]
    tags = {RUN_TAG: [{"exists": True}]}
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={"TrainingJobStatus": statuses, "Tags": tags},
    )


def evaluation_failed(bucket_name: str, *, but_for: str) -> events.EventPattern:
    """Return the pattern of a processing job of ours that failed: killed, no image, a wrong rule request.

    `but_for`: the role of jobs with an end that `evaluator_ended` matches: start_evaluation knows of a successor.
    """
    return _our_processing_job("Failed", bucket_name, RoleArn=[{"anything-but": [but_for]}])


def custom_rule_failed(bucket_name: str) -> events.EventPattern:
    """Return the pattern of a failed processing job of ours that judged by a rule from a file.

    Only jobs of this kind have actions in their environment.
    """
    return _our_processing_job("Failed", bucket_name, variables={ACTIONS: [{"exists": True}]})


def evaluator_ended(role_arn: str) -> events.EventPattern:
    """Return the pattern of an evaluator that has ended, in any way.

    Its role identifies it, as in `custom_rule_ended`.
    """
    return custom_rule_ended(role_arn)


def custom_rule_ended(role_arn: str) -> events.EventPattern:
    """Return the pattern of an ended processing job that judged by a rule from a file.

    Its role identifies it, which only the function that starts such jobs may pass: a name or a tag could be anybody's.
    """
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[PROCESSING_DETAIL_TYPE],
        detail={"ProcessingJobStatus": list(TERMINAL_JOB_STATUSES), "RoleArn": [role_arn]},
    )


def run_written(bucket_name: str) -> events.EventPattern:
    """Return the pattern of S3's event: a run has more steps, or has ended. Runs without watermarks are polled."""
    written = [f"*/{WATERMARKS}/*", f"*/{TENSORS}/{END_MARKER_KEY}"]
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={"bucket": {"name": [bucket_name]}, "object": {"key": [{"wildcard": key} for key in written]}},
    )


def _our_processing_job(
    status: str, bucket_name: str, *, variables: Mapping[str, Any] | None = None, **more: Any
) -> events.EventPattern:
    """Return the pattern of a processing job with a name of ours in that state.

    - `more`: further fields of its detail
    - `variables`: variables of its environment

    The bucket of its run separates it from those of another deployment in the same account.
    """
    environment = {RUN: [{"prefix": f"s3://{bucket_name}/"}], **(variables or {})}
    name = [{"prefix": JOB_NAME_PREFIX}]
    detail = {"ProcessingJobStatus": [status], "ProcessingJobName": name, "Environment": environment, **more}
    return events.EventPattern(source=[AWS_SOURCE], detail_type=[PROCESSING_DETAIL_TYPE], detail=detail)


def official_issue_found_with_action(*actions: Action) -> events.EventPattern:
    """Return the pattern of `official_issue_found`, for a job with a tag that asks for one of these actions."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={
            "TrainingJobStatus": ["InProgress"],
            "DebugRuleEvaluationStatuses": {"RuleEvaluationStatus": [ISSUES_FOUND]},
            "Tags": {ACTIONS_TAG: [{"wildcard": f"*{action.value}*"} for action in actions]},
        },
    )


def wrong_choice() -> events.EventPattern:
    """Return the pattern of our event: a job's choice of rules is wrong."""
    return events.EventPattern(
        source=[SOURCE],
        detail_type=[DETAIL_TYPE],
        detail={"RuleConfigurationName": [CHOICE_NAME], "RuleEvaluationStatus": [RuleEvaluationStatus.ERROR.value]},
    )


def in_rules(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the names in groups that EventBridge takes in one rule each; no names are one group."""
    group: list[str] = []
    for name in names:
        if group and wildcard_complexity(each for each in (*group, name) if "*" in each) > MOST_COMPLEX:
            yield group
            group = []
        group.append(name)
    yield group


def untagged_training_started(names: Sequence[str]) -> events.EventPattern:
    """Return the pattern of a running training job without the tag.

    `names` are patterns with asterisks, none for any name. Of the states on the way two are matched, because each may
    cost a call to SageMaker, and one event may be lost.
    """
    detail: dict[str, Any] = {
        "TrainingJobStatus": ["InProgress"],
        "SecondaryStatus": ["Starting", "Training"],
        "Tags": {RUN_TAG: [{"exists": False}]},
    }
    if names:
        detail["TrainingJobName"] = [{"wildcard": name} if "*" in name else name for name in names]
    return events.EventPattern(source=[AWS_SOURCE], detail_type=[AWS_DETAIL_TYPE], detail=detail)
