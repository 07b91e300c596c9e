"""The files for TensorBoard that capture writes while it trains, opened in the real TensorBoard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.run_files import RunFiles
from trackside.capture.writing.tensorboard import TensorBoardFiles
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore

Read = Callable[[Path], dict[str, Any]]

REQUEST = CaptureRequest((CollectionRequest("losses", Schedule(1)), CollectionRequest("weights", Schedule(1))))


def step(number: int, mode: str) -> StepTensors:
    tensors = (
        ("MSELoss_output_0", np.array([number / 2], "f4")),
        ("Net_fc.weight", np.arange(6, dtype="f4").reshape(2, 3) + number),
    )
    return StepTensors(number, mode, number, 1_700_000_000.0 + number, tensors, frozenset({"losses", "weights"}))


def test_scalars_and_histograms_of_every_mode_and_worker(tmp_path: Path, read_with_tensorboard: Read) -> None:
    for rank in range(2):
        files = RunFiles(
            MemoryStore, request=REQUEST, worker=f"worker_{rank}", num_workers=2, ends_run=rank == 0,
            open_tensorboard=lambda: LocalStore(tmp_path),
        )  # fmt: skip
        for number in range(4):
            files.save(step(number, "EVAL" if number == 2 else "TRAIN"))
        files.finish()
    found = read_with_tensorboard(tmp_path)
    assert sorted(found) == ["EVAL", "TRAIN", "worker_1/EVAL", "worker_1/TRAIN"]
    for run, steps in (("TRAIN", [0, 1, 3]), ("EVAL", [2]), ("worker_1/TRAIN", [0, 1, 3]), ("worker_1/EVAL", [2])):
        (scalars,) = found[run]["scalars"].values()
        assert scalars == [[number, number / 2, 1_700_000_000.0 + number] for number in steps]
        (histograms,) = found[run]["histograms"].values()
        assert [event[:4] for event in histograms] == [[n, float(n), n + 5.0, 6.0] for n in steps]


def test_many_files_are_one_curve(tmp_path: Path, read_with_tensorboard: Read) -> None:
    """A file is begun every few seconds, and again by a process that goes on with the run."""
    now = [0.0]
    for process in range(2):
        files = TensorBoardFiles(lambda: LocalStore(tmp_path), monotonic=lambda: now[0])
        for number in range(10 * process, 10 * process + 10):
            now[0] += 2.0
            files.add(step(number, "TRAIN"), {"Net_fc.weight": "weights"})
        files.store()
    assert len(list(tmp_path.rglob("*.*"))) > 4
    (found,) = read_with_tensorboard(tmp_path).values()
    (scalars,) = found["scalars"].values()
    assert [event[0] for event in scalars] == list(range(20))
    assert len(next(iter(found["histograms"].values()))) == 20


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_weight_that_is_no_number_costs_nothing_else(
    value: float, tmp_path: Path, read_with_tensorboard: Read
) -> None:
    files = TensorBoardFiles(lambda: LocalStore(tmp_path))
    broken = (("MSELoss_output_0", np.array([value], "f4")), ("Net_fc.weight", np.array([value, 1.0], "f4")))
    files.add(StepTensors(0, "TRAIN", 0, 7.0, broken), {"Net_fc.weight": "weights"})
    files.add(step(1, "TRAIN"), {"Net_fc.weight": "weights"})
    files.store()
    (found,) = read_with_tensorboard(tmp_path).values()
    (scalars,) = found["scalars"].values()
    assert [event[0] for event in scalars][-1] == 1
    (histograms,) = found["histograms"].values()
    assert [event[0] for event in histograms][-1] == 1
