from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from trackside.cli import main
from trackside.contracts.rule_catalogue import LifeCycle, built_in_catalogue

RULES = built_in_catalogue().rules


def test_every_rule_is_listed_with_its_summary_below() -> None:
    result = CliRunner().invoke(main, ["rules", "list"])
    assert result.exit_code == 0
    lines = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert [tuple(line.split()[:2]) for line in lines] == [(rule.code, name) for name, rule in RULES.items()]
    said = " ".join(result.stdout.split())
    assert all(rule.summary in said for rule in RULES.values())


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rule_shows_its_parameters_and_how_to_ask_for_it(rule_id: str) -> None:
    result = CliRunner().invoke(main, ["rules", "show", rule_id])
    assert result.exit_code == 0
    on_by_default = rule_id in built_in_catalogue().usual
    assert (f"trackside run --skip {rule_id} --" in result.stdout) is on_by_default
    assert (f"trackside run --rule {rule_id}" in result.stdout) is not on_by_default
    assert all(parameter.name in result.stdout for parameter in RULES[rule_id].parameters)


def test_json_is_one_document_with_a_version() -> None:
    document = json.loads(CliRunner().invoke(main, ["rules", "list", "--format", "json"]).stdout)
    assert document["schema_version"] == 1
    assert [rule["rule"] for rule in document["rules"]] == list(RULES)
    assert set(document["rules"][0]) == {
        "rule",
        "code",
        "summary",
        "watches",
        "save_interval",
        "severity",
        "since",
        "parameters",
        "needs",
        "presets",
        "is_asked_for",
        "life_cycle",
    }


def test_json_lines_are_a_document_each() -> None:
    lines = CliRunner().invoke(main, ["rules", "list", "--format", "jsonl"]).stdout.splitlines()
    assert [json.loads(line)["rule"] for line in lines] == list(RULES)
    assert {json.loads(line)["schema_version"] for line in lines} == {1}


def test_one_rule_as_json() -> None:
    document = json.loads(CliRunner().invoke(main, ["rules", "show", "vanishing-gradient", "--format", "json"]).stdout)
    assert document["severity"] == "critical"
    assert document["parameters"][0]["name"] == RULES["vanishing-gradient"].parameters[0].name


def test_the_life_cycle_of_a_rule_is_shown() -> None:
    listed = CliRunner().invoke(main, ["rules", "list"]).stdout
    previews = [rule.rule_id for rule in RULES.values() if rule.life_cycle is LifeCycle.PREVIEW]
    assert [line.split()[1] for line in listed.splitlines() if line.endswith(", preview")] == previews
    shown = CliRunner().invoke(main, ["rules", "show", "vanishing-gradient"]).stdout
    assert "life cycle  stable" in shown


def test_an_unknown_rule_says_which_was_meant() -> None:
    result = CliRunner().invoke(main, ["rules", "show", "vanishing-gradiant"])
    assert result.exit_code == 2
    assert "Did you mean 'vanishing-gradient'?" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("word", "said"),
    [
        pytest.param("vanishing-gradient", "trackside rules show vanishing-gradient", id="a rule"),
        pytest.param("lst", "Did you mean 'list'?", id="misspelt"),
    ],
)
def test_an_unknown_command_says_what_would_work(word: str, said: str) -> None:
    result = CliRunner().invoke(main, ["rules", word])
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_rule_of_ones_own_is_shown_by_file_and_class(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from smdebug.rules import Rule\n"
        "class Mine(Rule):\n"
        "    'Something is odd.'\n"
        "    def __init__(self, base_trial, action_str, limit, patience='3', *, other_trials=None): ...\n"
        "    def invoke_at_step(self, step): ...\n"
    )
    result = CliRunner().invoke(main, ["rules", "show", f"{file}:Mine"])
    assert result.exit_code == 0
    assert "Something is odd." in result.stdout
    assert f"Add it: trackside run --rule {file}:Mine:limit=" in result.stdout
    document = json.loads(CliRunner().invoke(main, ["rules", "show", f"{file}:Mine", "--format", "json"]).stdout)
    assert [(p["name"], p["default"]) for p in document["parameters"]] == [("limit", ""), ("patience", "3")]


def test_a_file_that_holds_no_such_rule_says_which_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from trackside.rules.tensors.exploding_tensor import ExplodingTensor\nclass Mine(ExplodingTensor): ..."
    )
    result = CliRunner().invoke(main, ["rules", "show", f"{file}:Yours"])
    assert result.exit_code == 2
    assert "Known: Mine" in result.stderr
