"""Files for TensorBoard as capture writes them; tests/smdebug/test_tensorboard.py opens such files in TensorBoard."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.tensorboard import MOST_BYTES, TensorBoardFiles
from trackside.contracts.errors import StorageError
from trackside.storage.memory import MemoryStore


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Failing(MemoryStore):
    is_down = False

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        if self.is_down:
            raise StorageError(errno.EIO, "down")
        super().put(key, data)


def step(number: int, mode: str = "TRAIN", size: int = 3) -> StepTensors:
    tensors = (("MSELoss_output_0", np.array(0.5, "f4")), ("fc.weight", np.arange(size, dtype="f4")))
    return StepTensors(number, mode, number, 7.0, tensors)


def content(store: MemoryStore) -> dict[str, bytes]:
    return {key.partition("_")[0]: store.get(key) for key in store.list()}


def test_a_file_holds_the_steps_of_some_seconds_of_a_mode() -> None:
    store, clock = MemoryStore(), Clock()
    files = TensorBoardFiles(lambda: store, monotonic=clock)
    files.add(step(0), {})
    files.add(step(1), {})
    files.add(step(2, "EVAL"), {})
    assert list(content(store)) == ["TRAIN/000000000000"]
    clock.now += 5
    files.add(step(3), {})
    assert list(content(store)) == ["EVAL/000000000002", "TRAIN/000000000000", "TRAIN/000000000001"]
    files.add(step(4), {})
    files.store()
    assert "TRAIN/000000000004" in content(store)
    assert all(data.count(b"brain.Event:2") == 1 for data in content(store).values())
    assert content(store)["TRAIN/000000000001"].count(b"MSELoss_output_0") == 2


def test_single_numbers_are_scalars_and_others_histograms_of_the_collection_that_asks() -> None:
    store = MemoryStore()
    TensorBoardFiles(lambda: store).add(step(0), {"fc.weight": "weights", "MSELoss_output_0": "x"})
    (data,) = content(store).values()
    assert b"weights/fc.weight" in data
    assert b"MSELoss_output_0" in data
    assert b"x/MSELoss" not in data


def test_no_histogram_unasked_and_none_of_what_is_no_number() -> None:
    store = MemoryStore()
    tensors = (("a", np.array(["x"])), ("b", np.array([1j])), ("c", np.array([np.nan, np.inf])), ("d", np.ones(3)))
    TensorBoardFiles(lambda: store).add(StepTensors(0, "TRAIN", 0, 7.0, tensors), {"a": "w", "b": "w", "c": "w"})
    assert content(store) == {}


def test_other_workers_have_a_folder_of_their_own() -> None:
    store = MemoryStore()
    TensorBoardFiles(lambda: store, folder="worker_1/").add(step(0), {})
    assert list(content(store)) == ["worker"]
    assert next(iter(store.list())).startswith("worker_1/TRAIN/")


def test_an_outage_costs_nothing_but_memory_within_bounds(caplog: pytest.LogCaptureFixture) -> None:
    store, clock = Failing(), Clock()
    files = TensorBoardFiles(lambda: store, monotonic=clock)
    store.is_down = True
    for number in range(3):
        files.add(step(number), {})
        clock.now += 6
    assert len(caplog.records) == 1
    store.is_down = False
    files.store()
    assert content(store)["TRAIN/000000000000"].count(b"MSELoss") == 3
    store.is_down = True
    many = tuple((f"{'n' * 1000}{k}", np.array(1.0)) for k in range(MOST_BYTES // 1000))
    files.add(StepTensors(9, "TRAIN", 9, 7.0, many), {})
    store.is_down = False
    files.store()
    assert list(content(store)) == ["TRAIN/000000000000"], "what was too much is gone"
