"""Deliveries as they come: duplicated, late, of either shape, refused and broken."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto.sqs.models import sqs_backends

from lambdas.shared.run_table import RunTable
from lambdas.stop_training import stop_decisions
from lambdas.stop_training.handler import handle
from lambdas.stop_training.settings import StopTrainingSettings
from tests.lambda_settings import made
from trackside.contracts.action import Action
from trackside.contracts.deployment.run_table import JobRecord
from trackside.contracts.deployment.stop_record import DecisionRecord, Savings, VetoRecord
from trackside.contracts.event import TrainingJob

JOB = {"TrainingJobName": "digits-01"}
SWITCH = "/trackside/trackside/dry-run"
Golden = Callable[..., dict[str, Any]]
Deliver = Callable[..., list[str]]


def settle(monkeypatch: pytest.MonkeyPatch, *, dry_run: str = "false", **changes: Any) -> None:
    queue = boto3.client("sqs").create_queue(QueueName="stop-training")["QueueUrl"]
    boto3.client("ssm").put_parameter(Name=SWITCH, Value=dry_run, Type="String", Overwrite=True)
    settings = made(
        StopTrainingSettings,
        idempotency_table="done",
        run_table="runs",
        queue_url=queue,
        topic_arn="arn:aws:sns:us-east-1:123456789012:issues",
        dry_run_parameter=SWITCH,
        **changes,
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)


def test_stops_the_job_once_for_three_deliveries(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    sagemaker.add_response("stop_training_job", {}, JOB)
    event = golden("ours_issues_found")
    assert deliver(handle, event, event) == []
    assert deliver(handle, event) == []
    assert outcomes(account) == {"Stopping", "Stopped"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Digits-01", id="capitals: the original compared in small letters, and stopped nothing"),
        pytest.param("digits", id="what other names begin with: the original found several, and stopped nothing"),
        pytest.param("digits-01-copy-copied", id="what begins with another's name: the original could stop the other"),
        pytest.param("digits-01-2026-11-21-22-30-05-123", id="named after its rule started: the original knew none"),
    ],
)
def test_exactly_the_job_of_the_event_is_stopped_and_nobody_is_asked_for_names(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, *, name: str
) -> None:
    """StopTraining of the original went by a prefix. Any other call fails: the stubber knows one."""
    settle(monkeypatch)
    sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": name})
    arn = f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}"
    assert deliver(handle, golden("ours_issues_found", TrainingJobName=name, TrainingJobArn=arn)) == []
    sagemaker.assert_no_pending_responses()
    assert outcomes(account) == {"Stopping", "Stopped"}


def test_another_rule_of_the_same_job_stops_it_too(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, cool_down_minutes=0)
    sagemaker.add_response("stop_training_job", {}, JOB)
    sagemaker.add_client_error(
        "stop_training_job",
        "ValidationException",
        "The request was rejected because the training job is in status Stopping.",
        expected_params=JOB,
    )
    assert deliver(handle, golden("ours_issues_found")) == []
    assert deliver(handle, golden("ours_issues_found", RuleConfigurationName="exploding-tensor")) == []
    assert outcomes(account) == {"Stopping", "Stopped", "AlreadyEnded"}


@pytest.mark.parametrize(
    "is_known",
    [pytest.param(True, id="the table knows that it is stopping"), pytest.param(False, id="SageMaker says so")],
)
def test_of_two_rules_that_heard_no_answer_one_stopped_the_job(
    account: Any,
    sagemaker: Stubber,
    golden: Golden,
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_known: bool,
) -> None:
    """Each has asked, and hears then that the job is stopping: nobody can know whose stop it was, but it was one."""
    settle(monkeypatch, cool_down_minutes=0)
    events = [golden("ours_issues_found"), golden("ours_issues_found", RuleConfigurationName="exploding-tensor")]
    refusals = 2 * [("ThrottlingException", "Rate exceeded")]
    if not is_known:
        refusals += 2 * [("ValidationException", "in status Stopping")]
    for number, (code, message) in enumerate(refusals):
        sagemaker.add_client_error("stop_training_job", code, message, expected_params=JOB)
        if number >= 2:
            sagemaker.add_response("describe_training_job", stopping(time.time()), JOB)
    if is_known:
        for _ in events:
            sagemaker.add_response("describe_training_job", stopping(time.time()), JOB)
    assert deliver(handle, *events) == ["message-0", "message-1"]
    if is_known:
        detail = events[0]["detail"]
        job = JobRecord(TrainingJob(detail["TrainingJobName"], detail["TrainingJobArn"]), "Stopping")
        boto3.client("dynamodb").put_item(TableName="runs", Item=job.to_item(expires_at=None))
    assert deliver(handle, *events) == []
    decisions = [item["outcome"]["S"] for item in account.items("decision#").values()]
    requests = 2 if is_known else 4
    assert sorted(decisions) == ["AlreadyEnded", "Stopped", *requests * ["Stopping"]], "each request stands by itself"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("The request was rejected because the training job is in status Stopped.", id="already stopped"),
        pytest.param("Requested resource not found.", id="no such job"),
    ],
)
@pytest.mark.usefixtures("account")
def test_a_job_that_cannot_be_stopped_any_more_is_no_failure(
    sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    settle(monkeypatch)
    sagemaker.add_client_error("stop_training_job", "ValidationException", message, expected_params=JOB)
    assert deliver(handle, golden("ours_issues_found")) == []


def test_throttling_returns_the_message_and_the_next_delivery_stops(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    sagemaker.add_client_error("stop_training_job", "ThrottlingException", "Rate exceeded", expected_params=JOB)
    sagemaker.add_response("stop_training_job", {}, JOB)
    event = golden("ours_issues_found")
    assert deliver(handle, event) == ["message-0"]
    assert account.remembered() == 0
    assert deliver(handle, event) == []


def test_one_rule_whose_stop_fails_hides_no_other_of_the_same_event(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, default_actions=(Action.STOP_TRAINING,), cool_down_minutes=0)
    event = golden("official_issues_found")
    status = next(
        one for one in event["detail"]["DebugRuleEvaluationStatuses"] if one["RuleEvaluationStatus"] == "IssuesFound"
    )
    another = {**status, "RuleConfigurationName": "Another"}
    event["detail"]["DebugRuleEvaluationStatuses"] = [status, another]
    sagemaker.add_client_error("stop_training_job", "AccessDeniedException", "not you", expected_params=JOB)
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, event) == ["message-0"]
    decisions = account.items("decision#")
    assert [item["outcome"]["S"] for key, item in decisions.items() if "Another" in key] == ["Stopped", "Stopping"]


def test_one_bad_message_does_not_hold_back_its_neighbours(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    sagemaker.add_response("stop_training_job", {}, JOB)
    unreadable = golden("ours_issues_found", RuleEvaluationStatus="Perhaps")
    failed = deliver(handle, "not json", "[]", "{}", unreadable, golden("ours_issues_found"))
    assert failed == ["message-0", "message-1", "message-2", "message-3"]


def test_an_official_event_stops_only_where_the_deployment_says_so(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    assert deliver(handle, golden("official_issues_found")) == []
    assert account.remembered() == 0
    settle(monkeypatch, default_actions=(Action.STOP_TRAINING,))
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, golden("official_issues_found"), golden("official_stopped")) == []
    assert account.remembered() == 1


def test_the_end_of_a_job_that_overtakes_its_issue_stops_nothing(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, default_actions=(Action.STOP_TRAINING,))
    assert deliver(handle, golden("official_stopped")) == []
    assert account.remembered() == 0


def outcomes(account: Any) -> set[str]:
    return {item["outcome"]["S"] for item in account.items("decision#").values()}


def waiting() -> list[int]:
    """The delays, in seconds, of the messages that the function sent to its own queue."""
    messages = sqs_backends["123456789012"]["us-east-1"].queues["stop-training"]._messages
    return [round(((message.delayed_until or 0) - (message.sent_timestamp or 0)) / 1000) for message in messages]


class Clock:
    """Time as the function sees it."""

    def __init__(self) -> None:
        self.now = 1795226700.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("lambdas.stop_training.handler.time", SimpleNamespace(time=clock))
    return clock


@pytest.mark.parametrize("switch", ["true", "TRUE", "flase", "yes"])
def test_a_dry_run_stops_nothing_and_says_so_in_the_table(
    *, account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    settle(monkeypatch, dry_run=switch)
    assert deliver(handle, golden("ours_issues_found")) == []
    assert account.remembered() == 0
    assert outcomes(account) == {"WouldStop"}


def test_the_switch_is_turned_without_a_deployment(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, dry_run="true")
    assert deliver(handle, golden("ours_issues_found")) == []
    boto3.client("ssm").put_parameter(Name=SWITCH, Value="false", Overwrite=True)
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, came_back(golden)) == []
    assert outcomes(account) == {"WouldStop", "Stopping", "Stopped"}


def came_back(golden: Golden) -> dict[str, Any]:
    event = golden("ours_issues_found", LastModifiedTime=1795226690000)
    event["detail"]["Evidence"]["SinceStep"] = 400
    return event


def test_an_issue_that_comes_back_acts_again(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, cool_down_minutes=0)
    sagemaker.add_response("stop_training_job", {}, JOB)
    sagemaker.add_response("stop_training_job", {}, JOB)
    event = golden("ours_issues_found")
    assert deliver(handle, event, event, came_back(golden), came_back(golden), event) == []
    stops = [key for key in account.items("decision#") if key.endswith("#Stopped")]
    assert stops == ["decision#vanishing-gradient@120#Stopped", "decision#vanishing-gradient@400#Stopped"]


def test_a_veto_in_its_window_prevents_the_stop(
    *, account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    settle(monkeypatch, veto_minutes=20)
    event = golden("ours_issues_found")
    assert deliver(handle, event) == []
    (mail,) = account.messages()
    assert "trackside aws veto digits-01" in mail["Message"]
    assert waiting() == [900]
    clock.now += 900
    assert deliver(handle, event) == []
    assert waiting() == [900, 300]
    assert account.messages() == [], "it is announced once"
    put(VetoRecord(event["detail"]["TrainingJobArn"], clock.now, by="ada").to_item(expires_at=None))
    clock.now += 300
    assert deliver(handle, event, event) == []
    assert outcomes(account) == {"Announced", "Vetoed"}
    assert len(waiting()) == 2


def test_without_a_veto_it_is_stopped_when_the_window_closes(
    *, account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    settle(monkeypatch, veto_minutes=1)
    event = golden("ours_issues_found")
    assert deliver(handle, event) == []
    clock.now += 60
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, event, event) == []
    assert outcomes(account) == {"Announced", "Stopping", "Stopped"}


def put(item: Any) -> None:
    boto3.client("dynamodb").put_item(TableName="runs", Item=item)


def of_job(golden: Golden, name: str) -> dict[str, Any]:
    arn = f"arn:aws:sagemaker:us-east-1:123456789012:training-job/{name}"
    return golden("ours_issues_found", TrainingJobName=name, TrainingJobArn=arn)


def test_what_is_over_the_budget_waits_for_the_next_hour_and_says_so_once(
    *, account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    settle(monkeypatch, stops_per_hour=2)
    for name in ("one", "two"):
        sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": name})
    clock.now = 500_000 * 3600 + 3000
    assert deliver(handle, *(of_job(golden, name) for name in ("one", "two", "three", "three", "one"))) == []
    (mail,) = account.messages()
    assert "NOT stopped" in mail["Subject"]
    assert waiting() == [600, 600]
    clock.now += 600
    sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": "three"})
    assert deliver(handle, of_job(golden, "three"), of_job(golden, "three")) == []
    assert outcomes(account) == {"Stopping", "Stopped", "OverBudget"}


def test_a_thousand_jobs_over_the_budget_are_one_message_an_hour(
    *, account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """The simulation at scale had 9,100 messages for 1,000 jobs: benchmarks/scale."""
    settle(monkeypatch, stops_per_hour=1)
    sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": "one"})
    clock.now = 500_000 * 3600 + 60
    others = ("two", "three", "four")
    assert deliver(handle, *(of_job(golden, name) for name in ("one", *others))) == []
    (mail,) = account.messages()
    assert "two" in mail["Subject"], "the first"
    clock.now += 3600
    sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": "two"})
    assert deliver(handle, *(of_job(golden, name) for name in others)) == []
    (mail,) = account.messages()
    assert "three" in mail["Subject"], "one in the next hour, too"


def test_of_two_findings_that_confirm_each_other_one_stops(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch, after_findings=2, after_rules=2)
    first = golden("ours_issues_found")
    assert deliver(handle, first, first, came_back(golden)) == []
    assert outcomes(account) == {"Unconfirmed"}
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, golden("ours_issues_found", RuleConfigurationName="dead-relu")) == []
    assert outcomes(account) == {"Unconfirmed", "Stopping", "Stopped"}


def test_two_findings_that_come_at_once_do_not_overlook_one_another(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is handled from its beginning to its end between what the first writes and what it reads."""
    settle(monkeypatch, after_findings=2)
    read: Any = vars(stop_decisions)["read_known"]
    overtaken: list[Any] = []

    def read_late(*given: Any, **more: Any) -> Any:
        if not overtaken:
            overtaken.append(True)
            assert deliver(handle, golden("ours_issues_found", RuleConfigurationName="dead-relu")) == []
        return read(*given, **more)

    monkeypatch.setattr(stop_decisions, "read_known", read_late)
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, golden("ours_issues_found")) == []
    assert outcomes(account) == {"Unconfirmed", "Stopping", "Stopped", "CoolingDown"}


