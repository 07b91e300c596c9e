from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from trackside.cli import main
from trackside.contracts.run_layout import event_key
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

WEIGHT, BIAS = "Net_fc.weight", "Net_fc.bias"


@pytest.fixture(autouse=True)
def _run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = LocalStore("run/debug-output")
    write_collections(store, workers=("worker_0", "worker_1"))
    for step in (0, 10):
        weight = np.array([[step, np.nan], [-np.inf, 0.1]])
        write_tensors(store, step, {WEIGHT: weight, BIAS: step})
        write_tensors(store, step, {WEIGHT: weight + 1}, worker="worker_1")
    end_run(store)


def values(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["values", "run", *arguments])


def test_a_table_is_what_numpy_shows() -> None:
    result = values(WEIGHT, "--worker", "worker_0", "--step", "0")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        WEIGHT,
        "step 0, worker_0, 2x2 float64",
        "[[ 0.   nan]",
        " [-inf  0.1]]",
    ]


def test_without_a_step_it_is_the_last() -> None:
    assert values(BIAS).stdout.splitlines()[1:] == ["step 10, worker_0, 1 int64", "[10]"]


def test_json_holds_all_of_it_and_no_number_is_lost() -> None:
    document = json.loads(values(WEIGHT, "--worker", "worker_1", "--format", "json").stdout)
    assert document == {
        "schema_version": 1,
        "run": str(Path("run/debug-output").resolve()),
        "tensor": WEIGHT,
        "step": 10,
        "worker": "worker_1",
        "shape": [2, 2],
        "dtype": "float64",
        "values": [[11.0, "NaN"], ["-Infinity", 1.1]],
    }


def test_csv_has_a_row_for_each_element() -> None:
    result = values(WEIGHT, "--worker", "worker_0", "--format", "csv")
    assert list(csv.reader(io.StringIO(result.stdout))) == [
        ["index_0", "index_1", "value"],
        ["0", "0", "10.0"],
        ["0", "1", "nan"],
        ["1", "0", "-inf"],
        ["1", "1", "0.1"],
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(np.array(["a\x1b", "b"]), ["a\x1b", "b"], id="texts"),
        pytest.param(np.array([True, False]), [True, False], id="truth"),
        pytest.param(np.array([1 + 2j]), ["(1+2j)"], id="complex"),
        pytest.param(np.array([1, 2], np.uint8), [1, 2], id="whole"),
    ],
)
def test_every_kind_of_tensor_in_every_format(value: Any, shown: list[Any]) -> None:
    store = LocalStore("kinds")
    write_tensors(store, 0, {"a": value})
    end_run(store)
    line = CliRunner().invoke(main, ["values", "kinds", "a", "--format", "jsonl"])
    assert json.loads(line.stdout)["values"] == shown
    for form in ("table", "csv", "json"):
        result = CliRunner().invoke(main, ["values", "kinds", "a", "--format", form])
        assert result.exit_code == 0
        assert form == "csv" or "\x1b" not in result.stdout


def test_a_large_tensor_is_shown_by_its_corners() -> None:
    store = LocalStore("large")
    write_tensors(store, 0, {"a": np.zeros((200, 300))})
    end_run(store)
    lines = CliRunner().invoke(main, ["values", "large", "a"]).stdout.splitlines()
    assert len(lines) < 12
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        pytest.param(["Net_fc.wieght"], 3, "Did you mean 'Net_fc.weight'", id="name"),
        pytest.param([BIAS, "--step", "5"], 3, "The run holds it at steps 0 to 10, every 10", id="step"),
        pytest.param([BIAS, "--worker", "worker_1"], 3, "none of the selected steps", id="worker-that-lacks-it"),
        pytest.param([WEIGHT], 2, "worker_0, worker_1", id="several-workers"),
        pytest.param([BIAS, "--step", "-1"], 2, "--step", id="negative"),
    ],
)
def test_errors_say_what_would_work(arguments: list[str], exit_code: int, said: str) -> None:
    result = values(*arguments)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert said in result.stderr


def test_a_damaged_tensor_exits_with_3_and_names_the_file() -> None:
    LocalStore("run/debug-output").put(event_key(10, "worker_0"), b"\0" * 500)
    result = values(BIAS)
    assert (result.exit_code, result.stdout) == (3, "")
    assert event_key(10, "worker_0") in result.stderr
    assert values(BIAS, "--step", "0").exit_code == 0
