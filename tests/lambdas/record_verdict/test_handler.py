"""Deliveries as they come: twice, out of order, at the same time, refused and broken. The table tells the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from lambdas.record_verdict.handler import handle
from lambdas.record_verdict.settings import RecordVerdictSettings
from lambdas.record_verdict.table_writer import MOST_TRIES, record
from lambdas.shared.clients import client
from lambdas.shared.run_table import RunTable
from tests.lambda_settings import made
from trackside.contracts.deployment.run_table import HistoryRecord, JobRecord, RuleRecord
from trackside.contracts.event import read_rule_evaluations

Golden = Callable[..., dict[str, Any]]
Deliver = Callable[..., list[str]]
MS = 1795226674000


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        made(RecordVerdictSettings, run_table="runs", run_bucket="runs-bucket", retention_days=10)
        .to_environment()
        .items()
    ):
        monkeypatch.setenv(name, value)


def life(golden: Golden) -> list[dict[str, Any]]:
    """An issue that is found, recovers and comes back, in a job that ends."""
    found = golden("ours_issues_found")
    recovered = golden("ours_issues_found", RuleEvaluationStatus="NoIssuesFound", LastModifiedTime=MS + 60_000)
    again = golden("ours_issues_found", LastModifiedTime=MS + 120_000)
    again["detail"]["Evidence"]["SinceStep"] = 300
    ended = golden("training_stopped", LastModifiedTime=MS + 130_000)
    return [golden("training_started"), found, recovered, again, ended]


def test_an_issue_that_comes_back_is_a_new_entry_whatever_the_order(
    account: Any, golden: Golden, deliver: Deliver
) -> None:
    events = life(golden)
    told = set()
    for order in itertools.islice(itertools.permutations(range(5)), 0, 120, 7):
        for item in account.items().values():
            client("dynamodb").delete_item(TableName="runs", Key={"pk": item["pk"], "sk": item["sk"]})
        assert deliver(handle, *(events[index] for index in order for _ in range(2))) == []
        items = account.items()
        rule = RuleRecord.from_item(items["rule#vanishing-gradient"])
        assert rule.evaluation.found_issues
        assert rule.findings == (120, 300)
        assert (rule.first_found_at, rule.last_found_at) == (MS / 1000, MS / 1000 + 120)
        assert JobRecord.from_item(items["job"]).status == "Stopped"
        told.add(tuple(sorted(items)))
    ((keys),) = told
    assert [key.split("#")[-1] for key in keys if key.startswith("history#")] == [
        "IssuesFound",
        "NoIssuesFound",
        "IssuesFound",
    ]


def test_official_events_repeat_themselves_and_are_recorded_once(
    account: Any, golden: Golden, deliver: Deliver
) -> None:
    first, later = golden("official_issues_found"), golden("official_stopped")
    assert deliver(handle, first, later, first) == []
    assert len(account.items("history#")) == len(account.items("rule#")) == 2
    item = account.items("rule#VanishingGradient")["rule#VanishingGradient"]
    assert RuleRecord.from_item(item).evaluation.actions is None
    assert JobRecord.from_item(account.items()["job"]).status == "Stopped"


def test_items_are_forgotten_in_time(account: Any, golden: Golden) -> None:
    (said,) = read_rule_evaluations(golden("ours_issues_found"))
    record(HistoryRecord(said), RunTable("runs", retention_days=10, clock=lambda: 1000.0))
    assert {item["expires_at"]["N"] for item in account.items().values()} == {str(1000 + 10 * 86_400)}
    record(HistoryRecord(said), RunTable("runs", retention_days=0))


def test_a_table_that_is_throttled_returns_the_message_and_loses_nothing(
    account: Any, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    dynamodb, event = client("dynamodb"), golden("ours_issues_found")
    refusal = ClientError({"Error": {"Code": "ProvisionedThroughputExceededException"}}, "TransactWriteItems")

    def refuse(**_: Any) -> None:
        raise refusal

    with monkeypatch.context() as patch:
        patch.setattr(dynamodb, "transact_write_items", refuse)
        assert deliver(handle, event, golden("training_started")) == ["message-0"]
        assert set(account.items()) == {"job"}
    assert deliver(handle, event) == []
    assert len(account.items("history#")) == 1


def test_a_twin_at_work_makes_it_look_again(account: Any, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its look and its write another delivery writes, each time: it gives up, and nothing is lost."""
    (said,) = read_rule_evaluations(golden("ours_issues_found"))
    table, look = RunTable("runs", retention_days=0), RunTable.rule
    steps = iter(range(1000))

    def look_and_be_overtaken(self: RunTable, arn: str, name: str) -> RuleRecord | None:
        known = look(self, arn, name)
        if (step := next(steps)) < overtakings:
            other = golden("ours_issues_found", LastModifiedTime=step, StatusDetails=f"number {step}")
            twin = HistoryRecord(read_rule_evaluations(other)[0])
            assert table.put_evaluation(twin, RuleRecord(twin.evaluation, revision=step + 1), known=known) == ""
        return known

    monkeypatch.setattr(RunTable, "rule", look_and_be_overtaken)
    overtakings = MOST_TRIES
    with pytest.raises(TimeoutError, match="kept changing"):
        record(HistoryRecord(said), table)
    overtakings = 0
    assert len(account.items("history#")) == MOST_TRIES


