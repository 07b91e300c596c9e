"""Deliveries after a stop that asks for another job: each is made once, whatever fails, and never against a person."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import ANY, Stubber

from lambdas.shared.run_table import RunTable
from lambdas.stop_training import stop_decisions
from lambdas.stop_training.handler import handle
from lambdas.stop_training.resume_decisions import LOOK_SECONDS, MOST_WAIT_SECONDS
from tests.lambdas.stop_training.stopped_job import ARN, CHECKPOINT, CREATED_AT, FOUND, ROLE, TAGS, described
from tests.lambdas.stop_training.test_handler import (
    SWITCH,
    Clock,
    Deliver,
    DiedError,
    Golden,
    outcomes,
    put,
    settle,
    waiting,
)
from trackside.contracts.deployment.stop_record import DecisionRecord, StopOutcome, VetoRecord
from trackside.contracts.run.resumption import ORDER_VARIABLE, Resumption

JOB, NEXT = {"TrainingJobName": "digits-01"}, "digits-01-resumed-1"
NEXT_ARN = f"{ARN}-resumed-1"
TAG_LIST = {"Tags": [{"Key": key, "Value": value} for key, value in TAGS.items()]}


@pytest.fixture
def event(golden: Golden) -> dict[str, Any]:
    detail = FOUND.to_detail()
    return golden("ours_issues_found", **detail)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("lambdas.stop_training.handler.time", SimpleNamespace(time=clock))
    return clock


def expect_stop(sagemaker: Stubber) -> None:
    sagemaker.add_response("stop_training_job", {}, JOB)


def expect_look(sagemaker: Stubber, **changes: Any) -> None:
    sagemaker.add_response("describe_training_job", described(**changes), JOB)
    if changes.get("TrainingJobStatus", "Stopped") == "Stopped":
        sagemaker.add_response("list_tags", TAG_LIST, {"ResourceArn": ARN})


def expect_creation(sagemaker: Stubber) -> None:
    sagemaker.add_response("create_training_job", {"TrainingJobArn": NEXT_ARN}, whole_request())


def whole_request() -> dict[str, Any]:
    """The arguments by name; their values: test_successor.py."""
    kept = {"VpcConfig", "StoppingCondition", "EnableManagedSpotTraining", "EnableNetworkIsolation", "CheckpointConfig"}
    kept |= {"AlgorithmSpecification", "HyperParameters", "OutputDataConfig", "ResourceConfig", "RoleArn"}
    before = described()
    return {name: before[name] for name in kept} | {"TrainingJobName": NEXT, "Environment": ANY, "Tags": ANY}


def stopped(deliver: Deliver, sagemaker: Stubber, event: dict[str, Any]) -> None:
    expect_stop(sagemaker)
    assert deliver(handle, event) == []


def test_the_job_is_stopped_and_another_goes_on_once_it_has_ended(
    *, account: Any, sagemaker: Stubber, event: dict[str, Any], deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, resume_roles=(ROLE,), instance_prices=("ml.m5.large=0.5",))
    stopped(deliver, sagemaker, event)
    assert outcomes(account) == {"Stopping", "Stopped"}
    assert len(waiting()) == 1
    expect_look(sagemaker, TrainingJobStatus="Stopping")
    assert deliver(handle, event) == []
    assert len(waiting()) == 2
    expect_look(sagemaker)
    expect_creation(sagemaker)
    assert deliver(handle, event, event) == []
    assert deliver(handle, event) == [], "decided once"
    assert outcomes(account) == {"Stopping", "Stopped", "Resumed"}
    (mail,) = account.messages()
    for words in (
        "digits-01 was stopped for loss-spike",
        f"goes on as {NEXT}, number 1 of at most 2",
        CHECKPOINT,
        "of step 499; 141 steps, to step 640, are done again",
        "Billed so far: 2.0 h of 2 x ml.m5.large, 2.00 at 0.5 an hour",
        "may take 10.0 h of 2 x ml.m5.large, 10.00 at 0.5 an hour more",
    ):
        assert words in mail["Message"]
    reason = account.items("decision#")["decision#1795220000#loss-spike@620#Resumed"]["reason"]["S"]
    assert "digits-01 goes on as digits-01-resumed-1" in reason


@pytest.mark.parametrize(
    ("changes", "detail", "why"),
    [
        pytest.param({}, {}, "resume_roles is empty", id="no leave, the default"),
        pytest.param({"resume_roles": (ROLE,)}, {"Rule": "overfit"}, "does not cure", id="not curable"),
    ],
)
def test_without_leave_or_cure_the_job_is_only_stopped(
    *,
    account: Any,
    sagemaker: Stubber,
    event: dict[str, Any],
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    detail: dict[str, Any],
    why: str,
) -> None:
    settle(monkeypatch, **changes)
    event["detail"].update(detail)
    stopped(deliver, sagemaker, event)
    assert deliver(handle, event, event) == []
    assert outcomes(account) == {"Stopping", "Stopped", "NotResumed"}
    (mail,) = account.messages()
    assert "No job goes on in its place" in mail["Message"]
    assert why in mail["Message"]


@pytest.mark.parametrize("status", ["Completed", "Failed"])
def test_a_job_that_ended_by_itself_after_all_is_left(
    *,
    account: Any,
    sagemaker: Stubber,
    event: dict[str, Any],
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
) -> None:
    settle(monkeypatch, resume_roles=(ROLE,))
    stopped(deliver, sagemaker, event)
    expect_look(sagemaker, TrainingJobStatus=status)
    assert deliver(handle, event) == []
    (mail,) = account.messages()
    assert f"the job {status.lower()} by itself" in mail["Message"]


def forbid_by_switch(event: dict[str, Any], clock: Clock) -> None:
    boto3.client("ssm").put_parameter(Name=SWITCH, Value="true", Type="String", Overwrite=True)


def forbid_by_veto(event: dict[str, Any], clock: Clock) -> None:
    put(VetoRecord(ARN, clock.now + 1, by="ada").to_item(expires_at=None))


@pytest.mark.parametrize(
    ("forbid", "why"),
    [
        pytest.param(forbid_by_switch, "the switch forbids stops", id="the switch"),
        pytest.param(forbid_by_veto, "by the veto of ada", id="a veto"),
    ],
)
def test_a_person_may_forbid_it_while_the_job_ends(
    *,
    account: Any,
    sagemaker: Stubber,
    event: dict[str, Any],
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    forbid: Callable[[dict[str, Any], Clock], None],
    why: str,
) -> None:
    clock.now = CREATED_AT + 7200.0
    settle(monkeypatch, resume_roles=(ROLE,))
    stopped(deliver, sagemaker, event)
    forbid(event, clock)
    assert deliver(handle, event) == []
    (mail,) = account.messages()
    assert why in mail["Message"]
    assert "Resumed" not in outcomes(account)


@pytest.mark.parametrize("forbid", [forbid_by_switch, forbid_by_veto])
def test_what_forbids_a_stop_forbids_all_of_it(
    *,
    account: Any,
    sagemaker: Stubber,
    event: dict[str, Any],
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    forbid: Callable[[dict[str, Any], Clock], None],
) -> None:
    clock.now = CREATED_AT + 7200.0
    settle(monkeypatch, resume_roles=(ROLE,))
    forbid(event, clock)
    assert deliver(handle, event) == []
    assert outcomes(account) <= {"WouldStop", "Vetoed"}
    assert waiting() == []


def refused(code: str, message: str = "no") -> Callable[[Stubber], None]:
    return lambda sagemaker: sagemaker.add_client_error(
        "create_training_job", code, message, expected_params=whole_request()
    )


def taken_by(order: Resumption | None) -> Callable[[Stubber], None]:
    def expect(sagemaker: Stubber) -> None:
        refused("ResourceInUse")(sagemaker)
        variables = {ORDER_VARIABLE: order.to_json()} if order else {}
        sagemaker.add_response(
            "describe_training_job",
            described(TrainingJobName=NEXT, TrainingJobArn=NEXT_ARN, Environment=variables),
            {"TrainingJobName": NEXT},
        )

    return expect


OURS = Resumption("digits-01", 1, FOUND.job.identity, 499, 640, "/opt/ml/checkpoints", ("loss-spike",))
OTHERS = Resumption("digits-01", 1, f"{ARN}@1", 499, 640, "/opt/ml/checkpoints", ("loss-spike",))


@pytest.mark.parametrize(
    ("expect", "outcome", "why"),
    [
        pytest.param(taken_by(OURS), "Resumed", "", id="an attempt before created it"),
        pytest.param(taken_by(OTHERS), "NotResumed", "another job has the name", id="after a deleted job of that name"),
        pytest.param(taken_by(None), "NotResumed", "another job has the name", id="a person's"),
        pytest.param(refused("AccessDeniedException", "iam:PassRole"), "NotResumed", "iam:PassRole", id="not allowed"),
        pytest.param(refused("ValidationException", "bad image"), "NotResumed", "bad image", id="not valid"),
    ],
)
def test_a_refusal_of_sagemaker_is_an_answer(
    *,
    account: Any,
    sagemaker: Stubber,
    event: dict[str, Any],
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    expect: Callable[[Stubber], None],
    outcome: str,
    why: str,
) -> None:
    settle(monkeypatch, resume_roles=(ROLE,))
    stopped(deliver, sagemaker, event)
    expect_look(sagemaker)
    expect(sagemaker)
    assert deliver(handle, event, event) == []
    assert outcomes(account) == {"Stopping", "Stopped", outcome}
    (mail,) = account.messages()
    assert why in mail["Message"]


def test_a_full_region_is_asked_again_but_not_for_ever(
    *,
    account: Any,
    sagemaker: Stubber,
    event: dict[str, Any],
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
) -> None:
    settle(monkeypatch, resume_roles=(ROLE,))
    stopped(deliver, sagemaker, event)
    for wait in (LOOK_SECONDS, MOST_WAIT_SECONDS):
        clock.now += wait
        expect_look(sagemaker)
        refused("ResourceLimitExceeded", "no capacity")(sagemaker)
        assert deliver(handle, event) == []
    assert outcomes(account) == {"Stopping", "Stopped", "NotResumed"}
    (mail,) = account.messages()
    assert "no capacity" in mail["Message"]


def test_throttling_and_a_crash_before_the_record_create_one_job(
    *, account: Any, sagemaker: Stubber, event: dict[str, Any], deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, resume_roles=(ROLE,))
    stopped(deliver, sagemaker, event)
    expect_look(sagemaker)
    refused("ThrottlingException")(sagemaker)
    assert deliver(handle, event) == ["message-0"]
    put_once = RunTable.put_once

    def crash(self: RunTable, item: Any) -> bool:
        if item.get("outcome") == {"S": "Resumed"}:
            raise ClientError({"Error": {"Code": "InternalServerError"}}, "PutItem")
        return put_once(self, item)

    expect_look(sagemaker)
    expect_creation(sagemaker)
    with monkeypatch.context() as patch:
        patch.setattr(RunTable, "put_once", crash)
        assert deliver(handle, event) == ["message-0"]
    expect_look(sagemaker)
    taken_by(OURS)(sagemaker)
    assert deliver(handle, event, event) == []
    assert outcomes(account) == {"Stopping", "Stopped", "Resumed"}


def test_a_death_right_after_the_stop_loses_nothing(
    *, account: Any, sagemaker: Stubber, event: dict[str, Any], deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stop is recorded, and the message about what follows was never sent: the delivery itself comes again."""
    settle(monkeypatch, resume_roles=(ROLE,))

    def die(*_: Any, **__: Any) -> None:
        raise DiedError

    expect_stop(sagemaker)
    with monkeypatch.context() as patch:
        patch.setattr(stop_decisions.StopDecisions, "look_again", die)
        with pytest.raises(DiedError):
            deliver(handle, event)
    expect_look(sagemaker)
    expect_creation(sagemaker)
    assert deliver(handle, event) == []
    assert "Resumed" in outcomes(account)


