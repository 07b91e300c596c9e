from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from trackside.cli import main
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors
from trackside.trial.tensors.statistics import STATISTICS

WEIGHT, LOSS = "Net_fc.weight", "Loss_output_0"
LOSSES = {0: 2.0, 10: 1.5, 20: math.inf, 30: 1.0}


@pytest.fixture(autouse=True)
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("run/debug-output")
    write_collections(store, workers=("worker_0", "worker_1"))
    for step, loss in LOSSES.items():
        write_tensors(store, step, {LOSS: loss, WEIGHT: np.array([-1.0, step])})
        write_tensors(store, step, {WEIGHT: np.array([-2.0, step])}, worker="worker_1")
    end_run(store)


def stats(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["stats", "run", *arguments])


def test_the_table_sums_up_the_steps() -> None:
    result = stats("--collection", "losses", "--steps", ":20")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["abs_mean,", "by", "tensor"],
        ["steps", "first", "last", "min", "max", "trend", "tensor"],
        ["2", "2", "1.5", "1.5", "2", "█▁", LOSS],
    ]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param((), False, id="table"),
        pytest.param(("--regex", "^trackside/"), True, id="named"),
        pytest.param(("--json",), True, id="for programs"),
    ],
)
@pytest.mark.parametrize("command", ["stats", "tensors"])
def test_numbers_of_our_own_are_shown_on_request(command: str, arguments: tuple[str, ...], shown: bool) -> None:
    statistics = LocalStore("run/statistics")
    write_statistics(statistics, {"trackside/update_size": {"mean": {0: 1.0, 10: 2.0}}})
    result = CliRunner().invoke(main, [command, "run", *arguments])
    assert result.exit_code == 0
    assert ("trackside/update_size" in result.stdout) is shown
    assert (LOSS in result.stdout) is ("--regex" not in arguments)


def test_several_workers_and_statistics_have_columns() -> None:
    lines = stats("--regex", "weight", "--statistic", "min", "--statistic", "max").stdout.splitlines()
    assert lines[0].split() == ["statistic", "steps", "first", "last", "min", "max", "trend", "worker", "tensor"]
    assert [(line.split()[0], line.split()[2], line.split()[-2]) for line in lines[1:]] == [
        ("min", "-1", "worker_0"),
        ("min", "-2", "worker_1"),
        ("max", "0", "worker_0"),
        ("max", "0", "worker_1"),
    ]


def test_json_holds_every_step_and_infinity_is_a_word() -> None:
    document = json.loads(stats("--collection", "losses", "--statistic", "mean", "--format", "json").stdout)
    assert (document["schema_version"], document["has_ended"], document["damaged"]) == (1, True, [])
    assert document["statistics"] == [
        {
            "tensor": LOSS,
            "worker": "worker_0",
            "statistic": "mean",
            "steps": [0, 10, 20, 30],
            "values": [2.0, 1.5, "Infinity", 1.0],
        }
    ]


def test_csv_has_a_row_for_each_step_in_full_precision() -> None:
    result = stats("--regex", "weight", "--worker", "worker_1", "--statistic", "l2", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [int(row["step"]) for row in rows] == [0, 10, 20, 30]
    assert [float(row["value"]) for row in rows] == [math.hypot(2, step) for step in LOSSES]


def test_all_statistics() -> None:
    lines = stats("--collection", "losses", "--statistic", "all", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["statistic"] for line in lines] == list(STATISTICS)


def test_a_misspelt_statistic_exits_with_2() -> None:
    result = stats("--statistic", "absmean")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Did you mean 'abs_mean'?" in result.stderr


def test_tensors_without_numbers_are_left_out() -> None:
    store = LocalStore("texts")
    write_tensors(store, 0, {"note": np.array(["a"])})
    end_run(store)
    result = CliRunner().invoke(main, ["stats", "texts"])
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No selected tensor holds numbers.\n")


@pytest.fixture
def recorded() -> dict[str, dict[str, Any]]:
    """Every step of a loss, a learning rate and a gradient is recorded; only step 0 is saved."""
    store = LocalStore("recorded/debug-output")
    write_collections(store)
    write_tensors(store, 0, {LOSS: 2.0, WEIGHT: np.array([-1.0, 3.0])})
    numbers = {
        LOSS: {"mean": {step: 2.0 - step / 10 for step in range(8)}, "nonfinite_count": dict.fromkeys(range(8), 0.0)},
        "hyperparameters/Adam/group_0/lr": {"mean": dict.fromkeys(range(8), 0.01)},
        f"gradient/{WEIGHT}": {"l2": dict.fromkeys(range(0, 8, 2), 0.5), "abs_mean": {0: 0.25}},
        "even": {"l2": {0: 1.0}, "abs_mean": {0: 0.25}},
    }
    write_statistics(LocalStore("recorded/statistics"), numbers)
    end_run(store)
    result = CliRunner().invoke(main, ["stats", "recorded", "--format", "jsonl"])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return {row["tensor"]: row for row in rows}


@pytest.mark.parametrize(
    ("tensor", "statistic", "steps"),
    [
        pytest.param(LOSS, "mean", 8, id="a loss has its value of every step"),
        pytest.param("hyperparameters/Adam/group_0/lr", "mean", 8, id="a learning rate does not vanish"),
        pytest.param(f"gradient/{WEIGHT}", "l2", 4, id="a gradient has its norm"),
        pytest.param(WEIGHT, "abs_mean", 1, id="a saved tensor keeps its mean"),
        pytest.param("even", "abs_mean", 1, id="on a tie as ever"),
    ],
)
def test_each_tensor_shows_the_statistic_with_most_steps(
    recorded: dict[str, dict[str, Any]], tensor: str, statistic: str, steps: int
) -> None:
    assert (recorded[tensor]["statistic"], len(recorded[tensor]["steps"])) == (statistic, steps)


@pytest.mark.usefixtures("recorded")
def test_losses_come_first_and_a_chosen_statistic_is_kept() -> None:
    lines = CliRunner().invoke(main, ["stats", "recorded"]).stdout.splitlines()
    assert lines[1].split()[-1] == LOSS
    only = CliRunner().invoke(main, ["stats", "recorded", "--regex", "Loss", "--statistic", "abs_mean"]).stdout
    assert [line.split()[0] for line in only.splitlines()[2:]] == ["1"]
