"""The size of an update, from a sample of the weights that lie still, and of those that move."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from trackside.adapters.keras import update_size as subject
from trackside.adapters.keras.update_size import UpdateSize
from trackside.capture.statistics.always_on import AlwaysOn
from trackside.contracts.capture_request import StatisticsRequest
from trackside.contracts.run.recorded_names import UPDATE_SIZE

BACKEND = keras.backend.backend()


def optimizer(dtype: str = "float32") -> Any:
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(100, dtype=dtype), keras.layers.Dense(3, dtype=dtype)]
    )
    made = keras.optimizers.SGD(0.1)
    made.build(model.trainable_variables)
    return made


def sizes(measured: UpdateSize, of: Any, times: int, *, change: Any) -> list[Any]:
    """Return what is measured after each change of all weights."""
    recorder = AlwaysOn(StatisticsRequest(budget=1.0))
    found = []
    for _ in range(times):
        change(of)
        recorder.numbers.added.clear()
        measured.measure(of, recorder)
        found.append(recorder.numbers.added.get((UPDATE_SIZE, "mean")))
    return found


def scaled(factor: float) -> Any:
    def change(of: Any) -> None:
        for variable in of._trainable_variables:
            variable.assign(variable * factor)

    return change


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("has_loops", [True, False], ids=["compiled", "numpy"])
@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        pytest.param(1.0, 0.0, id="nothing changes"),
        pytest.param(2.0, 0.5, id="twice as large"),
        pytest.param(0.5, 1.0, id="half as large"),
        pytest.param(float("nan"), float("nan"), id="NaN"),
    ],
)
def test_the_change_over_the_size(
    dtype: str, has_loops: bool, factor: float, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_loops:
        monkeypatch.setattr(subject, "LOOPS", None)
    first, *later = sizes(UpdateSize(), optimizer(dtype), 3, change=scaled(factor))
    assert first is None
    assert later == [pytest.approx(expected, rel=1e-2, nan_ok=True)] * 2


@pytest.mark.parametrize("has_loops", [True, False], ids=["compiled", "numpy"])
def test_another_optimizer_begins_anew(has_loops: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_loops:
        monkeypatch.setattr(subject, "LOOPS", None)
    measured, one = UpdateSize(), optimizer()
    assert sizes(measured, one, 2, change=scaled(2.0))[1] == pytest.approx(0.5)
    assert sizes(measured, optimizer(), 2, change=scaled(2.0)) == [None, pytest.approx(0.5)]


@pytest.mark.skipif(BACKEND != "torch", reason="only PyTorch's weights lie still")
def test_weights_that_move_are_found_again() -> None:
    measured, of = UpdateSize(), optimizer()
    assert sizes(measured, of, 2, change=scaled(2.0))[1] == pytest.approx(0.5)
    for variable in of._trainable_variables:
        variable._value.data = variable._value.data.clone()
    found = sizes(measured, of, 40, change=scaled(1.1))
    assert found[-1] == pytest.approx(0.1 / 1.1, rel=1e-3)
