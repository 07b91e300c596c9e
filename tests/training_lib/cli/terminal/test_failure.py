from __future__ import annotations

import io

import pytest

from trackside.cli.terminal.failure import exit_code_of, explain
from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    KeyNotFoundError,
    LocationNotFoundError,
    Problem,
    RecordError,
    RuleEvaluationError,
    RunNotFoundError,
    StorageUnavailableError,
)

ONE = ConfigurationError([Problem("--rule x", "Unknown rule 'x'.", "Did you mean 'y'?")], subject="The command line")
TWO = ConfigurationError([Problem("a", "is wrong."), Problem("b", "is wrong.")])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(ONE, 2, id="configuration"),
        pytest.param(RunNotFoundError("There is no run."), 3, id="no-run"),
        pytest.param(KeyNotFoundError("No such key."), 3, id="no-key"),
        pytest.param(LocationNotFoundError("No such bucket."), 3, id="no-bucket"),
        pytest.param(RecordError("events/0", 7, "is damaged."), 3, id="damaged"),
        pytest.param(AccessDeniedError("Cannot read /root/x: permission denied."), 3, id="no-permission-here"),
        pytest.param(AccessDeniedError("Cannot read s3://bucket/x: access denied."), 4, id="no-permission-there"),
        pytest.param(StorageUnavailableError("S3 did not answer."), 4, id="outage"),
        pytest.param(RuleEvaluationError("The rule crashed."), 5, id="rule"),
        pytest.param(ZeroDivisionError("division by zero"), 70, id="our-mistake"),
    ],
)
def test_every_kind_of_error_has_its_code_and_says_what_to_do(error: Exception, code: int) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    explain(error, verbose=False, where=stream)
    stream.seek(0)
    lines = stream.read().splitlines()
    assert exit_code_of(error) == code
    assert lines[0].startswith("Error: ")
    assert lines[-1].startswith("  Try: ")
    assert "Traceback" not in "\n".join(lines)


def said(error: Exception, *, verbose: bool = False) -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    explain(error, verbose=verbose, where=stream)
    stream.seek(0)
    return stream.read()


def test_one_problem_is_what_where_and_what_to_do() -> None:
    assert said(ONE) == ("Error: The command line: Unknown rule 'x'.\n  Where: --rule x\n  Try: Did you mean 'y'?\n")


def test_several_problems_are_all_listed() -> None:
    assert said(TWO) == (
        "Error: The configuration has 2 problems:\n  - a: is wrong.\n  - b: is wrong.\n  Try: trackside --help\n"
    )


def test_the_traceback_comes_with_verbose_only() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018 - the traceback is wanted
    assert "test_failure.py" in said(caught.value, verbose=True)
    assert "report the bug" in said(caught.value)


def test_an_error_that_quotes_a_hostile_name_is_harmless() -> None:
    assert "\x1b" not in said(RunNotFoundError("There is no run '\x1b[2J'."))


def test_without_stderr_nothing_fails() -> None:
    explain(ONE, verbose=True, where=None)
