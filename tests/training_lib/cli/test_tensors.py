"""`trackside tensors`, and what it shares with `stats` and `values`: how RUN is named, damage, names from outside."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import numpy as np
import pytest
from click.testing import CliRunner, Result
from moto import mock_aws

from trackside.cli import main
from trackside.contracts.run_layout import event_key
from trackside.storage.local import LocalStore
from trackside.storage.s3 import S3Store
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

WEIGHT, LOSS = "Net_fc.weight", "Loss_output_0"


def fill(store: Store, *, has_ended: bool = True) -> None:
    write_collections(store)
    for step in (0, 10, 20):
        tensors = {LOSS: 2.0 / (step + 1), WEIGHT: np.full((4, 3), step, np.float32)}
        write_tensors(store, step, tensors, mode="EVAL" if step == 20 else "TRAIN")
    if has_ended:
        end_run(store)


def write_run(folder: str = ".trackside/runs/a/debug-output", *, has_ended: bool = True) -> Store:
    store = LocalStore(folder)
    fill(store, has_ended=has_ended)
    return store


def trackside(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize("name", ["a", "latest", ".trackside/runs/a", ".trackside/runs/a/debug-output"])
def test_a_table_of_tensors(name: str) -> None:
    write_run()
    result = trackside("tensors", name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["shape", "dtype", "steps", "last", "collection", "tensor"],
        ["1", "float64", "3", "20", "losses", LOSS],
        ["4x3", "float32", "3", "20", "weights", WEIGHT],
    ]


def test_json_is_one_document_with_a_version() -> None:
    write_run(has_ended=False)
    document = json.loads(trackside("tensors", "a", "--regex", "weight", "--format", "json").stdout)
    assert document == {
        "schema_version": 1,
        "run": str(Path(".trackside/runs/a/debug-output").resolve()),
        "has_ended": False,
        "tensors": [
            {
                "name": WEIGHT,
                "collections": ["weights"],
                "shape": [4, 3],
                "dtype": "float32",
                "steps": 3,
                "last_step": 20,
                "workers": ["worker_0"],
            }
        ],
        "damaged": [],
    }
    line = json.loads(trackside("tensors", "a", "--regex", "weight", "--format", "jsonl").stdout)
    assert line == {"schema_version": 1, **document["tensors"][0]}


def test_csv() -> None:
    write_run()
    rows = list(csv.DictReader(io.StringIO(trackside("tensors", "a", "--format", "csv").stdout)))
    assert [(row["name"], row["shape"], row["steps"], row["last_step"]) for row in rows] == [
        (LOSS, "1", "3", "20"),
        (WEIGHT, "4x3", "3", "20"),
    ]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        pytest.param(["--collection", "losses"], [LOSS], id="collection"),
        pytest.param(["--steps", "10:20"], [LOSS, WEIGHT], id="steps"),
        pytest.param(["--mode", "EVAL", "--worker", "worker_0"], [LOSS, WEIGHT], id="mode-and-worker"),
        pytest.param(["--mode", "predict"], [], id="mode-that-did-not-occur"),
        pytest.param(["--steps", "11:20"], [], id="steps-between"),
        pytest.param(["--regex", "^fc"], [], id="regex-that-finds-nothing"),
    ],
)
def test_filters(filters: list[str], names: list[str]) -> None:
    write_run()
    result = trackside("tensors", "a", *filters, "--format", "jsonl")
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == names
    assert result.exit_code == 0


def test_nothing_selected_is_said_on_stderr_and_no_error() -> None:
    write_run()
    result = trackside("tensors", "a", "--regex", "^fc")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "No tensor was saved that is selected.",
        f"  Why: --regex ^fc finds none of 2 names, such as {LOSS!r}, {WEIGHT!r}.",
    ]
    assert json.loads(trackside("tensors", "a", "--regex", "^fc", "--format", "json").stdout)["tensors"] == []


def test_a_run_that_has_not_saved_yet() -> None:
    Path(".trackside/runs/a").mkdir(parents=True)
    Path(".trackside/runs/a/rule-request.json").write_text("{}")
    result = trackside("tensors", "a")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No tensor was saved yet" in result.stderr
    assert "again after the first step" in result.stderr
    Path(".trackside/runs/a/debug-output").mkdir()
    Path(".trackside/runs/a/debug-output/training_job_end.ts").write_text("")
    assert "has ended without one" in trackside("stats", "a").stderr


@pytest.mark.parametrize(
    ("filters", "why"),
    [
        pytest.param(
            ["--collection", "biases"], "none of the tensors of this run; losses (1), weights (1) do", id="name"
        ),
        pytest.param(
            ["--mode", "predict"], "--mode predict: the steps of this run are of mode eval, train.", id="mode"
        ),
        pytest.param(["--steps", "11:20"], "--steps 11:20: the run has 3 steps, 0 to 20, every 10.", id="steps"),
        pytest.param(
            ["--steps", ":20", "--mode", "eval"],
            "each of --steps :20 --mode eval finds something, but no tensor fits all of them",
            id="only together",
        ),
    ],
)
@pytest.mark.parametrize("command", ["tensors", "stats"])
def test_why_nothing_is_selected(command: str, filters: list[str], why: str) -> None:
    write_run()
    result = trackside(command, "a", *filters)
    assert (result.exit_code, result.stdout) == (0, "")
    assert why in result.stderr


def test_what_stands_on_the_command_line_is_named_as_there() -> None:
    write_run()
    assert trackside("tensors", "a", "--collection", "wieghts").stderr.splitlines()[1] == "  Where: --collection"
    said = trackside("tensors", "nowhere", "--regex", "fc[").stderr
    assert "  Try: To find this very text, write --regex 'fc\\['" in said.splitlines()


def test_json_for_short() -> None:
    write_run()
    assert trackside("tensors", "a", "--json").stdout == trackside("tensors", "a", "--format", "json").stdout
    assert trackside("tensors", "a", "--format", "json", "--json").exit_code == 0
    clash = trackside("tensors", "a", "--json", "--format", "csv")
    assert (clash.exit_code, clash.stdout) == (2, "")
    assert "--json and --format csv" in clash.stderr


def test_a_growing_run_is_read_as_far_as_it_is_complete() -> None:
    store = write_run(has_ended=False)
    assert trackside("tensors", "a").stdout.splitlines()[1].split()[2:4] == ["3", "20"]
    write_tensors(store, 30, {LOSS: 0.1})
    assert trackside("tensors", "a").stdout.splitlines()[1].split()[2:4] == ["4", "30"]


def test_a_folder_of_the_original_smdebug() -> None:
    write_run("old")
    assert WEIGHT in trackside("tensors", "old").stdout
    assert trackside("stats", "old").exit_code == 0
    assert trackside("values", "old", LOSS).exit_code == 0


@pytest.mark.parametrize("command", [["tensors"], ["stats"], ["values"]])
@pytest.mark.parametrize("run", ["nowhere", "empty"])
def test_no_run_exits_with_3(command: list[str], run: str) -> None:
    Path("empty").mkdir()
    result = trackside(*command, run, *([LOSS] if command == ["values"] else []))
    assert (result.exit_code, result.stdout) == (3, "")
    assert run in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--steps", "ten"], "10:200:10", id="steps"),
        pytest.param(["--regex", "("], "no regular expression", id="regex"),
        pytest.param(["--collection", "wieghts"], "Did you mean 'weights'", id="collection"),
        pytest.param(["--worker", "worker0"], "Did you mean 'worker_0'", id="worker"),
        pytest.param(["--mode", "test"], "'train'", id="mode"),
    ],
)
@pytest.mark.parametrize("command", ["tensors", "stats"])
def test_what_cannot_be_selected_exits_with_2_and_says_what_can(command: str, arguments: list[str], said: str) -> None:
    write_run()
    result = trackside(command, "a", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize("command", ["tensors", "stats"])
def test_damage_is_named_on_stderr_and_the_rest_is_shown_with_exit_code_0(command: str) -> None:
    store = write_run()
    store.put(event_key(20, "worker_0"), b"\0" * 40)
    store.put("index/000000000/000000000010_worker_0.json", b"{")
    result = trackside(command, "a", "--format", "json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert len(document["damaged"]) == 2
    if command == "tensors":
        assert [(row["steps"], row["shape"]) for row in document["tensors"]] == [(2, None), (2, None)]
    else:
        assert [row["steps"] for row in document["statistics"]] == [[0], [0]]
    assert result.stderr.count("Warning: left out what cannot be read") == 2
    assert "000000000020_worker_0.tfevents" in result.stderr


def test_much_damage_is_not_a_flood() -> None:
    store = write_run()
    for step in range(100, 200):
        store.put(f"index/000000000/{step:012d}_worker_0.json", b"{")
    assert trackside("tensors", "a").stderr.splitlines()[5:] == ["Warning: and 95 more damaged files."]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("[bold red]x[/]", id="markup"),
        pytest.param("x\x1b[31m\x07", id="control"),
        pytest.param("a,b\nc\u202e", id="csv-and-override"),
        pytest.param("=1+1", id="formula"),
    ],
)
def test_names_from_outside(name: str) -> None:
    store = LocalStore("run/debug-output")
    write_tensors(store, 0, {name: 1.0})
    end_run(store)
    for command in (["tensors", "run"], ["stats", "run"], ["values", "run", name]):
        table = trackside(*command)
        assert table.exit_code == 0
        assert not {"\x1b", "\x07", "\u202e"} & set(table.stdout)
        document = json.loads(trackside(*command, "--format", "jsonl").stdout)
        assert name in document.values()
    assert ("[bold red]" in name) == ("[bold red]" in trackside("tensors", "run").stdout)
    rows = list(csv.reader(io.StringIO(trackside("tensors", "run", "--format", "csv").stdout)))
    assert (len(rows), rows[1][0]) == (2, name)


def test_in_a_pipe_every_row_is_a_line() -> None:
    store = LocalStore("run/debug-output")
    write_tensors(store, 0, {"Net_" + "block." * 40 + "weight": 1.0})
    end_run(store)
    assert len(trackside("tensors", "run").stdout.splitlines()) == 2


class Counter:
    def __init__(self, client: object) -> None:
        self.sent: list[str] = []
        client.meta.events.register("before-call.s3", self._note)  # type: ignore[attr-defined]

    def _note(self, model: object, **_: object) -> None:
        self.sent.append(model.name)  # type: ignore[attr-defined]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        client = boto3.session.Session().client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="runs")
        yield client


def test_a_run_on_s3(s3: object) -> None:
    fill(S3Store("runs", "a/debug-output", client=s3))
    for arguments in (["tensors"], ["stats", "--regex", "weight"]):
        result = trackside(arguments[0], "s3://runs/a", *arguments[1:])
        assert (result.exit_code, result.stderr) == (0, "")
        assert WEIGHT in result.stdout
    assert trackside("tensors", "s3://runs/elsewhere").exit_code == 3


def test_a_listing_fetches_no_tensor_from_s3(s3: object) -> None:
    """Beyond opening the run: one request for a small model's last step, one for each tensor of a big one."""
    from trackside.trial.trial import open_trial

    store = S3Store("runs", "a/debug-output", client=s3)
    fill(store)
    counter = Counter(s3)
    trial = open_trial(store)
    assert counter.sent.count("GetObject") == 3 + 1  # an index file for each step, and the collections
    assert len(counter.sent) - 4 <= 5  # listings
    counter.sent.clear()
    assert len(trial.parts.heads(trial.tensors())) == 2
    assert counter.sent == ["GetObject"]

    write_tensors(store, 30, {f"Net_fc{i}.weight": np.zeros((100, 100)) for i in range(3)})
    end_run(store)
    grown = open_trial(store)
    counter.sent.clear()
    sizes: list[int] = []
    s3.meta.events.register("after-call.s3", lambda parsed, **_: sizes.append(parsed["ContentLength"]))  # type: ignore[attr-defined]
    assert len(grown.parts.heads(grown.tensors(regex=r"fc\d"))) == 3
    assert counter.sent == ["GetObject"] * 3
    assert max(sizes) <= 2048
