"""Each format, as its writer writes it: the points, their meaning, and clear words on what is broken."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from trackside.contracts.errors import ConfigurationError, LocationNotFoundError, RunNotFoundError
from trackside.imported.finding import LeftOut, all_formats, find_logs
from trackside.imported.numbering import EPOCHS, ROUNDS, ROWS, STEPS, NumberedLog
from trackside.records.tensorboard_file import encode_scalar, encode_version

SAMPLES = Path(__file__).with_name("samples")  # run-abc.wandb is by wandb 0.31
FALLING = [round(2 * math.exp(-step / 20), 6) for step in range(40)]
HUGGINGFACE = [
    {"epoch": 0.1, "grad_norm": 1.5, "learning_rate": 5e-05, "loss": x, "step": 10 * k} for k, x in enumerate(FALLING)
]
LIGHTNING = "epoch,step,train_loss,val_loss\n" + "".join(
    f"0,{10 * k},{x},\n" + (f"0,{10 * k},,{x + 0.1}\n" if k % 10 == 9 else "") for k, x in enumerate(FALLING)
)
KERAS_BAR = "".join(
    f"Epoch {k}/40\n 1/10 ━━━━ 0s 74ms/step - loss: 9.9\x08\x08\r"
    f"10/10 ━━━━ 0s 5ms/step - accuracy: 0.5 - loss: {x} - val_loss: {x}\n"
    for k, x in enumerate(FALLING, 1)
)


def lines(form: str) -> str:
    """Return a line of this form for each loss."""
    return "".join(form.format(k=k, step=10 * k, loss=x) for k, x in enumerate(FALLING))


# File, content, format, unit, training loss, evaluation loss.
TEXTS = {
    "JSON lines": ("log.jsonl", lines('{{"step": {step}, "loss": {loss}}}\n'), "JSON lines", STEPS, "loss", ""),
    "JSON lines with texts": (
        "log.jsonl",
        lines('{{"step": {step}, "time": "2026-11-29T08:00:00", "train": {{"loss": {loss}}}, "best": true}}\n'),
        "JSON lines",
        STEPS,
        "train/loss",
        "",
    ),
    "JSON lines by split": (
        "log.jsonl",
        lines('{{"step": {step}, "split": "train", "loss": {loss}}}\n{{"step": {step}, "split": "val", "loss": 1}}\n'),
        "JSON lines",
        STEPS,
        "train/loss",
        "val/loss",
    ),
    "JSON lines by name": (
        "log.jsonl",
        lines('{{"step": {step}, "tag": "loss", "value": {loss}}}\n'),
        "JSON lines",
        STEPS,
        "loss",
        "",
    ),
    "a list of rows": (
        "h.json",
        json.dumps([{"epoch": k, "loss": x} for k, x in enumerate(FALLING)]),
        "JSON lines",
        EPOCHS,
        "loss",
        "",
    ),
    "lists by name": (
        "h.json",
        json.dumps({"loss": FALLING, "val_loss": FALLING}, indent=1),
        "JSON lines",
        ROWS,
        "loss",
        "val_loss",
    ),
    "transformers": (
        "trainer_state.json",
        json.dumps({"global_step": 390, "log_history": HUGGINGFACE}),
        "trainer_state.json of transformers",
        STEPS,
        "loss",
        "",
    ),
    "Lightning": ("metrics.csv", LIGHTNING, "CSV", STEPS, "train_loss", "val_loss"),
    "Keras": (
        "training.log",
        "epoch,loss,val_loss\n" + lines("{k},{loss},{loss}\n"),
        "CSV",
        EPOCHS,
        "loss",
        "val_loss",
    ),
    "semicolons": ("log.csv", '"iter";"Loss"\n' + lines("{step};{loss}\n"), "CSV", STEPS, "Loss", ""),
    "tabs and a text": ("log.tsv", "step\tnote\tloss\n" + lines("{step}\tfine\t{loss}\n"), "CSV", STEPS, "loss", ""),
    "XGBoost": (
        "x.log",
        lines("[{k}]\ttrain-rmse:{loss}\teval-rmse:{loss}\n"),
        "lines of XGBoost",
        ROUNDS,
        "train-rmse",
        "eval-rmse",
    ),
    "LightGBM": (
        "l.txt",
        "[LightGBM] [Info] Total Bins 255\n" + lines("[{k}]\ttraining's l2: {loss}\tvalid_1's l2: {loss}\n"),
        "lines of LightGBM",
        ROUNDS,
        "training/l2",
        "valid_1/l2",
    ),
    "a terminal": (
        "out.log",
        "start\n" + lines("2026-11-29 08:00:00 INFO step {step}: loss 1{loss:.3f}, lr 1e-3\n"),
        "printed lines",
        STEPS,
        "loss",
        "",
    ),
    "dictionaries": (
        "out.log",
        lines("{{'loss': '{loss}', 'grad_norm': nan, 'epoch': 0.1}}\n"),
        "printed lines",
        ROWS,
        "loss",
        "",
    ),
    "examples of PyTorch": (
        "out.log",
        lines(
            "Train Epoch: 1 [{step}/400 (1%)]\tLoss: {loss}\n\nTest set: Average loss: {loss}, Accuracy: 9/10 (9%)\n"
        ),
        "printed lines",
        ROWS,
        "train/Loss",
        "test/Average loss",
    ),
    "bars of Keras": ("out.log", KERAS_BAR, "printed lines", EPOCHS, "loss", "val_loss"),
    "bars of tqdm": (
        "out.log",
        lines("\r {k}%|#  | {step}/400 [00:01<00:09, 9.9it/s, loss={loss}]"),
        "printed lines",
        STEPS,
        "loss",
        "",
    ),
}


def only(location: Path) -> NumberedLog:
    """Return the one log of a location."""
    (found,) = find_logs(str(location), {}, LeftOut())
    return found


@pytest.mark.parametrize("case", TEXTS)
def test_a_log(case: str, tmp_path: Path) -> None:
    name, content, form, unit, loss, evaluation = TEXTS[case]
    (tmp_path / name).write_text(content, encoding="utf-8")
    found = only(tmp_path / name)
    assert (found.log.format, found.unit, found.log.damage) == (form, unit, ())
    assert list(found.meanings.losses.values()) == [loss]
    assert [one.column for one in found.meanings.evaluations] == [evaluation][: bool(evaluation)]
    points = found.series[loss]
    assert len(points) == len(FALLING)
    if "1{loss" not in case and case != "a terminal":
        np.testing.assert_allclose(points.values, FALLING)
    if unit == STEPS:
        assert points.steps.tolist() == [10 * k for k in range(40)]
    assert found.log.hides_nan == (case in {"transformers"})


def test_tables_of_stable_baselines(tmp_path: Path) -> None:
    table = "|    ep_rew_mean | {loss} |\n| train/        |     |\n|    value_loss     | {loss}  |\n"
    (tmp_path / "ppo.log").write_text(lines(table))
    found = only(tmp_path / "ppo.log")
    assert found.meanings.losses == {"value_loss": "value_loss"}
    assert found.meanings.has_several_aims
    np.testing.assert_allclose(found.series["value_loss"].values, FALLING)


def test_wandb() -> None:
    found = only(SAMPLES / "run-abc.wandb")
    assert found.meanings.shown() == {
        "loss": "train/loss",
        "eval_loss": "val/loss",
        "learning_rate": "optimizer/lr",
        "step": "_step",
    }
    points = found.series["train/loss"]
    assert points.steps.tolist() == list(range(0, 200, 5))
    np.testing.assert_allclose(points.values[:38], 2 * np.exp(-np.arange(38) / 20))
    assert np.isnan(points.values[38:]).all()


def test_folders_that_are_parts_of_a_run(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "keras", tmp_path / "logs" / "fit")
    shutil.copytree(SAMPLES / "torch", tmp_path / "logs" / "other_train")  # no part: nothing belongs to it
    found = {one.log.name: one for one in find_logs(str(tmp_path / "logs"), {}, LeftOut())}
    assert list(found) == ["fit", "other_train"]
    assert found["fit"].unit == EPOCHS
    assert found["fit"].meanings.shown() == {"loss": "train/epoch_loss", "eval_loss": "validation/epoch_loss"}


def test_the_longest_history_of_the_checkpoints(tmp_path: Path) -> None:
    for run, step in (("a", 100), ("a", 390), ("b", 50)):
        folder = tmp_path / run / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        rows = [row for row in HUGGINGFACE if row["step"] <= step] + [
            {"step": step, "train_loss": 1, "train_runtime": 9}
        ]
        (folder / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": rows}))
    found = {one.log.name: one for one in find_logs(str(tmp_path), {}, LeftOut())}
    assert {name: len(one.series["loss"]) for name, one in found.items()} == {"a": 40, "b": 6}


def mlflow_files(folder: Path) -> None:
    """Write MLflow's store of files: two runs, the second without steps."""
    for run, with_steps in (("good", True), ("stepless", False)):
        metrics = folder / "mlruns" / "1" / run / "metrics" / "train"
        metrics.mkdir(parents=True)
        (metrics.parents[1] / "meta.yaml").write_text(f"run_id: 7\nrun_name: {run}\n")
        rows = [f"17000000{k:02}000 {x} {k * with_steps}\n" for k, x in enumerate(FALLING)]
        (metrics / "loss").write_text("".join(rows) + "nonsense\n" * with_steps)


