"""Steps as bars: phases add up to the mean step, and no slow step is hidden."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.views.report.charts.test_markup import seen
from trackside.speed.performance.profile import StepDurations
from trackside.views.report.charts.line_chart import Span
from trackside.views.report.charts.wall_time import WallTime
from trackside.views.report.timeline import StepBars, step_bars, timeline_figure


def bars_of(whole: StepDurations, steps: tuple[int, int], *, length: int = 7) -> StepBars | None:
    """Return the bars of steps that come in pieces."""
    pieces = [
        StepDurations(
            whole.worker,
            whole.steps[first : first + length],
            whole.seconds[first : first + length],
            {name: values[first : first + length] for name, values in whole.phases.items()},
            whole.waits[first : first + length],
            whole.batches_ready[first : first + length],
        )
        for first in range(0, len(whole.steps), length)
    ]
    return next(iter(step_bars(pieces, steps)), None)


def durations(seconds: np.ndarray, *, worker: str = "worker_0", **phases: np.ndarray) -> StepDurations:
    return StepDurations(worker, np.arange(len(seconds)), seconds, phases, *[np.full(len(seconds), np.nan)] * 2)


@given(st.integers(1, 3000), st.integers(0, 2999), st.integers(1, 5))
def test_phases_add_up_to_the_mean_and_the_slowest_step_shows(count: int, slow: int, factor: int) -> None:
    seconds = np.full(count, 0.1)
    seconds[slow % count] = 0.1 + factor
    bars = bars_of(durations(seconds, data=np.full(count, 0.02), backward=np.full(count, 0.05)), (0, count - 1))
    assert bars is not None
    assert len(bars.first) <= 160
    counts = bars.last - bars.first + 1
    assert float((sum(bars.phases.values(), np.zeros(1)) * counts).sum()) == pytest.approx(seconds.sum())
    assert bars.longest.max() == 0.1 + factor
    assert bars.slow[0][:3] == (slow % count, 0.1 + factor, "rest")


def test_steps_without_a_time_are_no_bars() -> None:
    assert bars_of(durations(np.full(5, np.nan)), (0, 4)) is None
    assert bars_of(durations(np.full(5, 0.1)), (7, 9)) is None


def test_a_phase_at_some_steps_only_counts_as_nothing_at_the_others() -> None:
    evaluation = np.array([np.nan, 0.4, np.nan, np.nan])
    bars = bars_of(durations(np.array([0.1, 0.5, 0.1, 0.1]), evaluation=evaluation), (0, 3))
    assert bars is not None
    assert bars.phases["evaluation"].tolist() == [0.0, 0.4, 0.0, 0.0]


def test_names_of_others_stay_text_and_findings_are_marked() -> None:
    bars = bars_of(durations(np.full(10, 0.1), worker="<script>"), (0, 9))
    assert bars is not None
    spans = [Span(4, 9, "critical", "</text><script>")]
    found = seen(str(timeline_figure(bars, steps=(0, 9), spans=spans, around=lambda step: f"/?steps={step}")))
    assert not [name for name, _ in found.elements if name == "script"]
    assert [a for _, a in found.elements if a.get("class") == "since"]
    assert [a["href"] for name, a in found.elements if name == "a"][:1] == ["/?steps=0"]


def test_a_pause_is_as_wide_as_it_was() -> None:
    """Ten steps of a second, a pause of ten seconds before the last five."""
    steps = np.arange(10)
    times: np.ndarray = steps + np.where(steps >= 5, 10.0, 0.0)
    clock = WallTime.of([(steps, times)], (0, 9))
    bars = bars_of(durations(np.full(10, 1.0)), (0, 9))
    assert bars is not None
    spans = [Span(5, 9, "critical", "r")]
    drawn = [
        str(timeline_figure(bars, steps=(0, 9), spans=spans, around=lambda step: f"/?steps={step}", clock=each))
        for each in (None, clock)
    ]
    by_steps, by_time = (
        next(float(str(a["x1"])) for _, a in seen(page).elements if a.get("class") == "since") for page in drawn
    )
    assert by_steps == pytest.approx(72 + 876 * 5 / 10, abs=0.1)
    assert by_time == pytest.approx(72 + 876 * 15 / 19, abs=0.1)
    assert "19 s" in seen(drawn[1]).text
    assert "19 s" not in seen(drawn[0]).text
