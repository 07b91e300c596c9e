"""The newest step and loss of a run that a real capture writes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from trackside.contracts.run_layout import SegmentName
from trackside.local.run_now import RunNowReader, steps_of
from trackside.records.watermark import Watermark
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import write_statistics, write_watermark
from trackside.trial.recorded.newest_loss import newest_loss


@pytest.mark.parametrize(
    ("marks", "steps"),
    [
        pytest.param((), None, id="no-worker"),
        pytest.param((Watermark("worker_0"),), 0, id="no-step"),
        pytest.param((Watermark("worker_0", mode_steps={"TRAIN": 249, "EVAL": 14}),), 250, id="evaluations-apart"),
        pytest.param((Watermark("worker_0", mode_steps={"GLOBAL": 9}),), 10, id="no-mode"),
        pytest.param(
            (Watermark("worker_0", mode_steps={"TRAIN": 3}), Watermark("worker_1", mode_steps={"TRAIN": 5})), 6,
            id="the-furthest-worker",
        ),
    ],
)  # fmt: skip
def test_steps(marks: tuple[Watermark, ...], steps: int | None) -> None:
    assert steps_of(marks) == steps


def test_an_empty_run_has_neither(tmp_path: Path) -> None:
    assert RunNowReader(str(tmp_path)).read() == (None, None, None)


@pytest.mark.parametrize("data", [b"", b"no segment", b"TSB1"])
def test_a_file_that_is_no_segment_has_no_loss(data: bytes) -> None:
    assert newest_loss(data, key="a.tss") is None


@pytest.mark.parametrize(
    ("losses", "newest"),
    [
        pytest.param({"CrossEntropyLoss_output_0": {0: 1.5, 1: 1.25, 2: 0.5}}, 0.5, id="a-loss"),
        pytest.param({"loss": {0: 1.5, 2: float("nan")}}, "nan", id="nan"),
        pytest.param({"hyperparameters/Adam/group_0/lr": {0: 0.1}}, None, id="no-loss"),
        pytest.param({"trackside/loss_scale": {0: 0.1}}, None, id="a-number-of-ours"),
    ],
)
def test_the_newest_loss_of_recorded_statistics(
    losses: dict[str, dict[int, float]], newest: float | str | None, tmp_path: Path
) -> None:
    statistics = LocalStore(tmp_path / "statistics")
    write_statistics(statistics, {name: {"mean": values} for name, values in losses.items()})
    names = tuple([name for key in statistics.list() if (name := SegmentName.parse(key)) is not None])
    write_watermark(LocalStore(tmp_path / "watermarks"), Watermark("worker_0", mode_steps={"TRAIN": 2}, segments=names))
    reader = RunNowReader(str(tmp_path))
    for _ in range(2):  # the second reading takes nothing from the file again
        steps, loss, _ = reader.read()
        assert (steps, "nan" if loss is not None and math.isnan(loss) else loss) == (3, newest)


def test_the_share_of_watching_is_read_with_the_loss(tmp_path: Path) -> None:
    statistics = LocalStore(tmp_path / "statistics")
    recorded = {"loss": {0: 1.5, 1: 1.0}, "trackside/overhead_share": {0: 0.25, 1: 0.5}}
    write_statistics(statistics, {name: {"mean": values} for name, values in recorded.items()})
    names = tuple([name for key in statistics.list() if (name := SegmentName.parse(key)) is not None])
    write_watermark(LocalStore(tmp_path / "watermarks"), Watermark("worker_0", mode_steps={"TRAIN": 1}, segments=names))
    assert RunNowReader(str(tmp_path)).read() == (2, 1.0, 0.5)
