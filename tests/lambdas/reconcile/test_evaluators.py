"""Whether a training job is judged, in each mode of evaluator."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import ANY, Stubber

from benchmarks.fleet_kills import create_lease_table
from lambdas.reconcile.evaluators import FLEETS_NAME
from lambdas.reconcile.handler import handle
from lambdas.reconcile.sagemaker import processing_jobs
from lambdas.reconcile.signs_of_life import signs_of_life
from lambdas.shared.processing_jobs import chain_of, evaluator_name
from tests.lambdas.reconcile.test_handler import (
    ARN,
    CREATED,
    TICK,
    Deliver,
    describes,
    describes_evaluator,
    gives_a_sign,
    hold,
    knows_no_evaluator,
    lists,
    lists_evaluators,
    queues,
    sent,
)
from trackside.contracts.deployment.evaluators import CONTINUED_PREFIX, FLEET, PER_RULE
from trackside.contracts.deployment.lease import LeaseRecord, LeaseState
from trackside.contracts.event import TrainingJob
from trackside.contracts.run_layout import RunLocation

__all__ = ["queues"]  # a fixture
JOB = TrainingJob("digits", ARN + "digits", int(CREATED))
Counted = Callable[[], dict[str, list[float]]]
HANDED_OVER = ("", "Completed", f"{CONTINUED_PREFIX}judged up to step 7.")


@pytest.fixture
def later(queues: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:  # after `queues`, which stops the clock
    """An hour after all signs of life."""
    moment = time.time() + 3600
    monkeypatch.setattr("lambdas.reconcile.handler.time", SimpleNamespace(time=lambda: moment))


def told(url: str) -> list[dict[str, Any]]:
    found = boto3.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    return [json.loads(message["Body"]) for message in found]


def put_lease(**more: Any) -> None:
    create_lease_table(boto3.client("dynamodb"), "leases")
    record = LeaseRecord(JOB, "s3://runs-bucket/digits", free_at=0.0, **more)
    boto3.client("dynamodb").put_item(TableName="leases", Item=record.to_item())


@pytest.mark.usefixtures("later")
def test_a_link_that_ended_and_has_no_successor_is_told_of(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, counted: Counted
) -> None:
    hold("digits", evaluator="trackside-digits")
    gives_a_sign("digits")
    lists(sagemaker, "digits")
    lists_evaluators(sagemaker, "digits", HANDED_OVER)
    describes_evaluator(sagemaker, evaluator_name(JOB), "Completed")
    assert deliver(handle, TICK) == []
    (event,) = told(queues["start"])
    assert (event["source"], event["detail-type"]) == (
        "trackside.reconcile",
        "SageMaker Processing Job State Change",
    )
    assert event["detail"]["ProcessingJobName"] == evaluator_name(JOB)
    assert counted()["SilentEvaluators"] == [1]


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    ("links", "silent"),
    [
        pytest.param([("-2", "InProgress", ""), HANDED_OVER], 1, id="the second hangs"),
        pytest.param([("-2", "Completed", "No issue found."), HANDED_OVER], 0, id="the second is done"),
        pytest.param([], 1, id="there is none"),
    ],
)
def test_only_the_latest_of_a_chain_counts(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, counted: Counted, *, links: Any, silent: int
) -> None:
    hold("digits", evaluator="trackside-digits")
    gives_a_sign("digits")
    lists(sagemaker, "digits")
    lists_evaluators(sagemaker, "digits", *links)
    assert deliver(handle, TICK) == []
    assert counted()["SilentEvaluators"] == [silent]
    assert sent(queues["start"]) == []


@pytest.mark.parametrize(
    ("jobs", "signs", "silent"),
    [
        pytest.param(2, 2, 0, id="all speak"),
        pytest.param(3, 2, 1, id="one of three was never heard"),
    ],
)
def test_of_several_evaluators_each_must_speak(
    sagemaker: Stubber,
    queues: dict[str, str],
    deliver: Deliver,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    *,
    jobs: int,
    signs: int,
    silent: int,
) -> None:
    monkeypatch.setenv("TRACKSIDE_EVALUATOR_MODE", PER_RULE)
    hold("digits", evaluator="trackside-digits")
    long_ago = {"rule-output/gone": 3600.0}
    fresh = {f"rule-output/rule-{number}": 60.0 for number in range(signs)}
    now = time.time() + 3600
    moments = {**long_ago, **fresh}
    monkeypatch.setattr("lambdas.reconcile.handler.time", SimpleNamespace(time=lambda: now))
    monkeypatch.setattr(
        "lambdas.reconcile.evaluators.signs_of_life", lambda run: [now - age for age in moments.values()]
    )
    lists(sagemaker, "digits")
    lists_evaluators(sagemaker, "digits", *[(f"-{number:06x}", "InProgress", "") for number in range(jobs)])
    assert deliver(handle, TICK) == []
    assert counted()["SilentEvaluators"] == [silent]


def test_with_a_job_for_each_rule_any_of_them_judges(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_EVALUATOR_MODE", PER_RULE)
    hold("digits")
    lists(sagemaker, "digits")
    lists_evaluators(sagemaker, "digits", ("-0a1b2c", "InProgress", ""))
    assert deliver(handle, TICK) == []
    assert sent(queues["start"]) == []


def test_all_evaluators_of_a_job_are_seen_however_many_they_were(sagemaker: Stubber) -> None:
    asked = {
        "NameContains": "a",
        "CreationTimeAfter": ANY,
        "SortBy": "CreationTime",
        "SortOrder": "Descending",
        "MaxResults": 100,
    }
    summaries = [
        {
            "ProcessingJobName": f"trackside-{number}",
            "ProcessingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:processing-job/x",
            "CreationTime": 0,
            "ProcessingJobStatus": "InProgress",
        }
        for number in range(3)
    ]
    sagemaker.add_response("list_processing_jobs", {"ProcessingJobSummaries": summaries[:2], "NextToken": "n"}, asked)
    sagemaker.add_response(
        "list_processing_jobs", {"ProcessingJobSummaries": summaries[2:]}, asked | {"NextToken": "n"}
    )
    assert [each["ProcessingJobName"] for each in processing_jobs("a", since=0)] == [
        "trackside-0",
        "trackside-1",
        "trackside-2",
    ]


@pytest.mark.usefixtures("account")
def test_signs_of_life_are_found_behind_a_page_of_other_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "5")  # a thousand on S3
    s3 = boto3.client("s3")
    for number in range(6):
        s3.put_object(Bucket="runs-bucket", Key=f"digits/rule-output/a{number}", Body=b"")
    s3.put_object(Bucket="runs-bucket", Key="digits/rule-output/progress.json", Body=b"{}")
    assert len(signs_of_life(RunLocation("s3://runs-bucket/digits"))) == 1


@pytest.mark.parametrize("is_leased", [True, False])
def test_with_a_fleet_a_lease_is_what_judges(
    sagemaker: Stubber, queues: dict[str, str], deliver: Deliver, monkeypatch: pytest.MonkeyPatch, is_leased: bool
) -> None:
    monkeypatch.setenv("TRACKSIDE_EVALUATOR_MODE", FLEET)
    monkeypatch.setenv("TRACKSIDE_LEASE_TABLE", "leases")
    hold("digits")
    lists(sagemaker, "digits")
    if is_leased:
        put_lease()
    else:
        create_lease_table(boto3.client("dynamodb"), "leases")
        knows_no_evaluator(sagemaker, JOB)
        describes(sagemaker, "digits", "InProgress")
        sagemaker.add_response("list_tags", {"Tags": []}, {"ResourceArn": JOB.arn})
    assert deliver(handle, TICK) == []
    assert sent(queues["start"]) == ([] if is_leased else ["InProgress"])


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize(
    ("state", "silent"),
    [
        pytest.param(LeaseState.OPEN, 1, id="open"),
        pytest.param(LeaseState.DONE, 0, id="judged"),
        pytest.param(LeaseState.FAILED, 0, id="failed, which was told"),
    ],
)
def test_a_silent_fleet(
    sagemaker: Stubber,
    queues: dict[str, str],
    deliver: Deliver,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
    *,
    state: LeaseState,
    silent: int,
) -> None:
    monkeypatch.setenv("TRACKSIDE_EVALUATOR_MODE", FLEET)
    monkeypatch.setenv("TRACKSIDE_LEASE_TABLE", "leases")
    put_lease(state=state, owner="worker-7")
    hold("digits", evaluator=FLEETS_NAME)
    lists(sagemaker, "digits")
    assert deliver(handle, TICK) == []
    assert counted()["SilentEvaluators"] == [silent]


def test_all_links_are_of_one_chain_and_each_rule_has_its_own() -> None:
    chains = {
        configuration: {
            chain_of(evaluator_name(JOB, configuration=configuration, link=link), JOB) for link in (1, 2, 17, 100)
        }
        for configuration in ("", "overfit", "dead-relu")
    }
    assert [len(names) for names in chains.values()] == [1, 1, 1]
    assert len(set.union(*chains.values())) == 3
