"""Numbers of points: steps where a log has them, never a step that it does not have."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from trackside.imported.log import Log
from trackside.imported.names import meanings_of
from trackside.imported.numbering import EPOCHS, ROUNDS, ROWS, STEPS, NumberedLog, newest_course, numbered
from trackside.imported.points import points_of

NAN = float("nan")


def of_rows(**columns: Sequence[float]) -> NumberedLog:
    """Return the numbered log of a table; NaN is an empty cell."""
    series = {}
    for name, values in columns.items():
        rows = [row for row, value in enumerate(values, 1) if not np.isnan(value)]
        series[name] = points_of(rows, [values[row - 1] for row in rows])
    log = Log("log", "log.csv", "CSV", series)
    return numbered(log, meanings_of(list(series), {}))


@pytest.mark.parametrize(
    ("columns", "unit", "steps"),
    [
        pytest.param({"step": [10, 20, 30], "loss": [3, 2, 1]}, STEPS, [10, 20, 30], id="steps"),
        pytest.param({"epoch": [0, 1, 2], "loss": [3, 2, 1]}, EPOCHS, [0, 1, 2], id="epochs"),
        pytest.param({"round": [0, 1, 2], "train-rmse": [3, 2, 1]}, ROUNDS, [0, 1, 2], id="rounds"),
        pytest.param({"loss": [3, 2, 1]}, ROWS, [1, 2, 3], id="nothing-to-count-by"),
        pytest.param({"epoch": [0.1, 0.2, 0.3], "loss": [3, 2, 1]}, ROWS, [1, 2, 3], id="parts-of-epochs"),
        pytest.param({"epoch": [1, 1, 1, 1, 2], "loss": [3, 2, 2, 2, 1]}, ROWS, [1, 2, 3, 4, 5], id="rows-of-epochs"),
        pytest.param({"step": [7, 7, 7], "loss": [3, 2, 1]}, ROWS, [1, 2, 3], id="one-step-throughout"),
        pytest.param({"step": [0.5, 1.5], "loss": [2, 1]}, ROWS, [1, 2], id="no-whole-steps"),
        pytest.param({"step": [-1, 0], "loss": [2, 1]}, ROWS, [1, 2], id="below-zero"),
        pytest.param(
            {"epoch": [1, 1, 2, 2, 3, 3], "step": [0, 9, 0, 9, 0, 9], "loss": [6, 5, 4, 3, 2, 1]},
            ROWS,
            [1, 2, 3, 4, 5, 6],
            id="steps-of-each-epoch",
        ),
        pytest.param({"step": [10, NAN, 30], "loss": [3, 2, 1]}, STEPS, [10, 30], id="a-row-without-its-step"),
    ],
)
def test_what_is_counted(columns: dict[str, Sequence[float]], unit: str, steps: list[int]) -> None:
    found = of_rows(**columns)
    (loss,) = found.meanings.losses.values()
    assert (found.unit, found.series[loss].steps.tolist()) == (unit, steps)


def test_a_resumed_training_goes_over_steps_again() -> None:
    resumed = newest_course(points_of([100, 200, 300, 400, 250, 350, 450], np.arange(7)))
    assert resumed.steps.tolist() == [100, 200, 250, 350, 450]
    for steps in ([1, 2, 3], [10, 20, 15, 30, 25, 40], [1]):  # rows that came in another order are no new course
        assert newest_course(points_of(steps, steps)).steps.tolist() == steps


FALLING = [0.69314718, 0.51234567, 0.41234567, 0.45678901]


@pytest.mark.parametrize(
    ("columns", "steps"),
    [
        pytest.param({"valid_loss": [*FALLING, FALLING[2]]}, 4, id="the-best-round-again"),
        pytest.param({"train_loss": [*FALLING, FALLING[2]], "valid_loss": [*FALLING, FALLING[2]]}, 4, id="of-both"),
        pytest.param({"valid_loss": [*FALLING, FALLING[3]]}, 4, id="the-last-round-again"),
        pytest.param({"train_loss": [*FALLING, 0.3333333], "valid_loss": [*FALLING, FALLING[2]]}, 5, id="of-one-alone"),
        pytest.param(
            {"train_loss": [*FALLING, FALLING[1]], "valid_loss": [*FALLING, FALLING[2]]}, 5, id="of-two-rounds"
        ),
        pytest.param({"valid_loss": [0.69, 0.51, 0.41, 0.45, 0.41]}, 5, id="rounded-numbers"),
        pytest.param({"valid_loss": [0.69314718] * 5}, 5, id="a-loss-that-stands-still"),
        pytest.param({"valid_loss": [0.69314718, 0.69314718]}, 2, id="too-few-points"),
        pytest.param({"valid_loss": [*FALLING, 0.4999999]}, 5, id="another-round"),
        pytest.param({"valid_loss": [*FALLING, float("inf")]}, 5, id="a-loss-that-broke"),
    ],
)
def test_a_summary_of_the_best_round_is_no_step(columns: dict[str, Sequence[float]], steps: int) -> None:
    found = of_rows(step=range(len(next(iter(columns.values())))), **columns)
    assert [len(found.series[name]) for name in columns] == [steps] * len(columns)


def test_the_interval_is_that_of_the_training_loss() -> None:
    found = of_rows(step=[5, 10, 15, 20], loss=[4, 3, 2, 1], eval_loss=[NAN, NAN, NAN, 1])
    assert found.interval == 5
    assert of_rows(loss=[1]).interval == 1


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([0, 1, 2], [30, 60, 90], id="epochs-stand-at-the-steps-of-their-moments"),
        pytest.param([30, 60, 90], [30, 60, 90], id="steps-stay"),
        pytest.param([0, 30, 60], [0, 30, 60], id="steps-that-end-earlier-stay"),
    ],
)
def test_steps_of_histograms(steps: list[int], expected: list[int]) -> None:
    losses = points_of(np.arange(100), np.ones(100), 1e9 + np.arange(100))
    own = points_of(steps, np.ones(3), 1e9 + np.array([30.5, 60.5, 90.5]))
    log = Log("log", "log", "TensorBoard", {"loss": losses}, has_steps=True, tensors={("w", "l2"): own})
    assert numbered(log, meanings_of(["loss"], {})).tensors["w", "l2"].steps.tolist() == expected
