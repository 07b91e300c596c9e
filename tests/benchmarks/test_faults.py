"""Events under faults, in its small form; `python -m benchmarks.faults.report` is the large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.faults.cases import POISON
from benchmarks.faults.play import play
from benchmarks.faults.report import STORM
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


def test_a_table_that_is_down_for_an_hour_loses_nothing(wiring: Wiring) -> None:
    result = play(wiring, Faults(seed=5), events=60, spread_hours=1.0, outage=("dynamodb",))
    assert result.lost == result.wrong == ()
    assert result.repeated == 0
    assert result.faults["outage"] > 0
    assert result.redriven > 0


def test_the_comparison_sees_a_function_that_forgets(wiring: Wiring, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who tells at each delivery tells more than once."""

    def each_time(action: Any, evaluation: Any, act: Callable[[], Done | Nothing], **_: Any) -> Done | Nothing:
        return act()

    monkeypatch.setattr(owner_messages, "once", each_time)
    result = play(wiring, Faults(seed=5, duplicate=0.5), events=60, spread_hours=0.5)
    assert any("told 2 times" in sentence for sentence in result.wrong)
    assert result.lost == ()
