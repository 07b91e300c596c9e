"""Settings of a project as `run`, `rules run` and `config show` use them: command line, variable, file, default."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleRequest

USUAL = set(built_in_catalogue().usual)


@pytest.fixture(autouse=True)
def _files_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def trackside(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_run_follows_the_settings_and_the_command_line_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("trackside.toml").write_text(
        'on-issue = "stop"\nskip = ["overfit"]\nset.dead-relu.threshold_layer = 0.6\n'
        '[[capture.collections]]\nname = "gradients"\nsave_interval = 30\n'
    )
    program = "import os; print(os.environ['TRACKSIDE_CAPTURE_REQUEST'], file=open('captured.json', 'w'))"
    result = trackside("run", "--out", "a", "--on-issue", "nothing", "--", sys.executable, "-c", program)
    assert result.exit_code == 0, result.stderr
    line = f"judged by the {len(USUAL)} default rules, without overfit; set: dead-relu.threshold_layer=0.6"
    assert f"trackside: {line}\n" in result.stderr
    request = RuleRequest.from_json(Path("a/rule-request.json").read_bytes())
    assert {rule.rule_id for rule in request.rules} == USUAL - {"overfit"}
    assert {rule.actions for rule in request.rules} == {()}
    collections = json.loads(Path("captured.json").read_text())["collections"]
    assert {one["name"]: one["save_interval"] for one in collections}["gradients"] == 30


def test_recorded_runs_are_judged_by_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    write_run("sound", [1.0] * 3)
    Path("pyproject.toml").write_text('[tool.trackside]\nskip = ["overfit"]\n')
    monkeypatch.setenv("TRACKSIDE_SKIP", "dead-relu")
    for words, expected in (
        ((), USUAL - {"overfit", "dead-relu"}),
        (("--rule", "overfit"), USUAL - {"dead-relu"}),
        (("--only", "overfit"), {"overfit"}),
    ):
        (run,) = json.loads(trackside("rules", "run", "sound", *words, "--json").stdout)["runs"]
        assert {rule["rule"] for rule in run["rules"]} == expected


def test_a_rules_file_holds_the_same_words() -> None:
    write_run("sound", [1.0] * 3)
    Path("words.json").write_text('{"skip": ["overfit"], "set": {"dead-relu.threshold_layer": 0.6}}')
    result = trackside("rules", "run", "sound", "--rules-file", "words.json", "--json")
    (run,) = json.loads(result.stdout)["runs"]
    assert {rule["rule"] for rule in run["rules"]} == USUAL - {"overfit"}
    assert "without overfit; set: dead-relu.threshold_layer=0.6" in result.stderr


def test_config_show_names_the_source_of_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("trackside.toml").write_text('on-issue = "stop"\nfail-on = "never"\nskip = ["overfit"]\n')
    monkeypatch.setenv("TRACKSIDE_FAIL_ON", "warning")
    document = json.loads(trackside("config", "show", "--json").stdout)
    shown = {one["setting"]: (one["value"], one["source"]) for one in document["settings"]}
    assert shown == {
        "on-issue": ("stop", "trackside.toml"),
        "fail-on": ("warning", "TRACKSIDE_FAIL_ON"),
        "save-interval": (None, "default"),
        "cluster-job": ("none", "default"),
        "grace": (30.0, "default"),
        "rules-file": (None, "default"),
        "capture": (None, "default"),
        "skip": ("overfit", "trackside.toml, skip"),
    }
    assert set(document["rules"]) == USUAL - {"overfit"}
    lines = trackside("config", "show").stdout.splitlines()
    assert lines[1] == f"Judged by: the {len(USUAL)} default rules, without overfit"
    assert "on-issue       stop     trackside.toml" in lines


@pytest.mark.parametrize(
    "command", [("run", "--", "true"), ("rules", "run", "sound"), ("rules", "test", "sound"), ("config", "show")]
)
def test_a_broken_file_stops_what_would_use_it_and_nothing_else(command: tuple[str, ...]) -> None:
    write_run("sound", [1.0])
    Path("trackside.toml").write_text('skipp = ["overfit"]\non-issue = "halt"\n')
    result = trackside(*command)
    assert result.exit_code == 2
    assert "trackside.toml, skipp: is not known. Did you mean 'skip'?" in result.stderr
    assert "trackside.toml, on-issue: must be one of stop, notify, nothing" in result.stderr
    assert trackside(command[0], "--help").exit_code == 0
    assert trackside("findings", "sound").exit_code == 0
