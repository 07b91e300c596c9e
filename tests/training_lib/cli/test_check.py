"""Mistakes that `trackside check` refuses before anything starts. See tests/journeys/test_check.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackside.cli import main

TOUCH = (sys.executable, "-c", "open('it-ran', 'w')")


def check(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["--steps", "0", "--", *TOUCH], "not in the range", id="no-step"),
        pytest.param(["--seconds", "0", "--", *TOUCH], "not in the range", id="no-time"),
        pytest.param(["--probe-seconds", "-1", "--", *TOUCH], "not in the range", id="negative-time"),
        pytest.param(["--limit", "0", "--", *TOUCH], "not in the range", id="no-limit"),
        pytest.param(["--json", "--format", "table", "--", *TOUCH], "do not go together", id="two-formats"),
        pytest.param(["--no-such-option", "--", *TOUCH], "There is no option", id="unknown-option"),
        pytest.param(["--out", "taken", "--", *TOUCH], "is not empty", id="folder-taken"),
        pytest.param(["--", "no-such-program"], "there is no such program on PATH", id="no-program"),
        pytest.param([], "COMMAND... is missing", id="no-command"),
    ],
)
def test_a_mistake_is_refused_before_the_script_starts(arguments: list[str], message: str) -> None:
    Path("taken").mkdir()
    Path("taken/file").touch()
    result = check(*arguments)
    assert (result.exit_code, message in result.output.replace("\n", " ")) == (2, True), result.output
    assert not Path("it-ran").exists()


def test_a_command_without_a_training_is_not_judged() -> None:
    result = check("--json", "--junit", "check.xml", "--", *TOUCH)
    document = json.loads(result.stdout)
    outcomes = {probe["probe"]: probe["outcome"] for probe in document["probes"]}
    assert (result.exit_code, document["exit_code"], document["steps"]) == (8, 8, 0)
    assert (document["judged"], "captured" in document["not_judged"]) == (False, True), document["not_judged"]
    assert f'<error message="{document["not_judged"]}' in Path("check.xml").read_text()
    assert outcomes == {
        "script-runs": "could not try",
        "loss-at-the-start": "could not try",
        "ranks-agree": "does not apply",
    }


def test_whoever_reads_a_failed_rehearsal_later_reads_of_its_fault() -> None:
    failed = check("--json", "--out", "rehearsed", "--", sys.executable, "-c", "import sys; sys.exit(3)")
    assert failed.exit_code == 1
    result = CliRunner().invoke(main, ["findings", "rehearsed", "--fail-on", "critical"])
    assert (result.exit_code, "the rehearsal found 1 fault: script-runs" in result.stderr) == (1, True), result.stderr


def test_a_script_alone_is_run_by_python() -> None:
    Path("train.py").write_text("import sys; open('it-ran', 'w').write(' '.join(sys.argv))")
    assert check("--json", "train.py", "--epochs", "1").exit_code == 8
    assert Path("it-ran").read_text() == "train.py --epochs 1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["./program.py"], "", id="a program of its own"),
        pytest.param(["progran.py"], "there is no such file. Try: Did you mean 'program.py'?", id="no such script"),
        pytest.param(["data.txt"], "is a file, not a program", id="no script"),
    ],
)
def test_any_other_command_is_run_as_it_is(words: list[str], message: str) -> None:
    Path("program.py").write_text("#!/bin/sh\ntouch it-ran\n")
    Path("program.py").chmod(0o755)
    Path("data.txt").touch()
    result = check("--json", *words)
    assert message in " ".join(result.output.split()).replace(" Where: progran.py", "")
    assert Path("it-ran").exists() is not bool(message)
