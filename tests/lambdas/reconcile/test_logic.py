"""Where SageMaker and the table differ, and the event that would have told."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from lambdas.reconcile.logic import Doubts, Listed, doubts, missed_event
from lambdas.reconcile.settings import ReconcileSettings
from tests.lambda_settings import made
from trackside.contracts.deployment.run_table import JobRecord
from trackside.contracts.event import TrainingJob, read_rule_evaluations, read_training_job_state_change

ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/"
NOW = 1_795_226_674.0
HOUR = 3600
SETTINGS = made(
    ReconcileSettings,
    run_table="runs",
    start_queue_url="start",
    record_queue_url="record",
    run_bucket="runs-bucket",
)


def held(name: str, *, evaluator: str = "it", age: float = HOUR, run_uri: str = "s3://runs/x") -> JobRecord:
    job = TrainingJob(name, ARN + name)
    created_at = NOW - age
    return JobRecord(job, "InProgress", run_uri=run_uri, created_at=created_at, evaluator=evaluator)


def listed(name: str, *, age: float = HOUR) -> Listed:
    return Listed(name, ARN + name, NOW - age)


def found(
    table: list[JobRecord],
    jobs: list[Listed],
    *,
    is_whole: bool = True,
    unwatched: frozenset[str] = frozenset(),
    **changes: Any,
) -> Doubts:
    settings = replace(SETTINGS, **changes)
    return doubts(table, jobs, is_whole=is_whole, unwatched=unwatched, settings=settings, now=NOW)


@pytest.mark.parametrize(
    ("table", "jobs", "more"),
    [
        pytest.param([], [], {}, id="nothing runs"),
        pytest.param([held("a")], [listed("a")], {}, id="runs and is judged"),
        pytest.param([], [listed("a", age=59)], {}, id="so young that its event may be on the way"),
        pytest.param(
            [held("a", evaluator="", age=59)], [listed("a", age=59)], {}, id="its evaluator may be on the way"
        ),
        pytest.param([], [listed("a")], {"unwatched": {listed("a").job.identity}}, id="did not ask for Trackside"),
        pytest.param(
            [held("a", evaluator="", run_uri="")], [listed("a")], {}, id="judged by SageMaker Debugger, not by us"
        ),
        pytest.param(
            [held("a"), held("old", age=9 * HOUR)],
            [listed("a")],
            {"is_whole": False},
            id="the list was cut before it came to that job",
        ),
    ],
)
def test_doubts_nothing(table: list[JobRecord], jobs: list[Listed], more: dict[str, Any]) -> None:
    doubted = found(table, jobs, **more)
    assert (doubted.may_have_ended, doubted.unknown, doubted.unjudged) == ((), (), ())


@pytest.mark.parametrize(
    ("table", "jobs", "more", "doubted"),
    [
        pytest.param([held("a")], [], {}, ("a", "", ""), id="it runs no more"),
        pytest.param([held("a", run_uri="")], [], {}, ("a", "", ""), id="one of SageMaker Debugger's runs no more"),
        pytest.param(
            [held("a", age=HOUR)],
            [listed("b", age=2 * HOUR)],
            {"is_whole": False, "unwatched": {listed("b", age=2 * HOUR).job.identity}},
            ("a", "", ""),
            id="the list was cut after it",
        ),
        pytest.param([], [listed("a")], {}, ("", "a", ""), id="nothing is known of it"),
        pytest.param([held("a", evaluator="")], [listed("a")], {}, ("", "", "a"), id="nothing was seen to judge it"),
        pytest.param([held("a", evaluator="")], [], {}, ("a", "", ""), id="ended, and nothing judged it"),
        pytest.param(
            [held("a"), held("b", evaluator="")], [listed("b"), listed("c")], {}, ("a", "c", "b"), id="all at once"
        ),
    ],
)
def test_doubts(
    table: list[JobRecord], jobs: list[Listed], more: dict[str, Any], doubted: tuple[str, str, str]
) -> None:
    answer = found(table, jobs, **more)
    names = [" ".join(one.job.name for one in some) for some in (answer.may_have_ended, answer.unjudged)]
    assert (names[0], " ".join(one.name for one in answer.unknown), names[1]) == doubted


def test_a_sweep_is_capped_and_says_what_it_left() -> None:
    ended = [replace(held(f"e{n}"), modified_at=NOW - n) for n in range(5)]
    answer = found(ended, [listed(f"u{n}") for n in range(4)], most_described=3)
    names = [one.job.name for one in answer.may_have_ended]
    assert names[0] == "e4", "whoever was held longest comes first"
    assert len(set(names)) == len(answer.unknown) == 3
    assert answer.left == ("2 jobs that may have ended", "1 jobs that nothing is known of")
    cut = found([], [listed("a")], is_whole=False)
    assert "more than 1 jobs run" in cut.left[0]


def test_none_starves_behind_jobs_about_which_nothing_can_be_learnt() -> None:
    """50 jobs in the state `Deleting` came first in each sweep, and no job that had really ended was ever reached."""
    stuck = [replace(held(f"stuck-{n}"), modified_at=NOW - HOUR) for n in range(60)]
    table = [*stuck, replace(held("ended"), modified_at=NOW - 1)]
    sweeps = [
        doubts(table, [], is_whole=True, unwatched=(), settings=SETTINGS, now=NOW + sweep * 300).may_have_ended
        for sweep in range(12)
    ]
    assert {len(some) for some in sweeps} == {SETTINGS.most_described}
    assert any(one.job.name == "ended" for some in sweeps for one in some)


def test_a_later_job_of_the_same_name_is_another() -> None:
    answer = found([held("a", age=9 * HOUR)], [listed("a")])
    assert [one.job.name for one in answer.may_have_ended] == ["a"]
    assert [one.created_at for one in answer.unknown] == [NOW - HOUR]
    assert found([held("a", age=9 * HOUR)], [listed("a", age=9 * HOUR)]).unknown == ()


def test_jobs_that_sagemaker_debugger_judges_are_asked_about_in_turn() -> None:
    theirs = [held(f"t{n}", run_uri="") for n in range(5)]
    jobs = [listed(f"t{n}") for n in range(5)]
    asked: set[str] = set()
    for sweep in range(3):
        some = doubts(
            [*theirs, held("ours")],
            [*jobs, listed("ours")],
            is_whole=True,
            unwatched=(),
            settings=replace(SETTINGS, most_described=2),
            now=NOW + sweep * 300,
        ).judged_by_debugger
        assert len(some) == 2
        asked.update(one.job.name for one in some)
    assert asked == {"t0", "t1", "t2", "t3", "t4"}


def looked_after(table: list[JobRecord], jobs: list[Listed], *, at: float = NOW, most: int = 200) -> set[str]:
    settings = replace(SETTINGS, most_looked_after=most)
    answer = doubts(table, jobs, is_whole=True, unwatched=(), settings=settings, now=at)
    return {one.job.name for one in answer.judged_by_us}


@pytest.mark.parametrize(
    ("record", "jobs", "is_looked_after"),
    [
        pytest.param(held("a"), [listed("a")], True, id="it runs and is judged"),
        pytest.param(held("a", age=1800), [listed("a", age=1800)], True, id="just old enough"),
        pytest.param(held("a", age=1799), [listed("a", age=1799)], False, id="its evaluator may still be starting"),
        pytest.param(held("a", evaluator=""), [listed("a")], False, id="nothing judges it: that is another doubt"),
        pytest.param(held("a", run_uri="", evaluator=""), [listed("a")], False, id="judged by SageMaker Debugger"),
        pytest.param(held("a"), [], False, id="it runs no more"),
    ],
)
def test_looks_after_evaluators(record: JobRecord, jobs: list[Listed], is_looked_after: bool) -> None:
    assert looked_after([record], jobs) == ({"a"} if is_looked_after else set())


def test_evaluators_are_looked_after_in_turn() -> None:
    names = [f"t{n}" for n in range(5)]
    table, jobs = [held(name) for name in names], [listed(name) for name in names]
    turns = [looked_after(table, jobs, at=NOW + sweep * 300, most=2) for sweep in range(3)]
    assert [len(turn) for turn in turns] == [2, 2, 2]
    assert set.union(*turns) == set(names), "nobody is left out while others come twice"


def test_the_missed_event_tells_what_the_real_one_would() -> None:
    at = datetime.fromtimestamp(NOW, tz=timezone.utc)
    description = {
        "TrainingJobName": "digits",
        "TrainingJobArn": ARN + "digits",
        "TrainingJobStatus": "Failed",
        "SecondaryStatus": "Failed",
        "FailureReason": "AlgorithmError",
        "CreationTime": at,
        "LastModifiedTime": at,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        "HyperParameters": {"token": "secret"},
        "Environment": {"TOKEN": "secret"},
        "DebugRuleEvaluationStatuses": [
            {"RuleConfigurationName": "Overfit", "RuleEvaluationStatus": "IssuesFound", "LastModifiedTime": at}
        ],
    }
    event = missed_event(description, tags={"trackside:run": "s3://runs/digits"})
    assert "secret" not in str(event)
    change = read_training_job_state_change(event)
    assert (change.status, change.modified_at, change.max_runtime_seconds) == ("Failed", NOW, 60)
    assert change.tags == {"trackside:run": "s3://runs/digits"}
    (said,) = read_rule_evaluations(event, and_of_ended_jobs=True)
    assert (said.configuration_name, said.modified_at) == ("Overfit", NOW)
    assert read_rule_evaluations(event) == ()
    assert missed_event(description, tags={})["detail"]["Tags"] == {}
