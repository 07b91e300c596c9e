"""Steps on an axis of wall time: pauses are as wide as they were, and every step keeps its place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.trial.tensors.buckets import edges_of
from trackside.views.report.charts.wall_time import WallTime, duration_text


@given(st.lists(st.floats(0.01, 100.0), min_size=2, max_size=100))
def test_each_step_has_the_place_of_its_moment(pauses: list[float]) -> None:
    times = np.cumsum(np.array(pauses))
    steps = np.arange(len(times))
    pieces = [(steps[first : first + 7], times[first : first + 7]) for first in range(0, len(steps), 7)]
    axis = WallTime.of(pieces, (0, len(times)))
    assert axis is not None
    for step, time in enumerate(times.tolist()):
        assert axis.share(step) == pytest.approx((time - times[0]) / (times[-1] - times[0]), abs=1e-9)


def test_a_pause_in_a_long_run_is_as_wide_as_it_was() -> None:
    steps = np.arange(1_000_000)
    times = steps.astype(np.float64) * 0.01
    times[400_000:] += 10_000.0  # as long as all steps together
    pieces = [
        (steps[first : first + 111_111], times[first : first + 111_111]) for first in range(0, 1_000_000, 111_111)
    ]
    axis = WallTime.of(pieces, (0, 999_999))
    assert axis is not None
    assert axis.share(399_999) == pytest.approx(0.2, abs=1e-3)
    assert axis.share(400_000) == pytest.approx(0.7, abs=1e-3)
    columns = axis.columns(edges_of(0, 999_999, 160), 160)
    assert np.all(np.diff(columns) >= 0)
    assert (columns == 63).sum() == pytest.approx(80, abs=2), "the pause shows what was last"
    assert axis.labels() == ("0 s", "2 h 46 min", "5 h 33 min")
    assert len(axis.to_json()) < 5000


def test_without_moments_there_is_no_axis() -> None:
    none = np.empty(0)
    assert WallTime.of([], (0, 9)) is None
    assert WallTime.of([(none.astype(np.int64), none)], (0, 9)) is None
    assert WallTime.of([(np.arange(3), np.ones(3))], (0, 9)) is None


@pytest.mark.parametrize(("seconds", "words"), [(0.25, "0.25 s"), (61, "1 min 1 s"), (7200, "2 h 0 min")])
def test_seconds_in_words(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words
