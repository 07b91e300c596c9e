"""Calls of SageMaker keep apart, but never at the price of the function's time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lambdas.shared import pace as module
from lambdas.shared.pace import pace
from stacks.constructs.queue_backed_function import pause_milliseconds


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_last", {})


def waits(moments: list[float], *, pause: int, left: int = 30_000) -> list[float]:
    """How long each of the calls that are wanted at these moments (seconds) waits."""
    slept: list[float] = []
    context: Any = SimpleNamespace(get_remaining_time_in_millis=lambda: left)
    now = [0.0]

    def sleep(seconds: float) -> None:
        slept[-1] += seconds
        now[0] += seconds

    for moment in moments:
        now[0] = max(now[0], moment)
        slept.append(0.0)
        pace("stop", pause_milliseconds=pause, context=context, clock=lambda: now[0], sleep=sleep)
    return slept


@pytest.mark.parametrize(
    ("moments", "pause", "left", "expected"),
    [
        pytest.param([0, 0, 0], 1000, 30_000, [0, 1, 1], id="a burst"),
        pytest.param([0, 5, 9], 1000, 30_000, [0, 0, 0], id="slow by itself"),
        pytest.param([0, 0.25], 1000, 30_000, [0, 0.75], id="nearly"),
        pytest.param([0, 0, 0], 0, 30_000, [0, 0, 0], id="no pace"),
        pytest.param([0, 0, 0], 1000, 9_000, [0, 0, 0], id="no time to wait"),
        pytest.param([0, 0], 5000, 12_000, [0, 2], id="little time to wait"),
    ],
)
def test_waits_as_long_as_it_must(moments: list[float], pause: int, left: int, expected: list[float]) -> None:
    assert waits(moments, pause=pause, left=left) == expected


@pytest.mark.parametrize(("calls", "at_once", "pause"), [(2, 2, 1000), (1, 2, 2000), (10, 2, 200), (2, 5, 2500)])
def test_all_processes_together_keep_the_rate(calls: int, at_once: int, pause: int) -> None:
    assert pause_milliseconds(calls, at_once=at_once) == pause
