"""The card, reports and JSON of a finding with a place: the path as typed, the line itself, and the rule's code."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training_lib.local.verdicts import issue
from trackside.cli import main
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.run_layout import model_facts_key
from trackside.contracts.verdict import Verdict
from trackside.records.model_facts import encode_facts
from trackside.storage.local import LocalStore

RUN = Path(".trackside") / "runs" / "a"


def findings(*options: str) -> str:
    result = CliRunner().invoke(main, ["findings", "a", *options])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def placed(verdict: Verdict, place: str) -> Verdict:
    return replace(verdict, findings=tuple(replace(one, place=place) for one in verdict.findings))


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one run, in which a built-in rule and one of the user's found lines of src/train.py."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    script = tmp_path / "src" / "train.py"
    script.parent.mkdir()
    script.write_text("import torch\n\nloss.backward()   # [bold]\n")
    os.utime(script, (1, 1))
    facts = ModelFacts(program=ProgramFacts(script=str(script)))
    LocalStore(RUN / "debug-output").put(model_facts_key("worker_0"), encode_facts([facts]))
    verdicts = [placed(issue(), "train.py:3"), placed(issue("mine"), "gone.py:7")]
    (RUN / "rule-output").mkdir()
    (RUN / "rule-output" / "verdicts.jsonl").write_text("".join(f"{one.to_json()}\n" for one in verdicts))
    return tmp_path


def test_the_card_shows_path_line_and_code() -> None:
    lines = findings().splitlines()
    at = lines.index("line       src/train.py:3")
    assert lines[at + 1].strip() == "loss.backward()   # [bold]"
    assert any(line.startswith("more       TS117: trackside rules show vanishing-gradient") for line in lines)
    at = lines.index("line       gone.py:7")
    assert lines[at + 1].startswith("since")
    assert sum(line.startswith("more ") for line in lines) == 1  # a rule of the user's has no code and no page


def test_json_and_reports_hold_code_and_path() -> None:
    document = json.loads(findings("--json"))
    assert {one["rule"]: one.get("code") for one in document["findings"]} == {
        "vanishing-gradient": "TS117",
        "mine": None,
    }
    (run,) = json.loads(findings("--format", "sarif"))["runs"]
    places = [one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]]
    assert sorted(places) == ["gone.py", "src/train.py"]
    assert "::error file=src/train.py,line=3,title=TS117 vanishing-gradient (a)::" in findings("--format", "github")
    assert 'file="src/train.py" line="3"' in findings("--format", "junit")


def test_run_writes_the_reports_that_its_files_name() -> None:
    names = ["out.sarif", "out.xml", "out.json"]
    options = [word for name in names for word in ("--report", name)]
    result = CliRunner().invoke(main, ["run", "--only", "overfit", *options, "--", "true"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(Path("out.sarif").read_text())["runs"][0]["results"] == []
    assert 'name="overfit"' in Path("out.xml").read_text()
    assert [rule["name"] for rule in json.loads(Path("out.json").read_text())["rules"]] == ["overfit"]


def test_a_report_that_cannot_be_written_leaves_the_exit_code_and_says_so() -> None:
    command = ["sh", "-c", "mkdir gone.xml; exit 5"]
    result = CliRunner().invoke(main, ["run", "--only", "overfit", "--report", "gone.xml", "--", *command])
    assert result.exit_code == 5
    assert "trackside: The report gone.xml was not written: [Errno 21] Is a directory" in result.stderr