def test_a_crash_between_the_stop_and_its_record_is_made_up_for(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    event, put_once = golden("ours_issues_found"), RunTable.put_once

    def crash(self: RunTable, item: Any) -> bool:
        if item.get("outcome") == {"S": "Stopped"}:
            raise ClientError({"Error": {"Code": "InternalServerError"}}, "PutItem")
        return put_once(self, item)

    sagemaker.add_response("stop_training_job", {}, JOB)
    with monkeypatch.context() as patch:
        patch.setattr(RunTable, "put_once", crash)
        assert deliver(handle, event) == ["message-0"]
    status = "The request was rejected because the training job is in status Stopping."
    sagemaker.add_client_error("stop_training_job", "ValidationException", status, expected_params=JOB)
    sagemaker.add_response("describe_training_job", stopping(time.time()), JOB)
    assert deliver(handle, event) == []
    assert outcomes(account) == {"Stopping", "Stopped"}, "it was ours, and the record says so"


def stopping(since: float, status: str = "Stopping") -> dict[str, Any]:
    """DescribeTrainingJob's answer, as far as SageMaker must give it; the job leaves `Training` at `since`."""
    moment = datetime.fromtimestamp(since, tz=timezone.utc)
    return {
        "TrainingJobName": "digits-01",
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01",
        "ModelArtifacts": {"S3ModelArtifacts": "s3://runs-bucket/model"},
        "TrainingJobStatus": "Completed" if status == "Completed" else "Stopping",
        "SecondaryStatus": status,
        "AlgorithmSpecification": {"TrainingInputMode": "File"},
        "ResourceConfig": {"VolumeSizeInGB": 1},
        "StoppingCondition": {},
        "CreationTime": moment,
        "SecondaryStatusTransitions": [
            {"Status": "Training", "StartTime": moment - timedelta(hours=1)},
            {"Status": status, "StartTime": moment},
        ],
    }


class DiedError(BaseException):
    """The function's process is gone: nothing catches it."""


@pytest.mark.parametrize("is_known", [pytest.param(True, id="in the table"), pytest.param(False, id="to SageMaker")])
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(lambda now: stopping(now + 100), "AlreadyEnded", id="a person stopped it after the death"),
        pytest.param(lambda now: stopping(now - 100), "AlreadyEnded", id="a person stopped it before"),
        pytest.param(lambda now: stopping(now + 1), "Stopped", id="the request had arrived"),
        pytest.param(lambda now: stopping(now + 1, "Completed"), "AlreadyEnded", id="it ended by itself"),
        pytest.param(lambda now: stopping(now + 1, "MaxRuntimeExceeded"), "AlreadyEnded", id="its time was over"),
        pytest.param("ValidationException", "AlreadyEnded", id="it was deleted meanwhile"),
        pytest.param("AccessDeniedException", "AlreadyEnded", id="a spoke from before this question"),
    ],
)
def test_a_death_between_the_record_and_the_request_claims_no_stop_of_others(
    *,
    account: Any,
    sagemaker: Stubber,
    golden: Golden,
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    is_known: bool,
    answer: Callable[[float], dict[str, Any]] | str,
    outcome: str,
) -> None:
    settle(monkeypatch)
    event = golden("ours_issues_found")

    def die(*_: Any, **__: Any) -> None:
        raise DiedError

    with monkeypatch.context() as patch:
        patch.setattr(stop_decisions, "pace", die)  # between the record and the request
        with pytest.raises(DiedError):
            deliver(handle, event)
    assert outcomes(account) == {"Stopping"}
    began, clock.now = clock.now, clock.now + 180
    boto3.client("dynamodb").delete_item(TableName="done", Key=only_key("done"))  # the dead one's claim is over
    if is_known:
        put(JobRecord(TrainingJob("digits-01", event["detail"]["TrainingJobArn"]), "Stopped").to_item(expires_at=None))
    else:
        status = "The request was rejected because the training job is in status Stopped."
        sagemaker.add_client_error("stop_training_job", "ValidationException", status, expected_params=JOB)
    if isinstance(answer, str):
        sagemaker.add_client_error("describe_training_job", answer, "no", expected_params=JOB)
    else:
        sagemaker.add_response("describe_training_job", answer(began), JOB)
    assert deliver(handle, event) == []
    assert outcomes(account) == {"Stopping", outcome}
    assert deliver(handle, event) == [], "decided once"


