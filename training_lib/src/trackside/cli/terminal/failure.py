"""Errors as a user reads them: what, why or where, what to do; and the exit code of each kind."""

from __future__ import annotations

import traceback
from typing import TextIO

from trackside.cli.terminal.text import printable
from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    RuleEvaluationError,
    StorageUnavailableError,
    TracksideError,
)

FINDINGS = 1
USAGE = 2
NOT_FOUND = 3
REMOTE = 4
RULE_CRASHED = 5
INTERNAL = 70
INTERRUPTED = 130
READER_GONE = 141  # 128 + SIGPIPE, as of any program whose reader has gone

_ADVICE = {
    USAGE: "trackside --help",
    NOT_FOUND: "trackside runs   (lists the runs of this folder)",
    REMOTE: "check the network, the credentials and the permissions, then try again",
    RULE_CRASHED: "run the command again with -v and report the rule",
}


def exit_code_of(error: BaseException) -> int:
    """The exit code that tells a script what kind of error this was."""
    if isinstance(error, ConfigurationError):
        return USAGE
    if isinstance(error, StorageUnavailableError) or (isinstance(error, AccessDeniedError) and "s3://" in str(error)):
        return REMOTE
    if isinstance(error, RuleEvaluationError):
        return RULE_CRASHED
    return NOT_FOUND if isinstance(error, TracksideError) else INTERNAL


def explain(error: BaseException, *, verbose: bool, where: TextIO | None) -> None:
    """Writes the error to `where`; with `verbose` the traceback goes before it."""
    if where is None:
        return
    if verbose:
        where.write("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    encoding = where.encoding or "utf-8"
    where.writelines(f"{printable(line, encoding=encoding)}\n" for line in _lines(error))
    where.flush()


def _lines(error: BaseException) -> list[str]:
    if isinstance(error, ConfigurationError):
        return _configuration_lines(error)
    code = exit_code_of(error)
    if code == INTERNAL:
        return [
            f"Error: Trackside made a mistake: {type(error).__name__}: {error}",
            "  Why: this should not happen, whatever was asked.",
            "  Try: the same with -v, and report the bug with what it prints.",
        ]
    what, _, why = str(error).partition(". ")
    reason = [f"  Why: {why}"] if why else []
    return [f"Error: {what.rstrip('.')}.", *reason, f"  Try: {_ADVICE[code]}"]


def _configuration_lines(error: ConfigurationError) -> list[str]:
    heading = str(error).partition("\n")[0]
    if len(error.problems) == 1:
        problem = error.problems[0]
        subject = heading.removesuffix(" has 1 problem:")
        return [
            f"Error: {subject}: {problem.what}",
            f"  Where: {problem.where}",
            f"  Try: {problem.fix or _ADVICE[USAGE]}",
        ]
    problems = [f"  - {problem}" for problem in error.problems]
    return [f"Error: {heading}", *problems, f"  Try: {_ADVICE[USAGE]}"]
