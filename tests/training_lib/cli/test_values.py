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
from trackside.testing.fake_trial import end_run, write_collections, write_statistics, write_tensors

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
        "mode": "TRAIN",
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
        pytest.param(
            [BIAS, "--step", "5"], 3, "not saved at step 5.\n  Why: The nearest: 0 and 10. It holds 2 steps", id="step"
        ),
        pytest.param([BIAS, "--steps", "2:9"], 3, "saved at none of the steps 2:9.", id="steps"),
        pytest.param([BIAS, "--step", "99"], 3, "The nearest: 10.", id="after-the-last"),
        pytest.param(
            [BIAS, "--worker", "worker_1"], 3, "no complete step with --worker worker_1", id="worker-lacks-it"
        ),
        pytest.param([WEIGHT], 2, "Choose one: --worker worker_0 (of worker_0, worker_1)", id="several-workers"),
        pytest.param([BIAS, "--step", "1", "--steps", "1:2"], 2, "--steps 20 is a step", id="step-and-steps"),
        pytest.param([], 2, "Name a TENSOR, or choose some by --regex", id="nothing"),
        pytest.param([BIAS, "--regex", "x"], 2, "needs no --regex", id="name-and-regex"),
        pytest.param([BIAS, "--npy", "a.npy", "--json"], 2, "--npy writes one TENSOR", id="npy-and-json"),
        pytest.param([BIAS, "--npy", "a.txt"], 2, "does not end in .npy", id="npy-by-another-name"),
        pytest.param([BIAS, "--npy", "nowhere/a.npy"], 2, "No such file or directory", id="npy-nowhere"),
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


def test_over_steps_a_table_has_a_row_for_each() -> None:
    assert values(BIAS, "--steps", ":").stdout.splitlines() == [BIAS, "step  value", "0     0", "10    10"]
    lines = values(WEIGHT, "--steps", "0").stdout.splitlines()
    assert lines[1].split() == ["step", "worker", "shape", "mean", "std", "min", "max", "not", "finite"]
    assert [line.split() for line in lines[2:]] == [
        ["0", "worker_0", "2x2", "nan", "nan", "nan", "nan", "2"],
        ["0", "worker_1", "2x2", "nan", "nan", "nan", "nan", "2"],
    ]


def test_over_steps_the_other_formats_hold_all_of_it() -> None:
    chosen = (WEIGHT, "--worker", "worker_0", "--steps", "0:11:10")
    rows = [json.loads(line) for line in values(*chosen, "--format", "jsonl").stdout.splitlines()]
    assert [(row["step"], row["values"]) for row in rows] == [
        (0, [[0.0, "NaN"], ["-Infinity", 0.1]]),
        (10, [[10.0, "NaN"], ["-Infinity", 0.1]]),
    ]
    document = json.loads(values(*chosen, "--json").stdout)
    assert [{"schema_version": 1, **row} for row in document["values"]] == rows
    assert (document["has_ended"], document["damaged"]) == (True, [])
    table = list(csv.reader(io.StringIO(values(*chosen, "--format", "csv").stdout)))
    assert table[:3] == [
        ["tensor", "step", "worker", "mode", "index", "value"],
        [WEIGHT, "0", "worker_0", "TRAIN", "0", "0.0"],
        [WEIGHT, "0", "worker_0", "TRAIN", "1", "nan"],
    ]
    assert len(table) == 1 + 2 * 4


@pytest.mark.parametrize(
    ("chosen", "saved"),
    [
        pytest.param(["--regex", "bias"], [(BIAS, 10)], id="regex: the last step"),
        pytest.param(["--collection", "weights", "--steps", ":10"], [(WEIGHT, 0), (WEIGHT, 0)], id="collection"),
        pytest.param(["--regex", "Net", "--worker", "worker_1"], [(WEIGHT, 10)], id="worker"),
        pytest.param(["--regex", "^x"], [], id="none"),
    ],
)
def test_several_tensors(chosen: list[str], saved: list[tuple[str, int]]) -> None:
    lines = values(*chosen, "--format", "jsonl").stdout.splitlines()
    assert [(row["tensor"], row["step"]) for row in map(json.loads, lines)] == saved
    table = values(*chosen)
    assert table.exit_code == 0
    assert bool(table.stdout) == bool(saved)


