"""Promises about `--format json`: every output has the published schema, and every command a schema."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner

from tests.architecture.test_extras import leaves
from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
# Commands with JSON and no schema here: what they print comes from AWS, or from a training that runs.
WITHOUT = {"check", "drill", "aws-status", "aws-verdicts", "aws-rules", "aws-redrive"}
WEIGHT = "gradient/Net_fc.weight"
LINES = [
    ("findings", ["findings", "bad"]),
    ("runs", ["runs"]),
    ("tensors", ["tensors", "bad"]),
    ("tensors", ["tensors", "bad", "--regex", "nothing-of-that-name"]),
    ("stats", ["stats", "bad"]),
    ("values", ["values", "bad", WEIGHT]),
    ("values", ["values", "bad", WEIGHT, "--steps", "0:100"]),
    ("values", ["values", "bad", "--regex", "fc"]),
    ("rules-list", ["rules", "list"]),
    ("rules-show", ["rules", "show", "vanishing-gradient"]),
    ("rules-run", ["rules", "run", "bad"]),
    ("rules-run", ["rules", "run", "bad", "sound", "--only", "exploding-tensor"]),
    ("rules-test", ["rules", "test", "bad", "sound", "--only", "exploding-tensor"]),
    ("doctor", ["doctor"]),
    ("config-show", ["config", "show"]),
    ("rm", ["rm", "bad", "--dry-run"]),
    ("prune", ["prune", "--keep", "0", "--dry-run"]),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("outputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write_run("bad", [1.0, 1.0, math.nan, math.nan])
        write_run("sound", [1.0] * 3)
    return place


def schema_of(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return schema


@pytest.mark.parametrize(("name", "line"), LINES, ids=[" ".join(line) for _, line in LINES])
def test_what_is_printed_has_the_published_schema(
    name: str, line: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, [*line, "--format", "json"])
    document = json.loads(result.stdout)
    jsonschema.Draft202012Validator(schema_of(name)).validate(document)
    assert json.loads(CliRunner().invoke(main, [*line, "--json"]).stdout).keys() == document.keys()


def test_every_command_with_json_has_a_schema_that_a_line_here_is_held_against() -> None:
    with_json = {"-".join(words) for words in leaves(main) if _prints_json(words)}
    published = {path.stem for path in SCHEMAS.glob("*.json")}
    assert with_json - WITHOUT == published == {name for name, _ in LINES}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("findings", {"steps_saved": "many"}, id="another-kind"),
        pytest.param("findings", {"schema_version": 2}, id="another-version"),
        pytest.param("rm", {"removed": None}, id="null"),
    ],
)
def test_the_schemas_refuse_another_shape(
    name: str, change: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = ["rm", "bad", "--dry-run"] if name == "rm" else [name, "bad"]
    document = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema_of(name)).validate({**document, **change})


def _prints_json(words: tuple[str, ...]) -> bool:
    command: click.Command = main
    for word in words:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return any("--json" in parameter.opts for parameter in command.params)
