"""Differences between clocks: found where ranks end steps together, and not concluded where they do not."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from trackside.speed.performance.clocks import clock_offsets

STEPS = 40
LENGTH = 0.5


def ends(
    ahead: float, *, jitter: float = 0.0, drift: float = 0.0, steps: int = STEPS, seed: int = 0
) -> dict[int, float]:
    """Return the ends of steps by a clock that is ahead, with a rank's own deviations."""
    source = random.Random(seed)
    return {
        step: 1.7e9 + LENGTH * step * (1 + drift) + ahead + source.uniform(-jitter, jitter) for step in range(steps)
    }


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(ends(3.0), 3.0, id="ahead"),
        pytest.param(ends(-7200.0), -7200.0, id="another time zone"),
        pytest.param(ends(3.0, jitter=0.05, seed=1), 3.0, id="with jitter"),
        pytest.param(ends(0.0), 0.0, id="the same clock"),
        pytest.param(ends(0.02), 0.0, id="a rank that ends its steps a little later"),
        pytest.param(ends(0.3, jitter=0.5, seed=1), 0.0, id="not steady"),
        pytest.param(ends(3.0, drift=0.2), 0.0, id="ranks that do not train together"),
        pytest.param(ends(3.0, steps=5), 0.0, id="too few steps"),
        pytest.param({}, 0.0, id="no steps"),
    ],
)
def test_the_clock_of_another_machine(other: Mapping[int, float], expected: float) -> None:
    found = clock_offsets({"worker_0": ends(0.0), "worker_1": other}, {"worker_0": "a", "worker_1": "b"})
    assert found["worker_0"] == 0.0
    assert found["worker_1"] == pytest.approx(expected, abs=0.05)


def test_workers_of_one_machine_have_one_clock() -> None:
    both = {"worker_0": ends(0.0), "worker_1": ends(3.0)}
    assert clock_offsets(both, {"worker_0": "a", "worker_1": "a"}) == {"worker_0": 0.0, "worker_1": 0.0}
    machines = {"worker_0": "a", "worker_1": "a", "worker_2": "b", "worker_3": "b"}
    four = {"worker_0": ends(0.0), "worker_1": ends(0.0), "worker_2": ends(4.0), "worker_3": ends(4.1)}
    found = clock_offsets(four, machines)
    assert found["worker_2"] == found["worker_3"] == pytest.approx(4.05)
    assert clock_offsets({}, {}) == {}
