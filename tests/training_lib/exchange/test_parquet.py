"""What pandas and pyarrow read of an exported run."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import pyarrow.parquet
import pytest

from tests.patience import HANGS_SECONDS
from trackside.contracts.errors import ConfigurationError, StorageError, TensorNotSavedError
from trackside.contracts.run_layout import event_key
from trackside.exchange.parquet import export_parquet
from trackside.extras import install_command
from trackside.records.step_file import encode_step, write_step
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, fake_trial, write_collections, write_tensors
from trackside.trial.tensors.statistics import STATISTICS
from trackside.trial.trial import Trial, open_trial

LOSS, WEIGHT = "CrossEntropyLoss_output_0", "MLP_fc1.weight"
DESCRIPTION = ["run", "tensor", "collection", "worker", "mode", "step", "mode_step", "value"]


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    store = LocalStore(tmp_path / "digits-7" / "debug-output")
    workers = ("worker_0", "worker_1")
    write_collections(store, workers=workers)
    for step in range(4):
        mode, mode_step = ("EVAL", 0) if step == 3 else ("TRAIN", step)
        for number, worker in enumerate(workers):
            pairs = [
                (LOSS, np.array([2.0 / (step + 1)])),
                (WEIGHT, np.array([[1.0, -3.0 - number], [step, 0.5]])),
                ("labels", np.array(["cat", "dog"])),
            ]
            step_file = encode_step(pairs, step=step, mode=mode, mode_step=mode_step, worker=worker, wall_time=1.0)
            write_step(store, step_file)
    end_run(store)
    return open_trial(str(tmp_path / "digits-7"))


def test_pandas_reads_all_of_it(trial: Trial, tmp_path: Path) -> None:
    done = export_parquet(trial, tmp_path / "out")
    assert done.path == tmp_path / "out" / "digits-7.parquet"
    assert (done.rows, done.tensors, done.without_numbers) == (16, 2, ("labels",))
    assert done.size_bytes == done.path.stat().st_size

    table = pandas.read_parquet(done.path)
    assert list(table.columns) == [*DESCRIPTION, *STATISTICS]
    assert set(table["run"]) == {"digits-7"}
    assert set(table["collection"]) == {"losses", "weights"}
    losses = table[(table.tensor == LOSS) & (table.worker == "worker_1")]
    assert losses[["mode", "step", "mode_step", "value"]].to_numpy().tolist() == [
        ["TRAIN", 0, 0, 2.0],
        ["TRAIN", 1, 1, 1.0],
        ["TRAIN", 2, 2, 2 / 3],
        ["EVAL", 3, 0, 0.5],
    ]
    weights = table[table.tensor == WEIGHT].set_index(["worker", "step"])
    assert weights["value"].isna().all()
    value = np.array([[1.0, -4.0], [2.0, 0.5]])
    row = weights.loc[("worker_1", 2)]
    assert row[["mean", "std", "min", "max", "abs_mean", "abs_max", "l2"]].tolist() == pytest.approx(
        [value.mean(), value.std(), -4.0, 2.0, np.abs(value).mean(), 4.0, np.linalg.norm(value)]
    )
    assert row[["zero_share", "nonfinite_count", "nan_count"]].tolist() == [0.0, 0.0, 0.0]


def test_pyarrow_reads_it_and_the_file_says_what_it_is(trial: Trial, tmp_path: Path) -> None:
    done = export_parquet(trial, tmp_path / "x.parquet", tensors=trial.tensors(regex="loss|Loss", steps=1), run="named")
    assert done.path == tmp_path / "x.parquet"
    table = pyarrow.parquet.read_table(done.path)
    assert table.schema.metadata[b"trackside.format"] == b"1"
    assert table.schema.metadata[b"trackside.run"] == trial.uri.encode()
    rows = table.select(["run", "worker", "step", "value"]).to_pylist()
    assert rows == [{"run": "named", "worker": w, "step": 1, "value": 1.0} for w in ("worker_0", "worker_1")]


def test_several_runs_in_one_folder_are_one_table(trial: Trial, tmp_path: Path) -> None:
    for run in ("a", "b"):
        export_parquet(trial, tmp_path / "out", run=run)
    export_parquet(trial, tmp_path / "out", run="a")  # replaces
    table = pandas.read_parquet(tmp_path / "out")
    assert table.groupby("run", observed=True).size().to_dict() == {"a": 16, "b": 16}


def test_rows_come_in_groups(trial: Trial, tmp_path: Path) -> None:
    done = export_parquet(trial, tmp_path / "x.parquet", row_group_rows=3)
    file = pyarrow.parquet.ParquetFile(done.path)
    assert file.metadata.num_rows == 16
    assert max(file.metadata.row_group(place).num_rows for place in range(file.metadata.num_row_groups)) == 3
    whole = export_parquet(trial, tmp_path / "y.parquet")
    assert file.read().to_pylist() == pyarrow.parquet.read_table(whole.path).to_pylist()


def test_what_the_run_does_not_hold_is_null_and_a_nan_is_a_nan(tmp_path: Path) -> None:
    """A tensor of which only some reductions were saved, beside a loss that is none."""
    reductions = {
        "smdebug/reductions/mean/fc.weight": {0: 0.5},
        "smdebug/reductions/abs_max/fc.weight": {0: 2.0, 1: 3.0},
    }
    trial = fake_trial({**reductions, "loss": {0: math.nan}})
    done = export_parquet(trial, tmp_path / "x.parquet", run="r")
    rows = {(row["tensor"], row["step"]): row for row in pyarrow.parquet.read_table(done.path).to_pylist()}
    assert math.isnan(rows["loss", 0]["value"])
    assert math.isnan(rows["loss", 0]["mean"])
    weight = [rows["fc.weight", step] for step in (0, 1)]
    assert [(row["mean"], row["abs_max"], row["std"]) for row in weight] == [(0.5, 2.0, None), (None, 3.0, None)]


def test_sql_finds_a_nan_beside_numbers(tmp_path: Path) -> None:
    """DuckDB answers from the least and the largest number of a column, which leave NaN out."""
    done = export_parquet(fake_trial({"loss": {0: 0.5, 1: math.nan, 2: 0.25}}), tmp_path / "x.parquet", run="r")
    found = duckdb.read_parquet(str(done.path)).filter("isnan(mean) AND isnan(value)")
    assert found.project("step").fetchall() == [(1,)]


def test_a_damaged_step_is_left_out(trial: Trial, tmp_path: Path) -> None:
    os.truncate(Path(trial.uri) / event_key(1, "worker_0"), 40)
    done = export_parquet(trial, tmp_path / "x.parquet")
    assert done.rows == 14
    assert {error.key for error in trial.damaged} == {event_key(1, "worker_0")}


def test_an_interrupted_export_leaves_what_was_there(trial: Trial, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("before")

    def stop(items: Any, label: str) -> Any:
        yield items[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_parquet(trial, tmp_path / "x.parquet", progress=stop, row_group_rows=1)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x.parquet"]
    assert (tmp_path / "x.parquet").read_text() == "before"


def test_what_cannot_be_asked_for(trial: Trial, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="aws s3 cp"):
        export_parquet(trial, "s3://bucket/x.parquet")
    with pytest.raises(TensorNotSavedError, match="No tensor is selected"):
        export_parquet(trial, tmp_path, tensors=())
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match=r"Cannot write .*file"):
        export_parquet(trial, tmp_path / "file" / "x.parquet")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["file"]


def test_without_pyarrow_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    """In a process of its own, which cannot import pyarrow, as where the extra is not installed."""
    store = LocalStore(tmp_path / "run")
    write_collections(store)
    write_tensors(store, 0, {LOSS: 1.0})
    end_run(store)
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "sys.argv = ['trackside', 'export', 'run', '--to', 'parquet', 'out']\n"
        "from trackside.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=HANGS_SECONDS, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: Extras: pyarrow is not installed, which the export to Parquet needs.\n"
        "  Where: the extra 'parquet'\n"
        f"  Try: {install_command('parquet')}\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