def mlflow_database(folder: Path) -> None:
    """Write the two tables of MLflow's database that matter, with its marks for NaN and infinity."""
    with sqlite3.connect(folder / "mlflow.db") as database:
        database.execute("CREATE TABLE runs (run_uuid, name, start_time, lifecycle_stage)")
        database.execute("CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan)")
        database.executemany(
            "INSERT INTO runs VALUES (?, ?, ?, ?)", [("u1", "r1", 1, "active"), ("u2", "r2", 2, "deleted")]
        )
        values = [*FALLING[:38], 0.0, -1.7976931348623157e308]
        rows = [("loss", x, k, run, 10 * k, x == 0) for run in ("u1", "u2") for k, x in enumerate(values)]
        database.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?)", rows)


def trackio_database(folder: Path) -> None:
    """Write the table of trackio, which stores a row as JSON in bytes and NaN as a text."""
    with sqlite3.connect(folder / "p.db") as database:
        database.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp, run_name, step INTEGER, metrics)")
        texts = [json.dumps({"loss": x if k < 38 else "NaN"}).encode() for k, x in enumerate(FALLING)]
        database.executemany(
            "INSERT INTO metrics (timestamp, run_name, step, metrics) VALUES ('', 'a', ?, ?)",
            [(10 * k, text) for k, text in enumerate(texts)],
        )


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        pytest.param(mlflow_files, {"good": (40, STEPS, 0), "stepless": (40, STEPS, 0)}, id="mlflow-files"),
        pytest.param(mlflow_database, {"r1": (40, STEPS, 2)}, id="mlflow-database"),
        pytest.param(trackio_database, {"p/a": (40, STEPS, 2)}, id="trackio"),
    ],
)
def test_stores(write: Callable[[Path], None], expected: dict[str, tuple[int, str, int]], tmp_path: Path) -> None:
    write(tmp_path)
    found = {}
    for one in find_logs(str(tmp_path), {}, LeftOut()):
        values = one.series[next(iter(one.meanings.losses.values()))].values
        found[one.log.name] = (
            len(values),
            STEPS if one.log.has_steps or one.meanings.step else one.unit,
            int((~np.isfinite(values)).sum()),
        )
        if one.log.name == "good":
            assert "line 41 of" in one.log.damage[0]
    expected = {
        name: (count, ROWS if name == "stepless" else unit, broken) for name, (count, unit, broken) in expected.items()
    }
    assert found == expected