def test_an_answer_of_sagemaker_that_lags_behind_decides_nothing(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    event, ended = golden("ours_issues_found"), "The request was rejected: the training job is in status Stopping."
    sagemaker.add_client_error("stop_training_job", "ThrottlingException", "Rate exceeded", expected_params=JOB)
    assert deliver(handle, event) == ["message-0"]
    for answer in ({**stopping(time.time()), "TrainingJobStatus": "InProgress"}, stopping(time.time())):
        sagemaker.add_client_error("stop_training_job", "ValidationException", ended, expected_params=JOB)
        sagemaker.add_response("describe_training_job", answer, JOB)
    assert deliver(handle, event) == ["message-0"]
    assert outcomes(account) == {"Stopping"}
    assert deliver(handle, event) == []
    assert outcomes(account) == {"Stopping", "Stopped"}


def only_key(table: str) -> dict[str, Any]:
    (item,) = boto3.client("dynamodb").scan(TableName=table)["Items"]
    return {"id": item["id"]}


def test_a_switch_that_cannot_be_read_stops_nothing(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    boto3.client("ssm").delete_parameter(Name=SWITCH)
    assert deliver(handle, golden("ours_issues_found")) == ["message-0"]
    assert outcomes(account) == set()


def test_the_record_holds_the_evidence_the_event_and_what_it_spared(
    *, account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    settle(monkeypatch, instance_prices=("ml.p4d.24xlarge=40",))
    arn = golden("ours_issues_found")["detail"]["TrainingJobArn"]
    job = JobRecord(
        TrainingJob("digits-01", arn),
        "InProgress",
        started_at=clock.now - 3600,
        max_runtime_seconds=3 * 3600,
        instance_type="ml.p4d.24xlarge",
        instance_count=4,
    )
    put(job.to_item(expires_at=None))
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, golden("ours_issues_found")) == []
    record = DecisionRecord.from_item(account.items("decision#")["decision#vanishing-gradient@120#Stopped"])
    assert record.event_id == golden("ours_issues_found")["id"]
    assert record.evaluation.evidence.tensor_name == "gradient/Net_fc1.weight"
    assert record.savings == Savings(7200, "4 x ml.p4d.24xlarge", 40, 320)
    assert "at most 2.0 h" in record.reason
    assert "earlier by itself" in record.reason


def test_a_function_without_its_settings_loses_no_message(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver
) -> None:
    assert deliver(handle, golden("ours_issues_found")) == ["message-0"]


def test_a_rule_that_asks_to_be_confirmed_stops_at_its_second_finding(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    terms = {"StopTraining": {"after_findings": 2}}
    first, second = (golden("ours_issues_found", ActionTerms=terms) for _ in range(2))
    second["detail"]["Evidence"] = {**second["detail"]["Evidence"], "SinceStep": 999}
    assert deliver(handle, first, first) == []
    assert outcomes(account) == {"Unconfirmed"}
    sagemaker.add_response("stop_training_job", {}, JOB)
    assert deliver(handle, second) == []
    assert outcomes(account) == {"Unconfirmed", "Stopping", "Stopped"}


def test_the_finding_of_another_rule_does_not_confirm_it(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    terms = {"StopTraining": {"after_findings": 2}}
    other = golden("ours_issues_found", ActionTerms=terms, RuleConfigurationName="exploding-tensor")
    assert deliver(handle, golden("ours_issues_found", ActionTerms=terms), other) == []
    assert outcomes(account) == {"Unconfirmed"}


def test_a_rule_may_ask_for_a_veto_window_of_its_own(
    account: Any, sagemaker: Stubber, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    assert deliver(handle, golden("ours_issues_found", ActionTerms={"StopTraining": {"veto_minutes": 15}})) == []
    assert outcomes(account) == {"Announced"}
