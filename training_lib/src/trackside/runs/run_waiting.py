"""Waiting for a run: until a new issue stands, or until the run has ended and is judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from trackside.contracts.errors import RunNotFoundError
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run_layout import RULE_OUTPUT, VERDICTS_KEY
from trackside.contracts.verdict import Severity
from trackside.runs.recorded_run import RecordedRun, read_run, state_of
from trackside.runs.run_folder import RunState
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

LOCAL_SECONDS, REMOTE_SECONDS = 0.3, 5.0  # between two looks
WELL = frozenset({RunState.FINISHED, RunState.ENDED})
_GROWS = frozenset({RunState.RUNNING, RunState.OPEN})


class EndOfWait(str, Enum):
    """The reason why a wait is over."""

    ISSUE = "issue"
    END = "end"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Waited:
    """The end of a wait.

    ended_by  the reason
    recorded  the run at that moment; None if it did not appear in time
    problems  problems that stand at least as severe as asked for, with a verdict after the cursor
    cursor    number of verdicts so far, from which the next wait goes on
    """

    ended_by: EndOfWait
    recorded: RecordedRun | None
    problems: tuple[IssueGroup, ...] = ()
    cursor: int = 0

    @property
    def ended_well(self) -> bool:
        """True if the run has ended by itself, and its command did not fail."""
        return self.recorded is not None and self.recorded.state in WELL


@dataclass(frozen=True)
class Wait:
    """The end that is waited for.

    until_issue  True: an issue ends the wait, and so does the end of the run; False: the end alone
    seconds      the longest time
    least        severity from which an issue counts
    since        number of verdicts that are known already
    """

    until_issue: bool
    seconds: float
    least: Severity = Severity.WARNING
    since: int = 0


def wait_for(
    find: Callable[[], str],
    wait: Wait,
    *,
    stores: Callable[[str], Store] = open_store,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Waited:
    """Wait for a run, which may not exist yet.

    Args:
        find: Returns the location of the run, or raises `RunNotFoundError` while it does not exist.
        wait: The end that is waited for.
        stores: Opens the store at a location.
        monotonic: Returns seconds.
        sleep: Waits so many seconds.

    Raises:
        StorageError: The run cannot be read.
    """
    until, looked, seen = monotonic() + wait.seconds, None, Waited(EndOfWait.TIMEOUT, None, cursor=wait.since)
    while True:
        uri = _found(find)
        mark = _mark(uri) if uri is not None else None
        if uri is not None and (mark is None or mark != looked):
            looked = mark
            seen = _look(uri, wait, stores) or seen
            if seen.ended_by is not EndOfWait.TIMEOUT:
                return seen
        left = until - monotonic()
        if left <= 0:
            return seen
        sleep(min(left, REMOTE_SECONDS if uri is not None and "://" in uri else LOCAL_SECONDS))


def new_problems(recorded: RecordedRun, *, least: Severity, since: int) -> tuple[IssueGroup, ...]:
    """Return the problems that stand at least so severe, with a verdict after the cursor.

    Args:
        recorded: The run.
        least: Severity from which an issue counts.
        since: Number of verdicts that are known already.
    """
    news = {verdict.verdict_id for verdict in recorded.verdicts[since:]}
    return tuple(
        group
        for group in recorded.groups
        if any(issue.severity.rank >= least.rank and issue.verdict_id in news for issue in group.standing)
    )


def _found(find: Callable[[], str]) -> str | None:
    try:
        return find()
    except RunNotFoundError:
        return None


def _look(uri: str, wait: Wait, stores: Callable[[str], Store]) -> Waited | None:
    """Return the state of the wait; None without a run."""
    try:
        recorded = read_run(uri, stores=stores)
    except RunNotFoundError:
        return None
    cursor, problems = len(recorded.verdicts), new_problems(recorded, least=wait.least, since=wait.since)
    if problems and wait.until_issue:
        return Waited(EndOfWait.ISSUE, recorded, problems, cursor)
    ended_by = EndOfWait.TIMEOUT if recorded.state in _GROWS else EndOfWait.END
    return Waited(ended_by, recorded, problems, cursor)


def _mark(uri: str) -> tuple[object, ...] | None:
    """Return a mark that changes with news of a run on this machine; None in S3, where a look is the only way."""
    if "://" in uri:
        return None
    verdicts = Path(uri, RULE_OUTPUT, VERDICTS_KEY)
    try:
        size = verdicts.stat().st_size
    except OSError:
        size = -1
    others = sorted(verdicts.parent.glob(f"*/{VERDICTS_KEY}"))
    return state_of(uri, has_ended=False)[0], size, *(each.stat().st_size for each in others)
