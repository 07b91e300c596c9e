from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.cli import main
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.exit_code import NOT_JUDGED
from trackside.contracts.verdict import NOTHING_TO_JUDGE, Severity, Verdict

REQUEST = RuleRequest((RuleConfiguration("vanishing-gradient"), RuleConfiguration("exploding-tensor")))


def write_run(*verdicts: Verdict, has_ended: bool = True, folder: str = ".trackside/runs/a") -> None:
    run = Path(folder)
    (run / "rule-output").mkdir(parents=True)
    (run / "debug-output" / "index" / "000000000").mkdir(parents=True)
    (run / "debug-output" / "index" / "000000000" / "000000000020_worker_0.json").write_text("{}")
    (run / "rule-request.json").write_text(REQUEST.to_json())
    (run / "rule-output" / "verdicts.jsonl").write_text("".join(f"{verdict.to_json()}\n" for verdict in verdicts))
    if has_ended:
        (run / "debug-output" / "training_job_end.ts").touch()


def findings(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["findings", *arguments])


@pytest.mark.parametrize("name", ["a", "latest", ".trackside/runs/a"])
def test_issues_are_cards_and_every_rule_has_a_state(name: str) -> None:
    write_run(issue(), no_issue())
    result = findings(name)
    assert result.exit_code == 0
    assert "✖ CRITICAL  vanishing-gradient" in result.stdout
    assert "✔ OK     exploding-tensor" in result.stdout
    assert "a: finished, 1 step saved" in result.stdout
    assert result.stderr == ""


def test_a_clean_run_has_no_card() -> None:
    write_run(no_issue(), no_issue("vanishing-gradient"))
    assert "CRITICAL" not in findings("a").stdout


@pytest.mark.parametrize(
    ("has_ended", "state"),
    [pytest.param(True, "Not enough data", id="ended"), pytest.param(False, "Running", id="running")],
)
def test_a_run_without_verdicts(has_ended: bool, state: str) -> None:
    write_run(has_ended=has_ended)
    result = findings("a")
    assert result.exit_code == 0
    assert result.stdout.count(state) == 2


def test_json_is_one_document_with_a_version() -> None:
    write_run(no_issue(), issue("vanishing-gradient", severity=Severity.WARNING), issue("other"))
    document = json.loads(findings("a", "--format", "json").stdout)
    assert (document["schema_version"], document["has_ended"], document["steps_saved"]) == (1, True, 1)
    assert [rule["state"] for rule in document["rules"]] == ["Issue", "OK", "Issue"]
    assert [found["rule"] for found in document["findings"]] == ["other", "vanishing-gradient"]  # gravest first
    assert document["findings"][0]["findings"][0]["subject"] == "gradient/MLP_layers.0.weight"


def test_a_problem_in_json_says_what_where_and_what_to_do() -> None:
    write_run(issue(what_to_do=("Replace sigmoid by ReLU.",)))
    document = json.loads(findings("a", "--json").stdout)
    (problem,) = document["problems"]
    assert (problem["message"], problem["since_step"]) == (issue().message, 4)
    assert problem["what_to_do"][-1] == "Replace sigmoid by ReLU."
    assert {"place", "source"} <= problem.keys()
    assert document["folder"] is None  # where the script lay is not known
    assert document["judged"]["with_issue"] == 1


@pytest.mark.parametrize(
    ("reasons", "shown"),
    [
        pytest.param(["no gradients"] * 6, "no gradients", id="one-reason"),
        pytest.param(["no gradients"] * 5 + ["no ReLU"], "5 of them: no gradients; 1 for another reason", id="most"),
        pytest.param(list("abcdef"), "each for its own reason", id="many-reasons"),
    ],
)
def test_rules_that_do_not_apply_share_a_line(reasons: list[str], shown: str) -> None:
    idle = [no_issue(f"rule-{n}", message=f"{NOTHING_TO_JUDGE}{reason}.") for n, reason in enumerate(reasons)]
    write_run(no_issue(), *idle)
    found = " ".join(findings("a").stdout.split())
    assert found.count("Not applicable") == 1
    assert "6 rules" in found
    assert shown in found


def test_json_lines_are_a_verdict_each_and_none_twice() -> None:
    write_run(issue(), no_issue(), issue())
    lines = [json.loads(line) for line in findings("a", "--format", "jsonl").stdout.splitlines()]
    assert [line["rule"] for line in lines] == ["vanishing-gradient", "exploding-tensor"]
    assert {line["schema_version"] for line in lines} == {1}


@pytest.mark.parametrize(
    ("severity", "fail_on", "exit_code"),
    [
        pytest.param(Severity.CRITICAL, "critical", 1, id="critical-at-critical"),
        pytest.param(Severity.WARNING, "warning", 1, id="warning-at-warning"),
        pytest.param(Severity.WARNING, "critical", 0, id="warning-at-critical"),
        pytest.param(Severity.CRITICAL, "never", 0, id="never"),
    ],
)
def test_a_script_can_fail_on_findings(severity: Severity, fail_on: str, exit_code: int) -> None:
    write_run(issue(severity=severity))
    assert findings("a", "--fail-on", fail_on).exit_code == exit_code


def test_a_run_that_is_not_there_exits_with_3_and_says_where_it_looked() -> None:
    result = findings("nowhere")
    assert result.exit_code == 3
    assert "There is no run 'nowhere'" in result.stderr
    assert result.stdout == ""


def test_an_unknown_scheme_is_a_usage_error() -> None:
    write_run(issue())
    assert findings("gs://bucket/run").exit_code in {2, 3}


def test_damaged_files_do_not_hide_the_rest() -> None:
    write_run(issue())
    Path(".trackside/runs/a/rule-request.json").write_text("{")
    with Path(".trackside/runs/a/rule-output/verdicts.jsonl").open("ab") as file:
        file.write(b"\xff half a li")
    result = findings("a")
    assert result.exit_code == 0
    assert "✖ Issue  vanishing-gradient" in result.stdout


def test_a_run_that_no_rule_has_judged_names_the_command_that_does() -> None:
    write_run()
    Path(".trackside/runs/a/rule-request.json").unlink()
    result = findings("a")
    assert result.exit_code == 0
    assert result.stderr == "trackside: not judged: no rule was asked; trackside rules run a\n"
    assert findings("a", "--fail-on", "critical").exit_code == NOT_JUDGED  # a gate is not green for want of a judge
    write_run(issue(), folder=".trackside/runs/b")
    assert findings("b").stderr == ""
