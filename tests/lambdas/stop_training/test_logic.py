"""Which training job is stopped, and what AWS's refusals mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lambdas.shared.decisions import Nothing
from lambdas.stop_training.logic import StopRun, decide, read_refusal
from lambdas.stop_training.settings import StopTrainingSettings
from trackside.contracts.action import Action
from trackside.contracts.event import RuleEvaluation, RuleEvaluationStatus, TrainingJob

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"
ISSUE = RuleEvaluation(
    job=TrainingJob("digits-01", ARN),
    configuration_name="vanishing-gradient",
    status=RuleEvaluationStatus.ISSUES_FOUND,
    details="",
    actions=(Action.STOP_TRAINING, Action.NOTIFY),
)
SETTINGS = StopTrainingSettings(idempotency_table="done")


@pytest.mark.parametrize(
    ("evaluation", "settings"),
    [
        pytest.param(ISSUE, SETTINGS, id="asked for by the rule"),
        pytest.param(
            replace(ISSUE, actions=None),
            replace(SETTINGS, default_actions=(Action.STOP_TRAINING,)),
            id="official event, stopping is the deployment's default",
        ),
        pytest.param(
            replace(ISSUE, job=TrainingJob("another-name", ARN)), SETTINGS, id="the ARN decides, not the name beside it"
        ),
        pytest.param(
            replace(ISSUE, job=TrainingJob("x", ARN.replace("arn:aws:", "arn:aws-us-gov:"))),
            SETTINGS,
            id="other partition",
        ),
    ],
)
def test_stops_exactly_that_job(evaluation: RuleEvaluation, settings: StopTrainingSettings) -> None:
    assert decide(evaluation, settings) == StopRun("digits-01")


@pytest.mark.parametrize(
    ("evaluation", "settings", "surprising"),
    [
        pytest.param(replace(ISSUE, actions=(Action.NOTIFY,)), SETTINGS, False, id="the rule asks for something else"),
        pytest.param(replace(ISSUE, actions=()), SETTINGS, False, id="the rule asks for nothing"),
        pytest.param(replace(ISSUE, actions=None), SETTINGS, False, id="official event, stopping is not the default"),
        pytest.param(
            replace(ISSUE, actions=()),
            replace(SETTINGS, default_actions=(Action.STOP_TRAINING,)),
            False,
            id="our event asks for nothing: the default is not for it",
        ),
        *(
            pytest.param(replace(ISSUE, status=status), SETTINGS, False, id=f"status {status.value}")
            for status in RuleEvaluationStatus
            if status is not RuleEvaluationStatus.ISSUES_FOUND
        ),
        pytest.param(ISSUE, replace(SETTINGS, dry_run=True), True, id="dry run"),
        pytest.param(replace(ISSUE, job=TrainingJob("digits-01", "")), SETTINGS, True, id="no ARN"),
        pytest.param(
            replace(ISSUE, job=TrainingJob("x", ARN.replace("training-job", "processing-job"))),
            SETTINGS,
            True,
            id="ARN of something else",
        ),
        pytest.param(replace(ISSUE, job=TrainingJob("x", ARN + "*")), SETTINGS, True, id="ARN with an asterisk"),
    ],
)
def test_stops_nothing(evaluation: RuleEvaluation, settings: StopTrainingSettings, surprising: bool) -> None:
    decision = decide(evaluation, settings)
    assert isinstance(decision, Nothing)
    assert decision.surprising is surprising


@pytest.mark.parametrize(
    ("code", "message", "surprising"),
    [
        pytest.param(
            "ValidationException",
            "The request was rejected because the training job is in status Stopped.",
            False,
            id="stopped",
        ),
        pytest.param(
            "ValidationException",
            "The request was rejected because the training job is in status Stopping.",
            False,
            id="stopping",
        ),
        pytest.param(
            "ValidationException",
            "The request was rejected because the training job is in status Completed.",
            False,
            id="completed",
        ),
        pytest.param(
            "ValidationException", "Requested resource not found.", True, id="not found, as SageMaker says it"
        ),
        pytest.param("ResourceNotFound", "No such job", True, id="not found, as documented"),
    ],
)
def test_reads_a_refusal_that_trying_again_cannot_change(code: str, message: str, surprising: bool) -> None:
    refusal = read_refusal("digits-01", code=code, message=message)
    assert refusal is not None
    assert refusal.surprising is surprising
    assert message in refusal.reason


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("ThrottlingException", "Rate exceeded", id="throttled"),
        pytest.param("AccessDeniedException", "not authorized", id="no permission"),
        pytest.param("ValidationException", "1 validation error detected", id="another validation error"),
        pytest.param("InternalFailure", "", id="outage"),
    ],
)
def test_leaves_every_other_refusal_to_the_queue(code: str, message: str) -> None:
    assert read_refusal("digits-01", code=code, message=message) is None
