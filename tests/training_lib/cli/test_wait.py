from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.for_each import for_each
from tests.training_lib.cli.gradient_runs import write_run
from tests.training_lib.local.verdicts import issue, no_issue
from trackside.cli import main
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.verdict import Severity, Verdict
from trackside.runs.run_folder import RunRecord, held, write_record
from trackside.storage.local import LocalStore

RULES = RuleRequest((RuleConfiguration("vanishing-gradient"),))
JUDGED = (no_issue("vanishing-gradient"),)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(name: str, *verdicts: Verdict, status: int | None = 0) -> Path:
    """A run whose command ended with `status`, or has not ended for None."""
    write_run(name, [1.0] * 3, ended=status is not None)
    folder = Path(f".trackside/runs/{name}")
    store = LocalStore(folder)
    store.put("rule-request.json", RULES.to_json().encode())
    store.put("rule-output/verdicts.jsonl", "".join(f"{each.to_json()}\n" for each in verdicts).encode())
    write_record(folder, RunRecord(("python", "train.py"), 1.0, None if status is None else 2.0, status))
    return folder


def wait(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["wait", *arguments])


ENDS: dict[str, tuple[tuple[Verdict, ...], int, int]] = {
    "well": (JUDGED, 0, 0),
    "an issue": ((issue(),), 0, 1),
    "an issue of a training that failed": ((issue(),), 1, 1),
    "information": ((issue(severity=Severity.INFO),), 0, 0),
    "not judged": ((), 0, 8),
    "failed": (JUDGED, 3, 10),
    "killed": (JUDGED, -9, 10),
}


@for_each({name: (name, *case) for name, case in ENDS.items()})
def test_the_exit_code_names_the_end(name: str, verdicts: tuple[Verdict, ...], status: int, code: int) -> None:
    run(name, *verdicts, status=status)
    for until in ("issue", "end"):
        result = wait(name, "--until", until)
        assert (result.exit_code, result.stderr) == (code, "")
        assert result.stdout.startswith(f"{name}: ")


def test_the_time_is_over_first() -> None:
    with held(run("goes-on", *JUDGED, status=None)):
        result = wait("goes-on", "--timeout", "0")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (9, "goes-on: timeout; running; issues: none so far")


def test_an_issue_while_it_trains_and_not_twice() -> None:
    with held(run("goes-on", no_issue(), issue(), status=None)):
        first = json.loads(wait("goes-on", "--json", "--timeout", "0").stdout)
        assert (first["ended_by"], first["cursor"]) == ("issue", 2)
        assert [problem["rule"] for problem in first["problems"]] == ["vanishing-gradient"]
        again = wait("goes-on", "--json", "--timeout", "0", "--since", str(first["cursor"]))
    assert (again.exit_code, json.loads(again.stdout)["problems"]) == (9, [])


def test_numbers_that_are_not_finite_are_json() -> None:
    lead = replace(issue().findings[0], observed=math.nan)
    run("bad", issue(findings=(lead,)))
    assert json.loads(wait("bad", "--json").stdout, parse_constant=pytest.fail)["problems"]


def test_a_run_that_does_not_appear_is_named() -> None:
    result = wait("no-such-run", "--timeout", "0")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "no-such-run" in result.stderr
