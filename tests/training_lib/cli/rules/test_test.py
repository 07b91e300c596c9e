"""`trackside rules test`: what rules would have said about recorded runs; nothing is written."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.training_lib.cli.gradient_runs import write_run
from trackside.cli import main
from trackside.contracts.rule_catalogue import built_in_catalogue


def rules_test(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rules", "test", *arguments])


def test_the_table_says_what_when_and_what_it_would_have_saved() -> None:
    write_run("bad", [1.0, 1.0, math.nan, math.nan, math.nan])
    result = rules_test("bad", "--only", "exploding-tensor")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["run", "rule", "severity", "step", "since", "observed"]
    assert lines[1].split()[:5] == ["bad", "exploding-tensor", "critical", "20", "20"]
    assert lines[-1] == "bad: 1 issue by 1 rule; stopped at step 20, 20 of 41 steps spared (49%)."
    assert result.stderr == ""


def test_nothing_is_written_and_the_run_may_still_go_on() -> None:
    write_run("growing", [1.0, math.nan], ended=False)
    before = sorted(Path().rglob("*"))
    assert "stopped at step 10" in rules_test("latest", "--only", "exploding-tensor").stdout
    assert sorted(Path().rglob("*")) == before


def test_a_sound_run_has_no_table() -> None:
    write_run("sound", [1.0] * 5)
    result = rules_test("sound", "--only", "exploding-tensor", "--only", "vanishing-gradient")
    assert result.stdout == "sound: 0 issues by 2 rules; nothing would have stopped it in its 41 steps.\n"


def test_a_run_without_a_step_is_not_called_sound() -> None:
    Path(".trackside/runs/empty/debug-output").mkdir(parents=True)
    write_run("empty", [])
    assert rules_test("empty").stdout.splitlines()[-1] == "empty: holds no step."


def test_without_a_rule_all_usual_ones_judge() -> None:
    write_run("sound", [1.0] * 3)
    document = json.loads(rules_test("sound", "--json").stdout)
    assert set(document["runs"][0]["judged"]) == set(built_in_catalogue().usual)


@pytest.mark.parametrize(
    ("arguments", "issues"),
    [
        pytest.param(("--only", "vanishing-gradient:threshold=1e-3"), 1, id="in-the-rule"),
        pytest.param(("--only", "vanishing-gradient", "--set", "threshold=1e-3"), 1, id="set"),
        pytest.param(("--only", "vanishing-gradient:threshold=1e-9", "--set", "threshold=1e-3"), 1, id="set-counts"),
        pytest.param(("--only", "vanishing-gradient:threshold=1e-9"), 0, id="another"),
        pytest.param(("--only", "vanishing-gradient", "--set", "threshold=1e-9"), 0, id="set-another"),
        pytest.param(("--only", "exploding-tensor"), 0, id="another-rule"),
    ],
)
def test_parameters(arguments: tuple[str, ...], issues: int) -> None:
    write_run("small", [1e-5] * 6)
    document = json.loads(rules_test("small", *arguments, "--preset", "aws-docs", "--json").stdout)
    assert len(document["runs"][0]["findings"]) == issues


def test_a_preset_judges_with_the_rules_that_have_it() -> None:
    write_run("sound", [1.0] * 3)
    document = json.loads(rules_test("sound", "--preset", "aws-docs", "--json").stdout)
    judged = set(document["runs"][0]["judged"])
    assert "vanishing-gradient" in judged
    assert "gradients-not-cleared" not in judged


def test_json_has_a_version_and_every_number() -> None:
    write_run("bad", [1.0, math.nan, math.nan])
    write_run("sound", [1.0] * 3)
    document = json.loads(rules_test("bad", "sound", "--only", "exploding-tensor", "--format", "json").stdout)
    assert document["schema_version"] == 1
    bad, sound = document["runs"]
    assert {name: bad[name] for name in ("run", "last_step", "stop_step", "saved_steps", "judged")} == {
        "run": "bad",
        "last_step": 20,
        "stop_step": 10,
        "saved_steps": 10,
        "judged": {"exploding-tensor": 3},
    }
    assert [finding["rule"] for finding in bad["findings"]] == ["exploding-tensor"]
    assert (sound["stop_step"], sound["saved_steps"], sound["findings"]) == (None, 0, [])
    lines = rules_test("bad", "sound", "--only", "exploding-tensor", "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["run"] for line in lines] == ["bad", "sound"]
    assert {json.loads(line)["schema_version"] for line in lines} == {1}


def test_a_rule_of_ones_own() -> None:
    write_run("bad", [1.0, 7.0])
    Path("mine.py").write_text(
        "from trackside.contracts.verdict import Finding, Severity\n"
        "from trackside.rules.rule import Rule\n"
        "class Large(Rule):\n"
        "    'Something is large.'\n"
        "    rule_id = 'large'; watches = ('gradients',); save_interval = 10; severity = Severity.WARNING\n"
        "    since = '1'; what_to_do = ()\n"
        "    def check(self, window):\n"
        "        for name in window.tensors('gradients'):\n"
        "            value = float(window.value(name, worker='worker_0')[0])\n"
        "            if value > 5:\n"
        "                yield Finding(name, window.step, window.step, 'value', value, '>', 5.0)\n"
    )
    result = rules_test("bad", "--only", "mine.py:Large")
    assert result.exit_code == 0
    assert "value: 7, above the limit of 5" in result.stdout
    assert "1 issue by 1 rule; nothing would have stopped it" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(("sound", "--only", "vanishing-gradiant"), 2, "'vanishing-gradient'", id="unknown-rule"),
        pytest.param(("sound", "--set", "threshold=1"), 2, "needs one --rule", id="set-without-rule"),
        pytest.param(
            ("sound", "--only", "overfit", "--only", "dead-relu", "--set", "threshold=1"),
            2,
            "one --rule",
            id="set-of-two",
        ),
        pytest.param(("sound", "--only", "overfit", "--set", "x"), 2, "is not RULE.NAME=VALUE", id="no-value"),
        pytest.param(("sound", "--only", "vanishing-gradient:x"), 2, "is not NAME=VALUE", id="no-value-in-the-rule"),
        pytest.param(
            ("sound", "--only", "vanishing-gradient", "--set", "treshold=1"), 2, "'threshold'", id="unknown-parameter"
        ),
        pytest.param(
            ("sound", "--only", "wrong-mode", "--preset", "aws-sdk"), 2, "Amazon documents no such rule", id="no-preset"
        ),
        pytest.param(("sound", "--preset", "ours"), 2, "calibrated", id="unknown-preset"),
        pytest.param(("nowhere",), 3, "nowhere", id="unknown-run"),
        pytest.param((), 2, "RUN", id="no-run"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...], code: int, said: str) -> None:
    write_run("sound", [1.0])
    result = rules_test(*arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_the_table_fits_into_80_columns() -> None:
    write_run("a-run-with-a-name-that-goes-on-and-on-for-ever", [1.0, math.nan, math.nan])
    lines = rules_test("a-run-with-a-name-that-goes-on-and-on-for-ever", "--only", "exploding-tensor").stdout.split(
        "\n"
    )
    assert max(len(line) for line in lines[:-2]) <= 80


def test_a_crash_and_rules_that_could_not_answer_are_no_silence() -> None:
    write_run("sound", [1.0] * 3)
    Path("crashes.py").write_text(
        "from trackside.contracts.verdict import Severity\n"
        "from trackside.rules.rule import Rule\n"
        "class Large(Rule):\n"
        "    'Something is large.'\n"
        "    rule_id = 'large'; watches = ('gradients',); save_interval = 10; severity = Severity.WARNING\n"
        "    since = '1'; what_to_do = ()\n"
        "    def check(self, window):\n"
        "        raise KeyError('oh')\n"
    )
    result = rules_test("sound", "--only", "crashes.py:Large", "--only", "overfit", "--only", "exploding-tensor")
    assert result.exit_code == 5
    assert result.stdout.startswith("sound: 0 issues by 3 rules (Large crashed; 1 could not answer); nothing would")
    document = json.loads(rules_test("sound", "--only", "crashes.py:Large", "--json").stdout)
    assert document["runs"][0]["crashed"] == ["Large"]


def test_a_rules_file_serves_too() -> None:
    write_run("bad", [1.0, math.nan])
    Path("rules.json").write_text(json.dumps(["exploding-tensor", "vanishing-gradient"]))
    document = json.loads(rules_test("bad", "--rules-file", "rules.json", "--json").stdout)
    assert set(document["runs"][0]["judged"]) == {"exploding-tensor", "vanishing-gradient"}
