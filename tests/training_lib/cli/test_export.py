from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas
import pytest
from click.testing import CliRunner, Result

from tests.training_lib.local.verdicts import issue
from trackside.cli import main
from trackside.contracts.run_layout import event_key
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

LOSS, WEIGHT = "CrossEntropyLoss_output_0", "MLP_fc1.weight"


@pytest.fixture(autouse=True)
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("run/debug-output")
    write_collections(store)
    for step in range(4):
        mode = "EVAL" if step == 3 else "TRAIN"
        write_tensors(store, step, {LOSS: 2.0, WEIGHT: np.ones((2, 2)), "words": np.array(["a"])}, mode=mode)
    end_run(store)


def export(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["export", "run", *arguments])


def test_to_parquet() -> None:
    result = export("--to", "parquet", "table.parquet")
    size = f"{Path('table.parquet').stat().st_size / 1024:.1f} KiB"
    assert result.exit_code == 0
    assert result.stdout == f"Wrote 8 rows of 2 tensors ({size}):\n  table.parquet\n"
    assert result.stderr == "Without a row, for they hold no numbers that can be read: words\n"
    assert len(pandas.read_parquet("table.parquet")) == 8


def test_to_tensorboard() -> None:
    result = export("tb", "--to", "tensorboard", "--histograms")
    assert result.exit_code == 0
    assert result.stdout == "Wrote 20 points and 4 histograms of 2 tensors to 2 files below:\n  tb/run\n"
    assert result.stderr == "Look at it: tensorboard --logdir tb\n"
    assert sorted(os.listdir("tb/run")) == ["EVAL", "TRAIN"]


def test_findings_go_to_tensorboard_with_the_run() -> None:
    LocalStore("run").put("rule-output/verdicts.jsonl", f"{issue('dead-relu').to_json()}\n".encode())
    result = export("tb", "--to", "tensorboard")
    assert result.stdout == "Wrote 20 points of 2 tensors and 1 finding to 3 files below:\n  tb/run\n"
    assert sorted(os.listdir("tb/run")) == ["EVAL", "FINDINGS", "TRAIN"]


@pytest.mark.parametrize("target", ["wandb", "mlflow", "trackio"])
def test_a_tracker_that_is_not_installed_is_named(target: str) -> None:
    result = export("digits", "--to", target)
    assert result.exit_code == 2
    assert f"The package {target} is not installed." in result.stderr
    assert f"-m pip install {target}" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        pytest.param(["--regex", "fc1"], 4, id="regex"),
        pytest.param(["--collection", "losses"], 4, id="collection"),
        pytest.param(["--steps", "1:3"], 4, id="steps"),
        pytest.param(["--mode", "eval"], 2, id="mode"),
        pytest.param(["--worker", "worker_0", "--steps", "0"], 2, id="worker"),
    ],
)
def test_the_selection_is_that_of_the_other_commands(options: list[str], rows: int) -> None:
    assert export("--to", "parquet", "out", *options).exit_code == 0
    assert len(pandas.read_parquet("out/run.parquet")) == rows


@pytest.mark.parametrize(
    ("chosen", "points"),
    [
        pytest.param(["--statistic", "max"], 4 + 4, id="one"),
        pytest.param(["--statistic", "max", "--statistic", "l2"], 4 + 8, id="two"),
        pytest.param(["--statistic", "all"], 4 + 40, id="all"),
    ],
)
def test_the_statistics_for_tensorboard_can_be_chosen(chosen: list[str], points: int) -> None:
    assert f"Wrote {points} points of 2 tensors" in export("tb", "--to", "tensorboard", *chosen).stdout


def test_the_columns_of_a_table_can_be_chosen() -> None:
    assert export("x.parquet", "--to", "parquet", "--statistic", "max", "--statistic", "max").exit_code == 0
    table = pandas.read_parquet("x.parquet")
    assert list(table.columns[-3:]) == ["mode_step", "value", "max"]
    assert table["value"].notna().sum() == 4
    assert table["max"].notna().all()


def test_damage_is_told_and_the_rest_exported() -> None:
    os.truncate(Path("run/debug-output") / event_key(1, "worker_0"), 30)
    result = export("tb", "--to", "tensorboard", "--histograms")
    assert result.exit_code == 0
    assert "Wrote 15 points and 3 histograms" in result.stdout
    assert result.stderr.count(event_key(1, "worker_0")) == 1


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        pytest.param(["out"], 2, "--to", id="what-for"),
        pytest.param(["out", "--to", "csv"], 2, "tensorboard", id="unknown"),
        pytest.param(["out", "--to", "parquet", "--histograms"], 2, "--histograms", id="histograms-in-a-table"),
        pytest.param(["out", "--to", "parquet", "--statistic", "maxx"], 2, "Did you mean 'max'", id="column"),
        pytest.param(["out", "--to", "tensorboard", "--statistic", "maxx"], 2, "Did you mean 'max'", id="statistic"),
        pytest.param(["out", "--to", "parquet", "--collection", "wieghts"], 2, "'weights'", id="collection"),
        pytest.param(["out", "--to", "parquet", "--regex", "nothing"], 3, "No tensor is selected", id="nothing"),
        pytest.param(["s3://bucket/x", "--to", "parquet"], 2, "aws s3 cp", id="s3"),
    ],
)
def test_errors_say_what_would_work(arguments: list[str], exit_code: int, said: str) -> None:
    result = export(*arguments)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert said in result.stderr
    assert not Path("out").exists()