# File, content, and what the error says, or "" where the rest is judged, with what its damage says.
BROKEN = {
    "empty": ("log.jsonl", b"", "is empty", ""),
    "no loss": ("log.csv", b"step,accuracy\n1,0.5\n2,0.6\n", "No loss is among the numbers", ""),
    "no numbers": ("notes.txt", b"nothing here\n", "holds no numbers of a training", ""),
    "bytes": ("model.bin", bytes(range(256)) * 4, "holds no numbers of a training. It is no text", ""),
    "another database": ("a.db", b"SQLite format 3\x00" + b"\x00" * 100, "The database cannot be read", ""),
    "half a history": ("trainer_state.json", b'{"log_history": [{"loss": 1', "is no whole JSON", ""),
    "a cut line": (
        "log.jsonl",
        b'{"step": 1, "loss": 2}\n{"step": 2, "loss": 1}\n{"step": 3, "lo',
        "",
        "1 line is no JSON",
    ),
    "a line of text": ("log.jsonl", b'{"step": 1, "loss": 2}\noops\n{"step": 2, "loss": 1}\n', "", "1 line is no JSON"),
    "uneven lines": ("log.csv", b"step,loss\n1,2\n2\n3,1\n", "", "1 line has other columns"),
    "no header": ("log.csv", b"1,2\n2,1\n", "holds no names of columns", ""),
    "a cut W&B run": ("run-a.wandb", (SAMPLES / "run-abc.wandb").read_bytes()[:9000], "", "ends within a record"),
    "no W&B run": ("run-a.wandb", b"hello", "does not begin as a run of W&B", ""),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken(case: str, tmp_path: Path) -> None:
    name, content, error, damage = BROKEN[case]
    (tmp_path / name).write_bytes(content)
    if error:
        with pytest.raises((RunNotFoundError, ConfigurationError), match=error):
            only(tmp_path / name)
    else:
        found = only(tmp_path / name)
        assert damage in " ".join(found.log.damage)
        assert len(next(iter(found.series.values()))) >= 2


def test_a_long_log_takes_bounded_memory(tmp_path: Path) -> None:
    row = b"".join(b'{"step": %d, "loss": 0.5}\n' % step for step in range(1000, 9000))
    (tmp_path / "log.jsonl").write_bytes(row * 40)
    found = next(iter(find_logs(str(tmp_path), {}, LeftOut())))
    points = found.log.series["loss"]
    assert len(points) <= 2 << 16
    assert points.merged * len(points) >= 8000 * 40


def test_a_folder_with_many_things(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "events.out.tfevents.1").write_bytes(
        encode_version(1.0) + b"".join(encode_scalar("loss", x, step=k, wall_time=1.0) for k, x in enumerate(FALLING))
    )
    (tmp_path / "data.csv").write_text("age,income\n1,2\n")
    (tmp_path / "requirements.txt").write_text("torch==2.0\n")
    (tmp_path / "train.py").write_text("loss = 0.5\n")
    left_out = LeftOut()
    assert [one.log.name for one in find_logs(str(tmp_path), {}, left_out)] == ["runs/a"]
    assert (left_out.others, left_out.without_loss) == (3, {})


def test_locations_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(LocationNotFoundError, match="no file or folder"):
        only(tmp_path / "missing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LocationNotFoundError, match="holds no file"):
        only(tmp_path / "empty")
    (tmp_path / "run" / "debug-output").mkdir(parents=True)
    (tmp_path / "run" / "debug-output" / "x").write_text("x")
    with pytest.raises(ConfigurationError, match="trackside rules run"):
        only(tmp_path / "run")


def test_each_module_of_formats_holds_one() -> None:
    assert len(all_formats()) == 8
    assert len({form.order for form in all_formats()}) == 8
