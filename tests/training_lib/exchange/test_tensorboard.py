"""What the real TensorBoard reads of an exported run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trackside.contracts.errors import ConfigurationError, StorageError, TensorNotSavedError
from trackside.contracts.run_layout import event_key
from trackside.exchange.tensorboard import DEFAULT_STATISTICS, FINDINGS, FindingText, export_tensorboard
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, fake_trial, write_collections, write_tensors
from trackside.trial.trial import Trial, open_trial

Read = Callable[[Path], dict[str, Any]]

LOSS, WEIGHT = "CrossEntropyLoss_output_0", "MLP_fc1.weight"
FILE = "events.out.tfevents.1700000000.trackside"


def write_run(folder: Path, *, steps: int = 4) -> LocalStore:
    store = LocalStore(folder / "debug-output")
    workers = ("worker_0", "worker_1")
    write_collections(store, workers=workers)
    for step in range(steps):
        mode = "EVAL" if step == 3 else "TRAIN"
        for number, worker in enumerate(workers):
            tensors = {LOSS: 2.0 / (step + 1), WEIGHT: np.array([[1.0, -3.0 - number], [step, 0.5]])}
            write_tensors(store, step, tensors, mode=mode, worker=worker)
    end_run(store)
    return store


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    write_run(tmp_path / "digits-7")
    return open_trial(str(tmp_path / "digits-7"))


def test_tensorboard_reads_all_of_it(trial: Trial, tmp_path: Path, read_with_tensorboard: Read) -> None:
    done = export_tensorboard(trial, tmp_path / "tb", histograms=True)
    runs = [f"{mode}/{worker}" for mode in ("EVAL", "TRAIN") for worker in ("worker_0", "worker_1")]
    assert [str(path.relative_to(tmp_path / "tb" / "digits-7")) for path in done.files] == [
        f"{run}/{FILE}" for run in runs
    ]
    assert (done.tensors, done.scalars, done.histograms) == (2, 8 * (1 + 4), 8)

    found = read_with_tensorboard(tmp_path / "tb")
    assert sorted(found) == [f"digits-7/{run}" for run in runs]
    train = found["digits-7/TRAIN/worker_1"]
    assert train["version"] == 2
    assert set(train["scalars"]) == {LOSS, *(f"weights/{WEIGHT}/{name}" for name in DEFAULT_STATISTICS)}
    assert train["scalars"][LOSS] == [
        [0, 2.0, WALL_TIME],
        [1, 1.0, WALL_TIME],
        [2, float(np.float32(2 / 3)), WALL_TIME],
    ]
    assert [value for _, value, _ in train["scalars"][f"weights/{WEIGHT}/abs_max"]] == [4.0, 4.0, 4.0]
    (*_, last) = train["histograms"][f"weights/{WEIGHT}"]
    step, smallest, largest, count, limits, buckets = last
    assert (step, smallest, largest, count, sum(buckets)) == (2, -4.0, 2.0, 4, 4)
    assert len(limits) == len(buckets)
    assert [step for step, *_ in found["digits-7/EVAL/worker_0"]["scalars"][LOSS]] == [3]


def test_findings_are_texts_with_a_point_at_their_step(
    trial: Trial, tmp_path: Path, read_with_tensorboard: Read
) -> None:
    card = "✖ CRITICAL  exploding-tensor\n  weights < 1 & rising"
    given = [
        FindingText("exploding-tensor", 2, card, severity=3, worker="worker_1", wall_time=WALL_TIME + 1),
        FindingText("a rule: mine", 3, "one line", severity=1, worker="worker_1", wall_time=WALL_TIME + 2),
    ]
    chosen = trial.tensors(regex=LOSS, worker="worker_0", mode="TRAIN")
    done = export_tensorboard(trial, tmp_path / "tb", tensors=chosen, findings=given)
    assert done.findings == 2
    found = read_with_tensorboard(tmp_path / "tb")
    assert sorted(found) == ["digits-7/FINDINGS/worker_1", "digits-7/TRAIN/worker_0"]
    assert "texts" not in found["digits-7/TRAIN/worker_0"]
    findings = found[f"digits-7/{FINDINGS}/worker_1"]
    indented = "    ✖ CRITICAL  exploding-tensor\n      weights < 1 & rising"
    assert findings["texts"] == {
        "trackside/exploding-tensor": [[2, indented, WALL_TIME + 1]],
        "trackside/a_rule__mine": [[3, "    one line", WALL_TIME + 2]],
    }
    assert findings["scalars"] == {
        "trackside/exploding-tensor/severity": [[2, 3.0, WALL_TIME + 1]],
        "trackside/a_rule__mine/severity": [[3, 1.0, WALL_TIME + 2]],
    }


def test_the_selection_and_the_statistics_are_the_callers(
    trial: Trial, tmp_path: Path, read_with_tensorboard: Read
) -> None:
    chosen = trial.tensors(collection="weights", steps="1:3", worker="worker_0")
    export_tensorboard(trial, tmp_path / "tb", tensors=chosen, statistics=("zero_share",), run="a run")
    found = read_with_tensorboard(tmp_path / "tb")
    points = [[1, 0.0, WALL_TIME], [2, 0.0, WALL_TIME]]
    assert found == {
        "a_run/TRAIN/worker_0": {"version": 2, "scalars": {f"weights/{WEIGHT}/zero_share": points}, "histograms": {}}
    }


def test_exporting_again_replaces(trial: Trial, tmp_path: Path) -> None:
    first = export_tensorboard(trial, tmp_path / "tb")
    before = {path: path.read_bytes() for path in first.files}
    export_tensorboard(trial, tmp_path / "tb", tensors=trial.tensors(steps="2:"))
    again = export_tensorboard(trial, tmp_path / "tb")
    assert {path: path.read_bytes() for path in again.files} == before
    assert sorted(path for path in (tmp_path / "tb").rglob("*") if path.is_file()) == sorted(before)


def test_times_are_those_of_saving_and_never_run_backward(tmp_path: Path, read_with_tensorboard: Read) -> None:
    store = LocalStore(tmp_path / "timed" / "debug-output")
    write_collections(store)
    for step, seconds in enumerate((100.5, 0.0, 103.0)):  # the middle one says nothing
        pairs = [(LOSS, np.array([1.0]))]
        write_step(
            store, encode_step(pairs, step=step, mode="TRAIN", mode_step=step, worker="worker_0", wall_time=seconds)
        )
    end_run(store)
    done = export_tensorboard(open_trial(str(tmp_path / "timed")), tmp_path / "tb")
    assert done.files[0].name == "events.out.tfevents.0000000100.trackside"
    (run,) = read_with_tensorboard(tmp_path / "tb").values()
    assert [time for _, _, time in run["scalars"][LOSS]] == [100.5, 100.5, 103.0]


def test_numbers_that_are_none_are_shown_as_such(tmp_path: Path, read_with_tensorboard: Read) -> None:
    store = LocalStore(tmp_path / "nan" / "debug-output")
    write_collections(store)
    write_tensors(store, 0, {LOSS: math.nan, WEIGHT: np.array([np.nan, np.nan])})
    write_tensors(store, 1, {LOSS: math.inf, WEIGHT: np.array([np.nan, 1.0])})
    end_run(store)
    export_tensorboard(open_trial(str(tmp_path / "nan")), tmp_path / "tb", histograms=True)
    (run,) = read_with_tensorboard(tmp_path / "tb").values()
    assert math.isnan(run["scalars"][LOSS][0][1])
    assert run["scalars"][LOSS][1][1] == math.inf
    assert [[step, count] for step, _, _, count, *_ in run["histograms"][f"weights/{WEIGHT}"]] == [[1, 1.0]]


def test_names_that_become_one_tag_stay_two(tmp_path: Path, read_with_tensorboard: Read) -> None:
    store = LocalStore(tmp_path / "run" / "debug-output")
    write_collections(store)
    write_tensors(store, 0, {"a:0": 1.0, "a_0": 2.0, "/": 3.0, "texts": np.array(["a", "b"])})
    end_run(store)
    done = export_tensorboard(open_trial(str(tmp_path / "run")), tmp_path / "tb")
    (run,) = read_with_tensorboard(tmp_path / "tb").values()
    assert {tag: points[0][1] for tag, points in run["scalars"].items()} == {"_": 3.0, "a_0": 1.0, "a_0_2": 2.0}
    assert done.tensors == 3


def test_a_damaged_step_is_named_and_the_rest_is_written(tmp_path: Path) -> None:
    store = write_run(tmp_path / "run")
    os.truncate(tmp_path / "run" / "debug-output" / event_key(1, "worker_0"), 150)
    trial = open_trial(str(tmp_path / "run"))
    done = export_tensorboard(trial, tmp_path / "tb", histograms=True)
    assert {error.key for error in trial.damaged} == {event_key(1, "worker_0")}
    assert done.histograms == 7
    assert store.exists(event_key(1, "worker_0"))


def test_workers_whose_names_lead_elsewhere_stay_in_the_folder(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "run" / "debug-output")
    write_collections(store, workers=("..",))
    write_tensors(store, 0, {LOSS: 1.0}, worker="..")
    end_run(store)
    done = export_tensorboard(open_trial(str(tmp_path / "run")), tmp_path / "tb")
    assert [path.parent for path in done.files] == [tmp_path / "tb" / "run" / "TRAIN" / "run"]


def test_a_store_that_has_no_address_can_be_handed_over(tmp_path: Path) -> None:
    trial = fake_trial({LOSS: {0: 1.0, 1: 2.0}})
    done = export_tensorboard(trial, tmp_path, store=trial._store, run="x")
    assert [path.name for path in done.files] == [FILE]


def test_an_interrupted_export_leaves_nothing_half(trial: Trial, tmp_path: Path) -> None:
    def stop(items: Any, label: str) -> Any:
        yield items[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_tensorboard(trial, tmp_path / "tb", progress=stop)
    assert [path for path in (tmp_path / "tb").rglob("*") if path.is_file()] == []


def test_what_cannot_be_asked_for(trial: Trial, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Did you mean 'mean'"):
        export_tensorboard(trial, tmp_path, statistics=("maen",))
    with pytest.raises(ConfigurationError, match="aws s3 sync"):
        export_tensorboard(trial, "s3://bucket/tb")
    with pytest.raises(TensorNotSavedError, match="No tensor is selected"):
        export_tensorboard(trial, tmp_path, tensors=())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"Cannot write .*file"):
        export_tensorboard(trial, tmp_path / "file")
