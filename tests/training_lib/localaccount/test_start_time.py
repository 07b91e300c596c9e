"""Limits in starts of a program: they fit a machine, however slow it is."""

from __future__ import annotations

import pytest

from trackside_localaccount.start_time import LEAST_LIMIT_SECONDS, is_late, limit_seconds, seconds_to_start


def test_a_start_is_measured_once() -> None:
    assert 0.0 < seconds_to_start("json") == seconds_to_start("json")


@pytest.mark.parametrize(
    ("starts", "start_seconds", "limit"),
    [
        pytest.param(20, 3.0, 60.0, id="starts"),
        pytest.param(20, 15.0, 300.0, id="five times slower"),
        pytest.param(20, 0.1, LEAST_LIMIT_SECONDS, id="a quick machine, where fixed pauses remain"),
    ],
)
def test_a_limit_grows_with_the_time_that_a_start_takes(starts: float, start_seconds: float, limit: float) -> None:
    assert limit_seconds(starts, start_seconds=start_seconds) == limit


def test_nothing_is_late_before_its_limit() -> None:
    start = seconds_to_start()
    assert not is_late(LEAST_LIMIT_SECONDS, starts=0)
    assert is_late(LEAST_LIMIT_SECONDS + 1, starts=1 / start)
    assert not is_late(1000 * start, starts=1001)
