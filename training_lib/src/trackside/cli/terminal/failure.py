"""Errors for users: problem, reason or place, cure; and the exit code of each kind."""

from __future__ import annotations

import re
import shutil
import textwrap
import traceback
from collections.abc import Iterable, Iterator
from typing import TextIO

from trackside.cli.terminal.text import printable
from trackside.contracts.errors import (
    AccessDeniedError,
    ConfigurationError,
    LocationNotFoundError,
    RecordError,
    RuleEvaluationError,
    RunNotFoundError,
    StorageError,
    StorageUnavailableError,
    TensorNotSavedError,
    TracksideError,
)
from trackside.contracts.run import exit_code

FINDINGS = 1
USAGE = 2
NOT_FOUND = 3
REMOTE = 4
RULE_CRASHED = 5
NOT_COMPARABLE = 6
UNDECIDED = 7
NOT_JUDGED = exit_code.NOT_JUDGED
TIME_IS_OVER = exit_code.TIME_IS_OVER
ENDED_BADLY = exit_code.ENDED_BADLY
INTERNAL = 70
INTERRUPTED = 130
READER_GONE = 141  # 128 + SIGPIPE, as of any program whose reader has gone

MOST_COLUMNS = 100
_EXAMPLE = "s3://bucket/prefix"  # in messages about places of any kind
_VERBS = frozenset({"is", "was", "must", "has", "cannot", "names", "holds", "needs", "lacks", "stands", "failed"})
_WHOLE = ("text", "the whole of it")  # places that are the subject itself
_LOCATION = re.compile(r"s3://[A-Za-z0-9]")
FEWEST_COLUMNS = 40

_ADVICE = {
    USAGE: "trackside --help",
    NOT_FOUND: "trackside doctor   (checks the installation)",
    REMOTE: "again in a while; check the network, and AWS_ENDPOINT_URL if it is set",
    RULE_CRASHED: "run the command again with -v and report the rule",
}


# Of which kind of error, in S3 or here (None: both): the first that fits holds.
_ADVICE_FOR: tuple[tuple[type[TracksideError], bool | None, str], ...] = (
    (TensorNotSavedError, None, "trackside tensors RUN   (lists the tensors of a run, and their steps)"),
    (RecordError, None, "trackside doctor RUN --all-files   (lists the damaged files)"),
    (AccessDeniedError, True, "aws sts get-caller-identity   (shows whose credentials are used)"),
    (AccessDeniedError, False, "ls -ld PATH   (shows who may read it)"),
    (LocationNotFoundError, True, "aws s3 ls   (lists the buckets of these credentials)"),
    (RunNotFoundError, False, "trackside runs   (lists the runs of this folder)"),
    (StorageUnavailableError, None, _ADVICE[REMOTE]),
    (StorageError, False, "ls -ld PATH   (shows who may read and write it); df -h PATH   (shows its free space)"),
    (RunNotFoundError, True, "trackside runs s3://BUCKET/PREFIX   (lists the runs right below a prefix)"),
)


def exit_code_of(error: BaseException) -> int:
    """Return the exit code for this kind of error."""
    if isinstance(error, ConfigurationError):
        return USAGE
    if isinstance(error, StorageUnavailableError) or (isinstance(error, AccessDeniedError) and _is_remote(error)):
        return REMOTE
    if isinstance(error, RuleEvaluationError):
        return RULE_CRASHED
    return NOT_FOUND if isinstance(error, TracksideError) else INTERNAL


def explain(error: BaseException, *, verbose: bool, where: TextIO | None) -> None:
    """Write the error to `where`, after its traceback if `verbose`."""
    if where is not None and verbose:
        where.write("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    write_lines(_lines(error), where)


def write_lines(lines: Iterable[str], where: TextIO | None) -> None:
    """Write text for people, made safe to print, and wrapped on a terminal.

    `where` is None in a program without stderr.
    """
    if where is None:
        return
    encoding = where.encoding or "utf-8"
    for line in lines:
        where.writelines(f"{part}\n" for part in _fitted(printable(line, encoding=encoding), where))
    where.flush()


def _lines(error: BaseException) -> list[str]:
    if isinstance(error, ConfigurationError):
        return _configuration_lines(error)
    code = exit_code_of(error)
    if code == INTERNAL:
        return [
            f"Error: Trackside made a mistake: {type(error).__name__}: {error}",
            "  Why: this is a fault in Trackside.",
            "  Try: the same with -v, and report the bug with its output.",
        ]
    advice = _advice(error, code)
    what, _, why = str(error).removesuffix(advice).strip().partition(". ")
    reason = [f"  Why: {why}"] if why else []
    return [f"Error: {what.rstrip('.')}.", *reason, f"  Try: {advice}"]


def _advice(error: BaseException, code: int) -> str:
    """Return a cure, or a command that finds one."""
    if isinstance(error, TracksideError) and error.advice:
        return error.advice
    found = (
        text
        for kind, is_remote, text in _ADVICE_FOR
        if isinstance(error, kind) and is_remote in {None, _is_remote(error)}
    )
    return next(found, _ADVICE[code])


def _is_remote(error: BaseException) -> bool:
    """Return True if the error is about S3, or about a call of AWS (`trackside.cloud.calls`)."""
    return bool(_LOCATION.search(str(error).replace(_EXAMPLE, ""))) or str(error).startswith("AWS ")


def _fitted(line: str, where: TextIO) -> Iterator[str]:
    """Yield the line, on a terminal wrapped under the text of its first part; elsewhere in one piece, for `grep`."""
    if not where.isatty():
        yield line
        return
    width = max(FEWEST_COLUMNS, min(shutil.get_terminal_size().columns, MOST_COLUMNS))
    indent = " " * (line.index(": ") + 2 if line.startswith(("Error: ", "  Why: ", "  Where: ", "  Try: ")) else 4)
    yield from textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )


def _configuration_lines(error: ConfigurationError) -> list[str]:
    heading = str(error).partition("\n")[0]
    if len(error.problems) == 1:
        problem = error.problems[0]
        subject = heading.removesuffix(" has 1 problem:")
        advice = f"  Try: {problem.fix or _ADVICE[USAGE]}"
        if (
            problem.what.partition(" ")[0] in _VERBS and problem.where not in _WHOLE
        ):  # then the place is the subject of the sentence
            return [f"Error: {problem.where} {problem.what}", f"  Where: {subject}", advice]
        return [f"Error: {subject}: {problem.what}", f"  Where: {problem.where}", advice]
    problems = [f"  - {problem}" for problem in error.problems]
    return [f"Error: {heading}", *problems, f"  Try: {_ADVICE[USAGE]}"]