def test_of_two_findings_that_ask_the_one_that_stopped_the_job_lets_another_go_on(
    *, account: Any, sagemaker: Stubber, event: dict[str, Any], deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, resume_roles=(ROLE,), cool_down_minutes=0)
    other = json.loads(json.dumps(event))
    other["detail"] |= {"RuleConfigurationName": "gradients", "Rule": "exploding-gradient"}
    stopped(deliver, sagemaker, event)
    sagemaker.add_client_error("stop_training_job", "ValidationException", "in status Stopping", expected_params=JOB)
    assert deliver(handle, other) == []
    expect_look(sagemaker)
    expect_creation(sagemaker)
    assert deliver(handle, event, other, event) == []
    keys = [key for key in account.items("decision#") if key.endswith("#Resumed")]
    assert keys == ["decision#1795220000#loss-spike@620#Resumed"]


def test_a_job_of_a_spoke_is_only_stopped(
    *, account: Any, event: dict[str, Any], deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, resume_roles=(ROLE,), spoke_accounts=("210987654321",))
    arn = ARN.replace("123456789012", "210987654321")
    event["detail"]["TrainingJobArn"] = arn
    said = replace(FOUND, job=replace(FOUND.job, arn=arn))
    put(DecisionRecord(said, StopOutcome.STOPPED, CREATED_AT + 3700.0, "").to_item(expires_at=None))
    assert deliver(handle, event) == []
    (mail,) = account.messages()
    assert "in this account only, not in 210987654321" in mail["Message"]
