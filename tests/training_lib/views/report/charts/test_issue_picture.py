"""The picture of an issue: pixels of known places."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.training_lib.views.report.charts.test_canvas import pixels
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.runs.live_run import Curve
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_collections, write_tensors
from trackside.views.report.charts.issue_picture import (
    _BROKEN,
    _CURVE,
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    IssuePictures,
)
from trackside.views.report.charts.issue_picture import issue_picture as drawn


def picture(values: list[float], *, since: int, severity: Severity = Severity.CRITICAL) -> NDArray[np.int64]:
    loss = Curve("loss", np.arange(len(values)), np.array(values, float))
    return pixels(drawn(loss, since=since, severity=severity)).astype(np.int64)


def x_of(step: float, first: int, last: int) -> int:
    return round(LEFT + (step - first) / (last - first) * (WIDTH - LEFT - RIGHT))


def has(found: NDArray[np.int64], color: tuple[int, int, int], where: tuple[slice, slice]) -> bool:
    return bool((np.abs(found[where] - np.array(color)).max(axis=2) < 12).any())


def test_the_issue_is_marked_at_its_step_and_shaded_from_there_on() -> None:
    found = picture([2.0] * 101, since=75)
    at, height = x_of(75, 0, 100), slice(TOP, HEIGHT - BOTTOM)
    assert has(found, (179, 38, 30), (height, slice(at - 2, at + 3)))
    assert found[TOP + 4, at + 40].tolist() == [247, 233, 232], "shaded"
    assert found[TOP + 4, at - 40].tolist() == [255, 255, 255], "not yet"


@pytest.mark.parametrize(
    ("values", "since"),
    [
        pytest.param([1.0] * 8000 + [9.0] + [1.0] * 2000, 9000, id="of-ten-thousand-steps"),
        pytest.param([1.0] * 50 + [9.0] + [1.0] * 50, 90, id="of-a-hundred"),
    ],
)
def test_one_high_number_reaches_the_top(values: list[float], since: int) -> None:
    found = picture(values, since=since)
    top = slice(TOP, TOP + 60)
    assert (found[top, LEFT:].min(axis=2) < 230).any()
    first = max(0, since - max(1000, 3 * (len(values) - 1 - since)))
    at = x_of(values.index(9.0), first, len(values) - 1)
    columns = np.flatnonzero((found[top, LEFT:, 2] > found[top, LEFT:, 0] + 20).any(axis=0)) + LEFT
    assert len(columns)
    assert abs(columns.mean() - at) < 8


@pytest.mark.parametrize(
    ("values", "is_marked"),
    [
        pytest.param([2.0, 1.0, math.nan, 1.0], True, id="nan"),
        pytest.param([2.0, 1.0, math.inf, 1.0], True, id="infinite"),
        pytest.param([math.nan] * 4, True, id="nothing-else"),
        pytest.param([2.0, 1.0, 0.5, 1.0], False, id="finite"),
        pytest.param([2.0], False, id="one-step"),
        pytest.param([0.0] * 4, False, id="zeros"),
    ],
)
def test_a_number_that_is_not_finite_is_marked(values: list[float], is_marked: bool) -> None:
    found = picture(values, since=min(2, len(values) - 1))
    assert has(found, _BROKEN, (slice(TOP, HEIGHT - BOTTOM), slice(LEFT, WIDTH))) is is_marked


def test_a_long_run_is_shown_around_the_issue() -> None:
    found = picture([5.0] * 20_000 + [1.0] * 1_100, since=21_000)
    assert has(found, _CURVE, (slice(TOP, HEIGHT - BOTTOM), slice(LEFT, WIDTH)))
    finite = np.flatnonzero((np.abs(found - np.array(_CURVE)).max(axis=2) < 12).any(axis=1))
    assert finite.max() - finite.min() < 12, "of the last thousand steps, at which the loss is level"


def verdict(since: int) -> Verdict:
    finding = Finding("gradient/fc", 3, since, "norm", 9.0, ">", 1.0)
    return Verdict(
        "a", "r", "r", Outcome.ISSUE_FOUND, Severity.WARNING, 3, "It rose.", 0.0, findings=(finding,), affected=1
    )


@pytest.mark.parametrize(
    ("names", "is_drawn"),
    [
        pytest.param(["CrossEntropyLoss_output_0", "gradient/fc"], True, id="a-loss"),
        pytest.param(["gradient/fc"], False, id="none"),
    ],
)
def test_it_is_drawn_from_a_run_that_still_trains(tmp_path: Path, names: list[str], is_drawn: bool) -> None:
    run = RunLocation(str(tmp_path / "a"))
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    pictures = IssuePictures(run.uri, clock=lambda: 1.8e9)
    sizes = []
    for step in range(4):
        write_tensors(tensors, step, dict.fromkeys(names, 2.0 - step / 4))
        image = pictures.draw(verdict(step))
        assert (image is not None) is is_drawn
        sizes.append(len(image or b""))
    assert max(sizes) < 50_000, "a message is waited for"