def test_one_bad_message_does_not_hold_back_its_neighbours(account: Any, golden: Golden, deliver: Deliver) -> None:
    unreadable = golden("ours_issues_found", RuleEvaluationStatus="Perhaps")
    nameless = golden("ours_issues_found", TrainingJobArn="")
    failed = deliver(handle, "not json", "{}", unreadable, nameless, golden("ours_issues_found"))
    assert failed == ["message-0", "message-1", "message-2", "message-3"]
    assert len(account.items("history#")) == 1


def test_an_item_holds_the_evidence(account: Any, golden: Golden, deliver: Deliver) -> None:
    assert deliver(handle, golden("ours_issues_found")) == []
    (item,) = boto3.client("dynamodb").query(
        TableName="runs",
        KeyConditionExpression="pk = :job AND begins_with(sk, :history)",
        ExpressionAttributeValues={
            ":job": {"S": golden("ours_issues_found")["detail"]["TrainingJobArn"]},
            ":history": {"S": "history#"},
        },
    )["Items"]
    history = HistoryRecord.from_item(item)
    assert history.evaluation == read_rule_evaluations(golden("ours_issues_found"))[0]
    assert history.event_id == golden("ours_issues_found")["id"]


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("event", "seconds_later", "latencies"),
    [
        pytest.param("ours_issues_found", 2.5, [2.5], id="ours"),
        pytest.param("ours_issues_found", -3.0, [0.0], id="the evaluator's clock is ahead"),
        pytest.param("training_started", 2.5, None, id="a job's state is no verdict"),
    ],
)
def test_counts_how_long_a_verdict_took_to_its_record(
    golden: Golden,
    deliver: Deliver,
    counted: Callable[[], dict[str, list[float]]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    event: str,
    seconds_later: float,
    latencies: list[float] | None,
) -> None:
    now = MS / 1000 + seconds_later
    monkeypatch.setattr("lambdas.record_verdict.table_writer.time", SimpleNamespace(time=lambda: now))
    given = golden(event, LastModifiedTime=MS)
    assert deliver(handle, given) == []
    assert counted().get("DetectionLatency") == latencies
    assert deliver(handle, given) == []
    assert "DetectionLatency" not in counted(), "a duplicate, or a replay of the archive, is no verdict that was late"


def test_a_job_of_another_deployment_in_this_account_is_not_recorded(
    account: Any, golden: Golden, deliver: Deliver
) -> None:
    tags = {"trackside:run": "s3://runs-bucket-staging/digits-01"}
    assert deliver(handle, golden("training_started", Tags=tags)) == []
    assert account.items() == {}
    assert deliver(handle, golden("training_started")) == []
    assert set(account.items()) == {"job"}