def test_a_numpy_file_of_a_step_and_of_steps() -> None:
    result = values(WEIGHT, "--worker", "worker_0", "--npy", "one.npy")
    assert (result.exit_code, result.stdout) == (0, "Wrote an array of shape (2, 2), step 10:\n  one.npy\n")
    assert np.load("one.npy")[0, 0] == 10
    result = values(WEIGHT, "--worker", "worker_0", "--steps", ":", "--npy", "all.npy")
    assert "shape (2, 2, 2), 2 steps, 0 to 10, every 10" in result.stdout
    assert np.load("all.npy")[:, 0, 0].tolist() == [0, 10]


def test_a_numpy_file_is_whole_or_not_there() -> None:
    LocalStore("run/debug-output").put(event_key(10, "worker_0"), b"\0" * 500)
    assert values(BIAS, "--steps", ":", "--npy", "all.npy").exit_code == 3
    store = LocalStore("grows")
    for step in (0, 1):
        write_tensors(store, step, {"a": np.zeros(step + 1), "text": np.array(["x"])})
    end_run(store)
    result = CliRunner().invoke(main, ["values", "grows", "a", "--steps", ":", "--npy", "all.npy"])
    assert (result.exit_code, "one shape and type only" in result.stderr) == (2, True)
    assert list(Path().glob("*.npy")) + list(Path().glob(".*partial")) == []


def test_damage_over_steps_is_left_out_and_named() -> None:
    LocalStore("run/debug-output").put(event_key(10, "worker_0"), b"\0" * 500)
    result = values(BIAS, "--steps", ":")
    assert (result.exit_code, result.stdout.splitlines()[2:]) == (0, ["0     0"])
    assert event_key(10, "worker_0") in result.stderr


def test_only_the_selected_steps_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    get = LocalStore.get

    def note(self: LocalStore, key: str, **where: Any) -> bytes:
        read.append(key)
        return get(self, key, **where)

    monkeypatch.setattr(LocalStore, "get", note)
    assert values(BIAS, "--steps", "0:10").exit_code == 0
    assert event_key(0, "worker_0") in read
    assert event_key(10, "worker_0") not in read


LOSS, RATE = "Loss_output_0", "hyperparameters/Adam/group_0/lr"


@pytest.fixture
def recorded() -> None:
    store = LocalStore("recorded/debug-output")
    write_collections(store)
    write_tensors(store, 0, {LOSS: np.float32(2.0), "each_output_0": np.array([1.0, 3.0])})
    numbers = {name: {"mean": {step: 2.0 - step / 8 for step in range(8)}} for name in (LOSS, RATE, "each_output_0")}
    write_statistics(LocalStore("recorded/statistics"), numbers)
    end_run(store)


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        pytest.param([LOSS, "--steps", ":"], list(range(8)), id="a loss at every step"),
        pytest.param([LOSS, "--steps", "1:8:3"], [1, 4, 7], id="some of them"),
        pytest.param([LOSS], [7], id="the newest"),
        pytest.param([LOSS, "--step", "5"], [5], id="one that was not saved"),
        pytest.param([LOSS, "--step", "0"], [0], id="one that was saved"),
        pytest.param([RATE, "--steps", ":"], list(range(8)), id="a learning rate"),
        pytest.param(["--regex", "Adam"], [7], id="by a pattern"),
        pytest.param(["--regex", "Adam", "--steps", "2:4"], [2, 3], id="by a pattern, over steps"),
        pytest.param(["each_output_0", "--steps", ":"], [0], id="a tensor of several elements as saved"),
    ],
)
def test_a_number_has_the_steps_at_which_it_is_recorded(arguments: list[str], steps: list[int]) -> None:
    result = CliRunner().invoke(main, ["values", "recorded", *arguments, "--format", "jsonl"])
    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["step"] for line in result.stdout.splitlines()] == steps


@pytest.mark.usefixtures("recorded")
def test_recorded_numbers_in_the_other_formats() -> None:
    table = CliRunner().invoke(main, ["values", "recorded", LOSS, "--steps", "6:"]).stdout.splitlines()
    assert table == [LOSS, "step  value", "6     1.25", "7     1.125"]
    assert CliRunner().invoke(main, ["values", "recorded", LOSS, "--steps", "6:", "--npy", "a.npy"]).exit_code == 0
    assert np.load("a.npy").tolist() == [[1.25], [1.125]]
    missing = CliRunner().invoke(main, ["values", "recorded", LOSS, "--step", "9"])
    assert (missing.exit_code, missing.stdout) == (3, "")
