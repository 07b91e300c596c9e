"""The table of runs: items come back as they went, and no order of events changes what is known in the end."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.action import Action
from trackside.contracts.deployment.run_table import (
    MOST_FINDINGS,
    RUNNING,
    HistoryRecord,
    JobRecord,
    RuleRecord,
    is_later,
    merged,
    shelf_of_day,
)
from trackside.contracts.deployment.stop_record import DecisionRecord, Savings, StopOutcome, VetoRecord
from trackside.contracts.deployment.table_item import read_item, write_item
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.event import Evidence, RuleEvaluation, RuleEvaluationStatus, TrainingJob
from trackside.contracts.verdict import Severity

JOB = TrainingJob("digits", "arn:aws:sagemaker:us-east-1:123456789012:training-job/digits")
AT = 1_795_226_674.0  # 2026-11-21
MOMENTS = st.integers(0, 4 * 10**12).map(lambda milliseconds: milliseconds / 1000)
NUMBERS = st.floats(allow_nan=False)
TEXTS = st.text(max_size=20)
EVALUATIONS = st.builds(
    RuleEvaluation,
    job=st.just(JOB),
    configuration_name=TEXTS,
    status=st.sampled_from(RuleEvaluationStatus),
    details=st.text(max_size=1024),
    rule_id=TEXTS,
    severity=st.sampled_from(Severity),
    actions=st.none() | st.lists(st.sampled_from(Action), unique=True).map(tuple),
    what_to_do=st.lists(TEXTS, max_size=2).map(tuple),
    evaluation_job_arn=TEXTS,
    run_uri=TEXTS,
    modified_at=MOMENTS,
    evidence=st.builds(
        Evidence,
        tensor_name=TEXTS,
        worker=TEXTS,
        step=st.integers(0, 10**9),
        since_step=st.integers(0, 10**9),
        comparison=TEXTS,
        affected=st.integers(0, 100),
        statistics=st.dictionaries(TEXTS, NUMBERS, max_size=3),
        series=st.lists(st.tuples(st.integers(0, 10**9), NUMBERS), max_size=20).map(tuple),
        tensor_uri=TEXTS,
    ),
)
JOBS = st.builds(
    JobRecord,
    job=st.just(JOB),
    status=st.sampled_from(["InProgress", "Stopping", "Completed", "Failed", "Stopped"]),
    secondary_status=TEXTS,
    run_uri=TEXTS,
    created_at=MOMENTS,
    started_at=MOMENTS,
    ended_at=MOMENTS,
    modified_at=MOMENTS,
    failure_reason=TEXTS,
    instance_type=TEXTS,
    instance_count=st.integers(0, 100),
    max_runtime_seconds=st.integers(0, 2_419_200),
    evaluator=TEXTS,
)
ISSUE = RuleEvaluation(JOB, "dead-relu", RuleEvaluationStatus.ISSUES_FOUND, "dead", actions=(), modified_at=AT)
CLEAN = replace(ISSUE, status=RuleEvaluationStatus.NO_ISSUES_FOUND, modified_at=AT + 60)


def issue(*, at: float, since: int) -> RuleEvaluation:
    return replace(ISSUE, modified_at=at, evidence=Evidence(step=since, since_step=since))


@given(JOBS, st.none() | st.integers(1, 4 * 10**9))
def test_a_job_comes_back_as_it_went(job: JobRecord, expires_at: int | None) -> None:
    item = job.to_item(expires_at=expires_at)
    assert JobRecord.from_item(item) == job
    assert ("expires_at" in item) is (expires_at is not None)


@given(EVALUATIONS, TEXTS)
def test_what_a_rule_said_comes_back_as_it_was_said(said: RuleEvaluation, event_id: str) -> None:
    rule, history = merged(None, said), HistoryRecord(said, event_id)
    assert RuleRecord.from_item(rule.to_item(expires_at=7)) == rule
    assert HistoryRecord.from_item(history.to_item(expires_at=None)) == history


@given(
    st.builds(
        DecisionRecord,
        evaluation=EVALUATIONS,
        outcome=st.sampled_from(StopOutcome),
        at=MOMENTS,
        reason=TEXTS,
        event_id=TEXTS,
        savings=st.builds(
            Savings,
            remaining_seconds=st.integers(0, 10**7),
            instances=TEXTS,
            price_per_hour=st.floats(0, 1000),
            most_money=st.floats(0, 10**6),
        ),
    ),
    st.builds(VetoRecord, job_arn=st.just(JOB.arn), at=MOMENTS, by=TEXTS, reason=TEXTS),
)
def test_a_decision_and_a_veto_come_back_as_they_went(decision: DecisionRecord, veto: VetoRecord) -> None:
    assert DecisionRecord.from_item(decision.to_item(expires_at=None)) == decision
    assert VetoRecord.from_item(veto.to_item(expires_at=7)) == veto


def test_what_is_final_is_final() -> None:
    on_the_way = {outcome.value for outcome in StopOutcome if not outcome.is_final}
    assert on_the_way == {"Unconfirmed", "Announced", "OverBudget", "Stopping"}


@given(st.lists(EVALUATIONS, min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(said: list[RuleEvaluation], random: object) -> None:
    """For those of different moments: two that contradict one another within a millisecond have no order."""
    of_one_rule = {one.modified_at: replace(one, configuration_name="r") for one in said}
    shuffled = list(of_one_rule.values())
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    def known(events: list[RuleEvaluation]) -> RuleRecord:
        record = None
        for event in events:
            record = merged(record, event)
        assert record is not None
        return record

    assert known(shuffled) == known(list(of_one_rule.values()))
    twice = known([*shuffled, *shuffled])
    assert replace(twice, revision=len(shuffled)) == known(shuffled), "a duplicate changes nothing but the revision"


def test_an_issue_of_an_unknown_moment_is_not_the_first_one() -> None:
    issue = RuleEvaluation(JOB, "r", RuleEvaluationStatus.ISSUES_FOUND, "")
    unknown, later = replace(issue, modified_at=0.0), replace(issue, modified_at=9.0)
    assert merged(merged(None, unknown), later).first_found_at == 9.0
    assert merged(merged(None, later), unknown).first_found_at == 9.0


@pytest.mark.parametrize(
    ("said", "status", "findings"),
    [
        pytest.param((issue(at=1, since=5),), "IssuesFound", (5,), id="one issue"),
        pytest.param((issue(at=1, since=5), CLEAN), "NoIssuesFound", (5,), id="recovered"),
        pytest.param((CLEAN, issue(at=1, since=5)), "NoIssuesFound", (5,), id="recovered, the issue's event is late"),
        pytest.param(
            (issue(at=1, since=5), CLEAN, issue(at=AT + 99, since=9)), "IssuesFound", (5, 9), id="it came back"
        ),
        pytest.param((issue(at=1, since=5), issue(at=2, since=5)), "IssuesFound", (5,), id="said again"),
        pytest.param((CLEAN,), "NoIssuesFound", (), id="clean"),
        pytest.param((replace(ISSUE, actions=None),) * 2, "IssuesFound", (0,), id="official, repeated"),
    ],
)
def test_knows_the_latest_status_and_every_finding_once(
    said: tuple[RuleEvaluation, ...], status: str, findings: tuple[int, ...]
) -> None:
    record = None
    for one in said:
        record = merged(record, one)
    assert record is not None
    assert (record.evaluation.status.value, record.findings) == (status, findings)


def test_findings_without_end_do_not_make_an_item_too_large() -> None:
    record = None
    for step in range(MOST_FINDINGS + 50):
        record = merged(record, issue(at=step, since=step))
    assert record is not None
    assert len(record.findings) == MOST_FINDINGS
    assert record.last_found_at == MOST_FINDINGS + 49


def job(status: str, modified_at: float = AT) -> JobRecord:
    return JobRecord(JOB, status, created_at=AT, modified_at=modified_at)


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        pytest.param(job("InProgress", AT + 1), job("InProgress"), id="by time"),
        pytest.param(job("Stopping"), job("InProgress", AT + 9), id="stopping comes after running, whatever the clock"),
        pytest.param(job("Stopped"), job("Stopping", AT + 9), id="the end is the end"),
        pytest.param(job("Failed"), job("InProgress", AT + 9), id="failed"),
        pytest.param(
            replace(job("InProgress"), created_at=AT + 5), job("Completed", AT + 9), id="a new job of the same name"
        ),
    ],
)
def test_later_states_of_a_job_compare_greater(later: JobRecord, earlier: JobRecord) -> None:
    assert later.order > earlier.order


def test_a_job_lies_with_the_running_ones_until_it_has_ended() -> None:
    assert job("InProgress").shelf == job("Stopping").shelf == RUNNING
    assert job("Completed").shelf == shelf_of_day(AT) == "2026-11-21"


@pytest.mark.parametrize(
    "bits",
    [
        pytest.param(list(order), id=" ".join(order))
        for order in itertools.permutations(("IssuesFound", "NoIssuesFound", "InProgress"))
    ],
)
def test_of_statuses_of_one_moment_the_one_that_says_most_stays(bits: list[str]) -> None:
    record = None
    for status in bits:
        record = merged(record, replace(ISSUE, status=RuleEvaluationStatus(status)))
    assert record is not None
    assert record.evaluation.found_issues


def test_each_thing_that_was_said_has_a_key_of_its_own() -> None:
    said = [ISSUE, CLEAN, replace(ISSUE, modified_at=AT + 60), replace(ISSUE, configuration_name="other")]
    keys = [HistoryRecord(one).key for one in said]
    assert len(set(keys)) == len(keys)
    assert HistoryRecord(ISSUE, "another delivery").key == keys[0]
    assert keys[0] < keys[1], "in the order of time"


def test_half_a_surrogate_pair_does_not_break_an_item() -> None:
    item = merged(None, replace(ISSUE, details="a\ud800b")).to_item(expires_at=None)
    assert item["details"] == {"S": "a?b"}
    assert RuleRecord.from_item(item).evaluation.details == "a\ud800b"


def test_an_item_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        read_item({"pk": {"SS": ["a"]}})
    with pytest.raises(ConfigurationError, match="status"):
        JobRecord.from_item(write_item({"pk": JOB.arn, "name": "digits"}))


def test_an_evaluators_count_orders_what_two_clocks_would_not() -> None:
    """A successor two hours behind, and one two hours ahead: the second issue stands, whatever the order of events."""
    for skew in (-7200.0, 0.0, 7200.0):
        statuses = (
            replace(issue(at=AT, since=1), sequence=2),
            replace(CLEAN, modified_at=AT + 60, sequence=3),
            replace(issue(at=AT + 120 + skew, since=9), sequence=4),
        )
        for order in itertools.permutations(statuses):
            known = None
            for status in order:
                known = merged(known, status)
            assert known is not None
            assert (known.evaluation, known.findings) == (statuses[2], (1, 9))
    assert not is_later(ISSUE, CLEAN), "without a count the moment decides"
