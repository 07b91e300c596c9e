"""`trackside rules run`: recorded runs judged now; cards, exit codes, and nothing is written."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main
from trackside.contracts.rule_catalogue import built_in_catalogue

HEAD = (
    "from trackside.contracts.verdict import Finding, Severity\n"
    "from trackside.rules.rule import Rule, parameter\n"
    "from dataclasses import dataclass\n"
    "@dataclass(frozen=True)\n"
    "class Large(Rule):\n"
    "    'Something is large.'\n"
    "    rule_id = 'large'; watches = ('gradients',); save_interval = 10; severity = Severity.WARNING\n"
    "    since = '1'; what_to_do = ('Look.',)\n"
    "    limit: float = parameter(5.0, 'the largest')\n"
    "    def check(self, window):\n"
)
LARGE = (
    "        for name in window.tensors('gradients'):\n"
    "            value = float(window.value(name, worker='worker_0')[0])\n"
    "            if value > self.limit:\n"
    "                yield Finding(name, window.step, window.step, 'value', value, '>', self.limit)\n"
)
CRASHES = "        raise KeyError('oh')\n"


@pytest.fixture(autouse=True)
def _files_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Path("mine.py").write_text(HEAD + LARGE)
    Path("crashes.py").write_text(HEAD + CRASHES)
    write_run("bad", [1.0, 1.0, math.nan, math.nan, math.nan])
    write_run("sound", [1.0] * 5)


def rules_run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rules", "run", *arguments])


def test_an_issue_is_a_card_and_every_rule_has_a_state() -> None:
    result = rules_run("bad", "--only", "exploding-tensor", "--only", "vanishing-gradient")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "bad: finished, 5 steps saved"
    assert "✖ CRITICAL  exploding-tensor ─" in result.stdout
    assert "real       almost certain (" in result.stdout
    assert "what to do" in lines
    assert "✖ Issue            exploding-tensor    critical, since step 20, 1 tensor" in lines
    assert "◌ Not enough data  vanishing-gradient  Values are not finite from step 20 on," in lines
    assert max(map(len, lines)) <= 80


def test_nothing_is_written() -> None:
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
    assert rules_run("bad", "sound").exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in Path().rglob("*")} == before


def test_what_was_said_before_does_not_count() -> None:
    rule_output = Path(".trackside/runs/bad/rule-output")
    rule_output.mkdir()
    (rule_output / "verdicts.jsonl").write_text("an older Trackside's words\n")
    (rule_output / "progress.json").write_text('{"version": 2, "rules": [{"name": "exploding-tensor"}]}')
    assert "CRITICAL  exploding-tensor" in rules_run("bad", "--only", "exploding-tensor").stdout


def test_a_run_that_has_not_ended_is_judged_as_far_as_it_is_there() -> None:
    write_run("growing", [1.0, 1.0, math.nan], ended=False)
    lines = rules_run("growing", "--only", "exploding-tensor", "--only", "vanishing-gradient").stdout.splitlines()
    assert lines[0] == "growing: not ended, 3 steps saved"
    assert "✖ Issue    exploding-tensor    critical, since step 20, 1 tensor" in lines
    assert "▶ Running  vanishing-gradient  3 steps judged, no issue so far" in lines


def test_several_runs_are_told_one_after_the_other() -> None:
    result = rules_run("bad", "sound", "--only", "exploding-tensor")
    assert (
        result.stdout.index("bad: finished") < result.stdout.index("CRITICAL") < result.stdout.index("sound: finished")
    )
    assert "\n\nsound: finished, 5 steps saved\n" in result.stdout


def test_without_a_rule_all_usual_ones_judge() -> None:
    (run,) = json.loads(rules_run("sound", "--json").stdout)["runs"]
    assert {rule["rule"] for rule in run["rules"]} == set(built_in_catalogue().usual)


@pytest.mark.parametrize(
    ("arguments", "issues"),
    [
        pytest.param(("--only", "mine.py:Large:limit=0.5"), 1, id="a-rule-of-ones-own"),
        pytest.param(("--only", "mine.py:Large", "--set", "limit=0.5"), 1, id="set"),
        pytest.param(("--only", "vanishing-gradient", "--set", "threshold=2", "--preset", "aws-docs"), 1, id="preset"),
        pytest.param(("--rules-file", "loud.json"), 1, id="file"),
        pytest.param(("--rules-file", "request.json"), 1, id="request-of-create-training-job"),
        pytest.param(("--rules-file", "loud.json", "--rule", "mine.py:Large:limit=0.1"), 1, id="file-and-rule-tuned"),
        pytest.param(("--only", "mine.py:Large:limit=0.5", "--only", "mine.py:Large:limit=0.1"), 2, id="twice"),
        pytest.param(("--only", "mine.py:Large"), 0, id="own-default"),
        pytest.param(("--only", "mine.py:Large:limit=0.5", "--set", "limit=2"), 0, id="set-counts"),
        pytest.param(("--only", "vanishing-gradient", "--preset", "aws-docs"), 0, id="preset-default"),
        pytest.param(("--rules-file", "quiet.json"), 0, id="quiet-file"),
        pytest.param(("--only", "exploding-tensor"), 0, id="another-rule"),
        pytest.param(("--only", "exploding-tensor", "--only", "exploding-tensor"), 0, id="twice-the-same"),
        pytest.param(("--preset", "aws-sdk", "--only", "exploding-tensor"), 0, id="other-preset"),
    ],
)
def test_the_rules_are_those_that_were_chosen(arguments: tuple[str, ...], issues: int) -> None:
    for name, limit in {"loud": "0.5", "quiet": "2"}.items():
        own = {"rule": "Large", "source": "mine.py", "parameters": {"limit": limit}}
        Path(f"{name}.json").write_text(json.dumps({"rules": [own]}))
    asked = {"rule_to_invoke": "VanishingGradient", "threshold": "2"}
    request = {"DebugRuleConfigurations": [{"RuleConfigurationName": "Gone", "RuleParameters": asked}]}
    Path("request.json").write_text(json.dumps(request))
    result = rules_run("sound", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    (run,) = json.loads(result.stdout)["runs"]
    assert len(run["findings"]) == issues


@pytest.mark.parametrize(
    ("run", "arguments", "code"),
    [
        pytest.param("bad", ("--only", "exploding-tensor", "--fail-on", "critical"), 1, id="critical"),
        pytest.param("bad", ("--only", "exploding-tensor", "--fail-on", "warning"), 1, id="graver"),
        pytest.param("sound", ("--only", "mine.py:Large:limit=0", "--fail-on", "warning"), 1, id="warning"),
        pytest.param("sound", ("--only", "crashes.py:Large"), 5, id="crash"),
        pytest.param("bad", ("--only", "crashes.py:Large", "--only", "exploding-tensor", "--fail-on", "critical"), 5,
                     id="crash-beside-an-issue"),
        pytest.param("bad", ("--only", "exploding-tensor"), 0, id="never"),
        pytest.param("sound", ("--only", "mine.py:Large:limit=0", "--fail-on", "critical"), 0, id="less-grave"),
        pytest.param("sound", ("--fail-on", "warning"), 0, id="sound"),
    ],
)  # fmt: skip
def test_exit_codes(run: str, arguments: tuple[str, ...], code: int) -> None:
    assert rules_run(run, *arguments).exit_code == code


def test_a_crash_is_told_and_the_other_rules_go_on() -> None:
    text = " ".join(rules_run("bad", "--only", "crashes.py:Large", "--only", "exploding-tensor").stdout.split())
    assert "CRITICAL exploding-tensor" in text
    assert "⚠ Error Large KeyError: 'oh'" in text


def test_lines_of_json_are_verdicts_of_whatever_outcome() -> None:
    result = rules_run("bad", "sound", "--only", "exploding-tensor", "--format", "jsonl")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["run"], line["outcome"]) for line in lines] == [("bad", "issue-found"), ("sound", "clean")]
    assert {line["schema_version"] for line in lines} == {1}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(("bad", "--only", "exploding-tensr"), 2, "Did you mean 'exploding-tensor'?", id="rule"),
        pytest.param(("bad", "--only", "mine.py:Larg"), 2, "Did you mean 'Large'?", id="class"),
        pytest.param(("bad", "--only", "mine.py:Large:limt=1"), 2, "Did you mean 'limit'?", id="own-parameter"),
        pytest.param(("bad", "--only", "nowhere.py:Large"), 2, "nowhere.py", id="file"),
        pytest.param(("bad", "--set", "limit=1"), 2, "needs one --rule", id="set-of-none"),
        pytest.param(("bad", "--rules-file", "nowhere.json"), 2, "nowhere.json", id="rules-file"),
        pytest.param(("nowhere",), 3, "There is no run 'nowhere'", id="run"),
        pytest.param(("bad", "nowhere"), 3, "There is no run 'nowhere'", id="one-of-two"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], code: int, said: str) -> None:
    result = rules_run(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
