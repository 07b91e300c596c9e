"""Events under faults, in its small form; `python -m benchmarks.faults.report` is the large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.faults.cases import (
    PERSON_CASE,
    POISON,
    RACE_CASE,
    RESUME_CASES,
    RESUMED_CASE,
    REUSED_CASE,
    Case,
    crowd_case,
)
from benchmarks.faults.play import SETTINGS, play
from benchmarks.faults.report import DEADLY, STORM
from benchmarks.faults.wiring import Wiring, read_wiring
from lambdas.notify_owner import owner_messages
from lambdas.shared.decisions import Done, Nothing
from stacks.assembly import assembly
from trackside_localaccount.faults import Faults


@pytest.fixture(scope="module")
def wiring() -> Wiring:
    return read_wiring(assembly())


def test_nothing_is_lost_and_nothing_is_wrong_in_a_storm(wiring: Wiring) -> None:
    result = play(wiring, replace(STORM, seed=11), events=150, spread_hours=1.0)
    assert result.lost == result.wrong == ()
    assert result.stops > 0
    assert result.poison == len(POISON)
    for fault in ("duplicate", "drop", "delay", "throttle"):
        assert result.faults[fault] > 0


@pytest.mark.parametrize(
    ("cases", "events"),
    [
        pytest.param((crowd_case(40),), 40, id="40 rules ask at once; the large form has 200"),
        pytest.param((REUSED_CASE,), 24, id="names that were other jobs', which were stopped and deleted"),
        pytest.param((PERSON_CASE, RACE_CASE), 24, id="a person stops the job before us, or in the same minutes"),
    ],
)
def test_a_stop_is_made_once_and_the_record_says_by_whom(wiring: Wiring, cases: tuple[Case, ...], events: int) -> None:
    """Functions die at one call in fourteen, also between the record of a request and the request."""
    result = play(wiring, replace(DEADLY, seed=23), events=events, spread_hours=0.5, cases=cases)
    assert result.lost == result.wrong == ()
    assert result.deaths > 0
    assert result.faults["stale"] > 0
    assert result.faults["late"] > 0


def test_a_job_goes_on_once_and_never_without_leave(wiring: Wiring) -> None:
    result = play(wiring, replace(DEADLY, seed=23), events=70, spread_hours=0.5, cases=RESUME_CASES)
    assert result.lost == result.wrong == ()
    assert result.deaths > 0
    assert 0 < result.resumed < result.stops


def test_the_comparison_sees_a_job_that_goes_on_without_leave(wiring: Wiring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "TRACKSIDE_RESUME_ROLES", "")
    result = play(wiring, Faults(seed=3), events=8, spread_hours=0.5, cases=(RESUMED_CASE,))
    assert result.resumed == 0
    assert any("0 jobs go on in its place" in sentence for sentence in result.lost)


def test_a_table_that_is_down_for_an_hour_loses_nothing(wiring: Wiring) -> None:
    result = play(wiring, Faults(seed=5), events=60, spread_hours=1.0, outage=("dynamodb",))
    assert result.lost == result.wrong == ()
    assert result.repeated == 0
    assert result.faults["outage"] > 0
    assert result.redriven > 0


def test_a_request_that_comes_after_its_job_was_deleted_is_too_late_and_stops_no_other(wiring: Wiring) -> None:
    result = play(wiring, Faults(seed=7, late=1.0), events=80, spread_hours=0.5, cases=(REUSED_CASE,))
    assert result.lost == result.wrong == ()
    assert result.too_late > 0
    assert result.stops == result.jobs - result.too_late


def test_the_comparison_sees_a_function_that_forgets(wiring: Wiring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who tells at each delivery tells more than once."""

    def each_time(action: Any, evaluation: Any, act: Callable[[], Done | Nothing], **_: Any) -> Done | Nothing:
        return act()

    monkeypatch.setattr(owner_messages, "once", each_time)
    result = play(wiring, Faults(seed=5, duplicate=0.5), events=60, spread_hours=0.5)
    assert any("told 2 times" in sentence for sentence in result.wrong)
    assert result.lost == ()
