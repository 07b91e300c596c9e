"""A deleted job's name is used again: SageMaker allows it, and the ARN is the same. The second job is another job."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.stub import ANY, Stubber

from lambdas.notify_owner.handler import handle as notify
from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.record_verdict.handler import handle as record
from lambdas.record_verdict.settings import RecordVerdictSettings
from lambdas.shared.clients import client
from lambdas.shared.processing_jobs import (
    MOST_NAME_CHARACTERS,
    chain_of,
    evaluator_mark,
    evaluator_name,
    name_of_later_job,
    processing_job_name,
)
from lambdas.shared.run_table import RunTable
from lambdas.start_evaluation import started
from lambdas.start_evaluation.handler import handle as start
from lambdas.start_evaluation.settings import StartEvaluationSettings
from lambdas.stop_training.handler import handle as stop
from tests.lambda_settings import made
from tests.lambdas.reconcile.test_handler import describes_evaluator
from tests.lambdas.start_evaluation.test_handler import REQUEST, STARTED
from tests.lambdas.stop_training.test_handler import settle
from trackside.contracts.deployment.run_table import JobRecord, RuleRecord
from trackside.contracts.deployment.stop_record import VetoRecord
from trackside.contracts.event import TrainingJob

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits-01"
ROLE = "arn:aws:iam::123456789012:role/evaluator"
FIRST, DAY = 1795226600, 24 * 3600
SECOND = FIRST + 30 * DAY
Golden = Callable[..., dict[str, Any]]
Deliver = Callable[..., list[str]]


@pytest.fixture(autouse=True)
def _new_copy() -> Iterator[None]:
    started.forget_all()
    yield
    started.forget_all()


@pytest.fixture
def table(account: Any, monkeypatch: pytest.MonkeyPatch) -> RunTable:
    settle(monkeypatch)
    for settings in (
        made(RecordVerdictSettings, run_table="runs", run_bucket="runs-bucket"),
        made(NotifyOwnerSettings, idempotency_table="done", topic_arn=account.topic),
        made(StartEvaluationSettings, image_uri="evaluator", role_arn=ROLE, run_bucket="runs-bucket"),
    ):
        for name, value in settings.to_environment().items():
            monkeypatch.setenv(name, value)
    settle(monkeypatch)
    return RunTable("runs", retention_days=0)


def issue(golden: Golden, created: int | None, *, at: int | None = None, **detail: Any) -> dict[str, Any]:
    """The issue of the job that was created then; None: of an evaluator of a former release."""
    moment = {} if created is None else {"TrainingJobCreationTime": 1000 * created}
    event = golden("ours_issues_found", LastModifiedTime=1000 * (at or (created or FIRST) + 74), **moment, **detail)
    return {**event, "id": f"{created}"}


def state(golden: Golden, status: str, created: int, *, after: int = 60) -> dict[str, Any]:
    moments = {"CreationTime": 1000 * created, "LastModifiedTime": 1000 * (created + after)}
    return golden("training_started", TrainingJobStatus=status, SecondaryStatus=status, **moments)


def test_each_job_is_judged_notified_about_and_stopped(
    account: Any, table: RunTable, golden: Golden, deliver: Deliver, sagemaker: Stubber
) -> None:
    """The second was never judged and never stopped, and nothing said so."""
    for created in (FIRST, SECOND):
        sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": "digits-01"})
        found = issue(golden, created)
        assert deliver(record, state(golden, "InProgress", created), found) == []
        known = table.job(ARN)
        assert known is not None
        assert (known.status, int(known.created_at), known.evaluator) == ("InProgress", created, "")
        table.mark_judged(known, by=f"evaluator of {created}")
        assert deliver(notify, found, found) == []
        assert deliver(stop, found, found) == []
        assert len(account.messages()) == 1
        assert (
            deliver(record, state(golden, "Stopped", created, after=90), state(golden, "Deleting", created, after=95))
            == []
        )
    # The key of a request ends with its moment.
    assert sorted(re.sub(r"(Stopping)#\d+$", r"\1", key) for key in account.items("decision#")) == [
        f"decision#{created}#vanishing-gradient@120#{outcome}"
        for created in (FIRST, SECOND)
        for outcome in ("Stopped", "Stopping")
    ]
    rule = table.rule(ARN, "vanishing-gradient")
    assert rule is not None
    assert (rule.evaluation.job.created_at, rule.findings, rule.revision) == (SECOND, (120,), 2)


@pytest.mark.usefixtures("table")
def test_each_job_gets_an_evaluator_of_its_own(golden: Golden, deliver: Deliver, sagemaker: Stubber) -> None:
    """Its first one has the plain name, so that one of a former release is recognized after an upgrade."""
    second = TrainingJob("digits-01", ARN, SECOND)
    name = processing_job_name(second)
    later_name = name_of_later_job(name, second)
    held: set[str] = set()

    def create(wanted: str) -> None:
        request = {"ProcessingJobName": wanted, **dict.fromkeys(set(REQUEST) - {"ProcessingJobName"}, ANY)}
        if wanted in held:
            sagemaker.add_client_error("create_processing_job", "ResourceInUse", "exists", expected_params=request)
        else:
            sagemaker.add_response("create_processing_job", STARTED, request)
            held.add(wanted)

    for created in (FIRST, FIRST, SECOND, SECOND, FIRST):
        is_new = not held
        create(name)
        if not is_new:
            describes_evaluator(sagemaker, name, "Completed", created_at=FIRST + 60)
        if created == SECOND:
            create(later_name)
        assert deliver(start, state(golden, "InProgress", created)) == []
        assert deliver(start, state(golden, "InProgress", created)) == [], "which is known by then"
        sagemaker.assert_no_pending_responses()
        started.forget_all()
    assert held == {name, later_name}


@pytest.mark.parametrize(
    "late",
    [
        pytest.param({"at": FIRST + 40 * DAY}, id="an issue of the first, by a clock that is ahead"),
        pytest.param({"at": FIRST + 10}, id="an issue of the first, hours late"),
        pytest.param({"RuleEvaluationStatus": "NoIssuesFound"}, id="a recovery of the first"),
    ],
)
def test_a_late_event_of_the_first_touches_the_second_in_nothing(
    account: Any, table: RunTable, golden: Golden, deliver: Deliver, sagemaker: Stubber, *, late: dict[str, Any]
) -> None:
    assert deliver(record, state(golden, "InProgress", SECOND), issue(golden, SECOND)) == []
    before = table.rule(ARN, "vanishing-gradient")
    event = issue(golden, FIRST, **late)
    assert deliver(record, state(golden, "Completed", FIRST), event) == []
    assert deliver(stop, event) == []
    sagemaker.assert_no_pending_responses()
    after, job = table.rule(ARN, "vanishing-gradient"), table.job(ARN)
    assert before is not None
    assert after is not None
    assert job is not None
    assert (after.evaluation, after.findings) == (before.evaluation, before.findings)
    assert (job.status, int(job.created_at)) == ("InProgress", SECOND)
    assert len(account.items("history#")) == 2, "it stays in the history"


@pytest.mark.parametrize(
    ("created", "is_stopped"),
    [
        pytest.param(FIRST, False, id="the same job, after the upgrade"),
        pytest.param(None, False, id="the same job, by an evaluator of the former release"),
        pytest.param(SECOND, True, id="a later job of that name"),
    ],
)
def test_records_of_a_former_release_count_for_the_job_that_they_are_about(
    account: Any,
    table: RunTable,
    golden: Golden,
    deliver: Deliver,
    sagemaker: Stubber,
    *,
    created: int | None,
    is_stopped: bool,
) -> None:
    sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": "digits-01"})
    old = issue(golden, None)
    assert deliver(record, old) == []
    assert deliver(stop, old) == []
    for item in account.items("decision#").values():  # as of that day: the clock of this test is a later one's
        client("dynamodb").put_item(TableName="runs", Item={**item, "at": {"N": str(FIRST + 75)}})
    client("dynamodb").put_item(TableName="runs", Item=VetoRecord(ARN, FIRST + 80.0).to_item(expires_at=None))
    if is_stopped:
        sagemaker.add_response("stop_training_job", {}, {"TrainingJobName": "digits-01"})
    if created:
        assert deliver(record, state(golden, "InProgress", created)) == []
    assert deliver(stop, issue(golden, created)) == []
    sagemaker.assert_no_pending_responses()


def test_an_unforeseen_state_never_outranks_an_end(
    account: Any, table: RunTable, golden: Golden, deliver: Deliver
) -> None:
    """Also not one that a former release recorded so: the job stayed among the running ones for ever."""
    assert deliver(record, state(golden, "Completed", FIRST), state(golden, "Deleting", FIRST, after=99)) == []
    assert "running" not in {item["shelf"]["S"] for item in account.items("job").values()}
    item = JobRecord(TrainingJob("digits-01", ARN), "Deleting", created_at=float(FIRST)).to_item(expires_at=None)
    item["order"] = {"S": item["order"]["S"].replace("#0#", "#3#")}
    client("dynamodb").put_item(TableName="runs", Item=item)
    assert len(table.running()) == 1
    assert deliver(record, state(golden, "InProgress", FIRST, after=99)) == []
    assert len(table.running()) == 1
    assert deliver(record, state(golden, "Completed", FIRST)) == []
    assert table.running() == []


def test_what_asked_for_nothing_is_known_of_one_job_only(table: RunTable) -> None:
    first, second = (TrainingJob("digits-01", ARN, created) for created in (FIRST, SECOND))
    table.mark_unwatched(first)
    assert table.unwatched([first, second]) == {first.identity}
    hour = time.strftime("%H")
    assert [table.take_turn(job, hour=hour, most=1) for job in (first, first, second)] == [True, True, False]
    assert [table.claim_stop(job, finding="a") for job in (first, second)] == [True, True]
    assert not table.claim_stop(second, finding="b")


@pytest.mark.parametrize("name", ["digits-01", "a" * 63, "a-" * 31 + "b", "x", "----"])
@pytest.mark.parametrize("link", [1, 2, 100])
@pytest.mark.parametrize("configuration", ["", "overfit"])
def test_names_of_later_jobs_fit_and_stay_in_their_chain(name: str, link: int, configuration: str) -> None:
    job = TrainingJob(name, f"{ARN}-{name}", SECOND)
    first = evaluator_name(job, configuration=configuration, link=link)
    later = name_of_later_job(first, job)
    assert later != first
    assert len(later) <= MOST_NAME_CHARACTERS
    assert later.startswith("trackside-")
    assert evaluator_mark(job) in later
    assert chain_of(later, job) == chain_of(first, job)
    assert later != name_of_later_job(first, TrainingJob(name, job.arn, SECOND + 1))
    rules = {name_of_later_job(processing_job_name(job, rule), job) for rule in ("mine", "other")}
    assert len(rules) == 2
    assert all(len(each) <= MOST_NAME_CHARACTERS for each in rules)


def test_a_record_of_another_shape_is_still_read(golden: Golden, table: RunTable, deliver: Deliver) -> None:
    """An item as the former release wrote it: its evaluation names no moment of creation."""
    assert deliver(record, issue(golden, None)) == []
    stored = table.rule(ARN, "vanishing-gradient")
    assert stored is not None
    assert "TrainingJobCreationTime" not in stored.to_item(expires_at=None)["detail"]["S"]
    assert RuleRecord.from_item(stored.to_item(expires_at=None)) == stored


@pytest.mark.parametrize("second", [f"{ARN}-0@2", ""], ids=["continues another", "continues none"])
def test_a_later_job_of_the_name_continues_what_its_own_tag_names(
    table: RunTable, golden: Golden, deliver: Deliver, second: str
) -> None:
    for created, before in ((FIRST, f"{ARN}-0@1"), (SECOND, second)):
        event = state(golden, "InProgress", created)
        event["detail"]["Tags"]["trackside:resumed-from"] = before
        assert deliver(record, event) == []
    ended = state(golden, "Stopped", SECOND, after=90)  # of a sweep, which reads no tags of ended jobs
    assert deliver(record, ended) == []
    known = table.job(ARN)
    assert known is not None
    assert (known.status, known.job.continues) == ("Stopped", second)
