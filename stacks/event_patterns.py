"""Which events reach which reaction."""

from __future__ import annotations

from aws_cdk import aws_events as events

from lambdas.notify_owner.unjudged import NOTHING_JUDGED
from lambdas.shared.processing_jobs import NAME_PREFIX
from lambdas.shared.runs import RUN_TAG
from trackside.contracts.action import Action
from trackside.contracts.event import (
    AWS_DETAIL_TYPE,
    AWS_SOURCE,
    DETAIL_TYPE,
    NOTIFICATION_DETAIL_TYPE,
    SOURCE,
    TERMINAL_JOB_STATUSES,
    RuleEvaluationStatus,
)

PROCESSING_DETAIL_TYPE = "SageMaker Processing Job State Change"
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


def nothing_judged() -> events.EventPattern:
    """A processing job of ours ended well, but no rule could judge the run."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[PROCESSING_DETAIL_TYPE],
        detail={
            "ProcessingJobStatus": ["Completed"],
            "ProcessingJobName": [{"prefix": NAME_PREFIX}],
            "ExitMessage": [{"prefix": NOTHING_JUDGED}],
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


def evaluation_failed() -> events.EventPattern:
    """A processing job of ours ended without having judged its run: killed, no image, a rule request that is wrong."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[PROCESSING_DETAIL_TYPE],
        detail={"ProcessingJobStatus": ["Failed"], "ProcessingJobName": [{"prefix": NAME_PREFIX}]},
    )


def custom_rule_ended(role_arn: str) -> events.EventPattern:
    """A processing job that judged by a rule from a file has ended. It is known by its role, which only the function
    that starts such jobs may pass: a name or a tag could be anybody's."""
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[PROCESSING_DETAIL_TYPE],
        detail={"ProcessingJobStatus": list(TERMINAL_JOB_STATUSES), "RoleArn": [role_arn]},
    )


def _training_job(statuses: list[str]) -> events.EventPattern:
    return events.EventPattern(
        source=[AWS_SOURCE],
        detail_type=[AWS_DETAIL_TYPE],
        detail={"TrainingJobStatus": statuses, "Tags": {RUN_TAG: [{"exists": True}]}},
    )
