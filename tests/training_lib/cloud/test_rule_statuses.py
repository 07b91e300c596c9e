"""The statuses where scripts look for them: in DescribeTrainingJob's answer, and on the command line."""

from __future__ import annotations

import json
import logging
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from click.testing import CliRunner

from trackside.cli import main
from trackside.cloud.rule_statuses import STATUSES, fill_rule_statuses
from trackside.cloud.run_table import RunTable
from trackside.contracts.deployment.run_table import merged
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits"
ISSUE = RuleEvaluation(
    TrainingJob("digits", ARN),
    "dead-relu",
    RuleEvaluationStatus.ISSUES_FOUND,
    "Half of the neurons of layer 3 are dead.",
    rule_id="dead-relu",
    actions=(),
    evaluation_job_arn="arn:aws:sagemaker:us-east-1:123456789012:processing-job/evaluator",
    modified_at=1_795_226_614.0,
    evidence=Evidence(step=40),
)
OFFICIAL = {"RuleConfigurationName": "Overfit", "RuleEvaluationStatus": "InProgress"}


def client_that_answers(**description: Any) -> tuple[Any, Stubber]:
    client = boto3.client("sagemaker", region_name="us-east-1")
    stubber = Stubber(client)
    needed = {
        "TrainingJobName": "digits",
        "TrainingJobArn": ARN,
        "ModelArtifacts": {"S3ModelArtifacts": "s3://b/m"},
        "TrainingJobStatus": "InProgress",
        "SecondaryStatus": "Training",
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"VolumeSizeInGB": 1},
        "StoppingCondition": {},
        "CreationTime": "2026-11-21T00:00:00Z",
    }
    for _ in range(3):
        stubber.add_response("describe_training_job", {**needed, **description}, {"TrainingJobName": "digits"})
    stubber.activate()
    return client, stubber


def described(client: Any) -> Any:
    return client.describe_training_job(TrainingJobName="digits")


def test_our_statuses_stand_in_the_answer(table: RunTable, put: Any) -> None:
    client, _ = client_that_answers()
    assert fill_rule_statuses(client, table=table) is client
    assert STATUSES not in described(client)  # no rule has judged yet
    put(merged(None, ISSUE))
    (status,) = described(client)[STATUSES]
    assert (status["RuleConfigurationName"], status["RuleEvaluationStatus"]) == ("dead-relu", "IssuesFound")
    shape = client.meta.service_model.shape_for("DebugRuleEvaluationStatus")
    assert set(status) == set(shape.members)
    assert status["RuleEvaluationStatus"] in shape.members["RuleEvaluationStatus"].enum


def test_of_the_deployment_in_the_clients_account(table: RunTable, put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_TABLE", "runs")
    put(merged(None, ISSUE))
    client, _ = client_that_answers()
    assert described(fill_rule_statuses(client))[STATUSES]


def test_told_twice_is_told_once(table: RunTable, put: Any) -> None:
    put(merged(None, ISSUE))
    client, _ = client_that_answers()
    fill_rule_statuses(fill_rule_statuses(client, table=table), table=table)
    assert len(described(client)[STATUSES]) == 1


def test_amazons_own_statuses_stay(table: RunTable, put: Any) -> None:
    put(merged(None, ISSUE))
    client, _ = client_that_answers(**{STATUSES: [OFFICIAL]})
    assert described(fill_rule_statuses(client, table=table))[STATUSES] == [OFFICIAL]


def test_an_error_stays_an_error(table: RunTable) -> None:
    client = boto3.client("sagemaker", region_name="us-east-1")
    with Stubber(client) as stubber:
        stubber.add_client_error("describe_training_job", "ValidationException", "Requested resource not found.")
        with pytest.raises(ClientError, match="not found"):
            described(fill_rule_statuses(client, table=table))


def test_a_table_that_cannot_be_read_disturbs_nobody(table: RunTable, caplog: pytest.LogCaptureFixture) -> None:
    client, _ = client_that_answers()
    fill_rule_statuses(client, table=RunTable("no-such-table"))
    with caplog.at_level(logging.WARNING):
        assert [STATUSES in described(client) for _ in range(3)] == [False, False, False]
    (line,) = caplog.messages  # once
    assert "not filled in" in line
    assert "There is no table no-such-table in us-east-1" in line


def test_while_the_table_does_not_answer_it_is_asked_once_a_minute(table: RunTable, put: Any) -> None:
    """A loop that polls would else wait for the table's timeouts in each of its rounds."""
    client, _ = client_that_answers()
    looked, now = [], [0.0]

    def find() -> RunTable:
        looked.append(now[0])
        return RunTable("runs" if now[0] else "no-such-table")

    put(merged(None, ISSUE))
    fill_rule_statuses(client, table=find, monotonic=lambda: now[0])
    assert [STATUSES in described(client) for _ in range(2)] == [False, False]
    now[0] = 60.0
    assert STATUSES in described(client)
    assert looked == [0.0, 60.0]


def test_the_command_prints_amazons_shape(table: RunTable, put: Any) -> None:
    put(merged(None, ISSUE))
    result = CliRunner().invoke(main, ["aws", "rules", "digits", "--table", "runs"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        STATUSES: [
            {
                "RuleConfigurationName": "dead-relu",
                "RuleEvaluationJobArn": ISSUE.evaluation_job_arn,
                "RuleEvaluationStatus": "IssuesFound",
                "StatusDetails": ISSUE.details,
                "LastModifiedTime": "2026-11-21T02:03:34+00:00",
            }
        ]
    }
    result = CliRunner().invoke(main, ["aws", "rules", "not-judged-yet", "--table", "runs"])
    assert json.loads(result.stdout) == {STATUSES: []}
