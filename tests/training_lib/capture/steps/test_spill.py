"""Copies beyond the memory that a step may take: they lie in files, and read as any other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from trackside.capture.steps.spill import Spill, is_spilled
from trackside.capture.steps.step_engine import StepEngine
from trackside.capture.steps.step_tensors import StepTensors
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule

KIB = np.arange(256, dtype=np.float32)


class OnItsWay:
    def __init__(self, *, is_here: bool) -> None:
        self._is_here = is_here

    def is_here(self) -> bool:
        return self._is_here

    def wait(self) -> None:
        self._is_here = True


def steps_of(
    sizes: Sequence[int], *, memory_mb: int, folder: str = "", arrival: OnItsWay | None = None, steps: int = 1
) -> list[StepTensors]:
    """Return the steps of a training that adds arrays of these sizes, in MiB, to each."""
    taken: list[StepTensors] = []
    engine = StepEngine(CaptureRequest((CollectionRequest("weights", Schedule(1)),), memory_mb=memory_mb))
    engine.spill.folder = folder
    engine.connect(type("Taken", (), {"submit": lambda _, step: taken.append(step) or True})())
    for _ in range(steps):
        if arrival:
            engine.open_step.add_arrival(arrival)
        for number, size in enumerate(sizes):
            engine.open_step.add(f"Net_{number}.weight", np.tile(KIB + number, size << 10))
        engine.end_step()
    return taken


@pytest.mark.parametrize(
    ("sizes", "memory_mb", "spilled"),
    [
        pytest.param([1, 1, 1], 0, [False, False, False], id="no limit"),
        pytest.param([1, 1, 1], 3, [False, False, False], id="as much as allowed"),
        pytest.param([1, 1, 1], 2, [False, False, True], id="the last is too much"),
        pytest.param([3, 1, 1, 1], 2, [True, False, False, True], id="a large one first"),
        pytest.param([1, 1, 3, 1], 1, [False, True, True, True], id="more than fits into one file"),
    ],
)
def test_what_goes_beyond_the_limit_lies_in_a_file(
    sizes: list[int], memory_mb: int, spilled: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trackside.capture.steps.spill.SEGMENT_BYTES", 2 << 20)
    for step in steps_of(sizes, memory_mb=memory_mb, folder=str(tmp_path), steps=2):  # each step anew
        assert [is_spilled(array) for _, array in step.tensors] == spilled
        for number, (_, array) in enumerate(step.tensors):
            assert np.array_equal(array, np.tile(KIB + number, sizes[number] << 10))
        assert step.size_bytes == sum(sizes) << 20
    assert not list(tmp_path.iterdir())


def test_values_on_their_way_stay_where_they_are() -> None:
    (step,) = steps_of([1, 1], memory_mb=1, arrival=OnItsWay(is_here=False))
    assert [is_spilled(array) for _, array in step.tensors] == [False, False]
    (step,) = steps_of([1, 1], memory_mb=1, arrival=OnItsWay(is_here=True))
    assert [is_spilled(array) for _, array in step.tensors] == [False, True]


def test_a_disk_that_takes_nothing_costs_the_step_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> np.ndarray:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spill, "copy", full)
    first, second = steps_of([1, 1], memory_mb=1, steps=2)
    for step in (first, second):
        assert not step.tensors
        assert "No space left on device" in step.lost
        assert "memory_mb" in step.lost


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc")
def test_no_file_stays_when_its_arrays_are_let_go(tmp_path: Path) -> None:
    def opened() -> int:
        names = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
        return sum(str(tmp_path) in os.readlink(name) for name in names if os.path.islink(name))

    spill = Spill(1, str(tmp_path))
    arrays = [spill.copy([part], shape=(256,), dtype=part.dtype) for part in [KIB, KIB + 1, KIB + 2]]
    assert opened()
    assert not list(tmp_path.iterdir())
    del spill
    assert opened()
    assert [float(array[0]) for array in arrays] == [0, 1, 2]
    arrays.clear()
    assert not opened()


@pytest.mark.parametrize(
    "values",
    [
        np.zeros((), np.float32), np.ones((2, 3), np.float16), np.arange(7, dtype=np.int64).reshape(7, 1),
        np.array([True, False]), np.arange(24.0).reshape(4, 6)[:, ::2],
    ],
    ids=str,
)  # fmt: skip
def test_each_type_and_shape_comes_back(values: np.ndarray) -> None:
    spill = Spill(1)
    found = [spill.copy([values], shape=values.shape, dtype=values.dtype) for _ in range(3)]
    for array in found:
        assert array.dtype == values.dtype
        assert np.array_equal(array, values)
        assert not array.flags.writeable
