"""Which events reach which reaction."""

from __future__ import annotations

from aws_cdk import aws_events as events

from lambdas.shared.processing_jobs import NAME_PREFIX
from lambdas.shared.runs import RUN_TAG
from trackside.contracts.action import Action
from trackside.contracts.event import (
    AWS_DETAIL_TYPE,
    AWS_SOURCE,
    DETAIL_TYPE,
    PROCESSING_DETAIL_TYPE,
    SOURCE,
    TERMINAL_JOB_STATUSES,
    RuleEvaluationStatus,
)
from trackside.contracts.run_layout import END_MARKER_KEY, INDEX_PREFIX, PACKED_INDEX_PREFIX, STATISTICS, TENSORS

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


def evaluation_failed(*, but_for: str) -> events.EventPattern:
    """A processing job of ours failed: killed, no image, a rule request that is wrong. `but_for`: the role of those
    whose end `evaluator_ended` tells to start_evaluation, which knows whether another goes on."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[PROCESSING_DETAIL_TYPE],
        detail={
            "ProcessingJobStatus": ["Failed"],
            "ProcessingJobName": [{"prefix": NAME_PREFIX}],
            "RoleArn": [{"anything-but": [but_for]}],
        },
    )


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
    """S3: something that rules read was stored in a run. An index file, for it promises the events it points into."""
    written = [f"*/{TENSORS}/{INDEX_PREFIX}*", f"*/{TENSORS}/{PACKED_INDEX_PREFIX}*", f"*/{STATISTICS}/*"]
    written.append(f"*/{TENSORS}/{END_MARKER_KEY}")
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={"bucket": {"name": [bucket_name]}, "object": {"key": [{"wildcard": key} for key in written]}},
    )


def _training_job(statuses: list[str]) -> events.EventPattern:
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={"TrainingJobStatus": statuses, "Tags": {RUN_TAG: [{"exists": True}]}},
    )
