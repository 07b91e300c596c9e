"""The summary of a run in a list, stored with a run that has ended, so that a list of hundreds reads little."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from trackside import __version__
from trackside.contracts.errors import ConfigurationError, TracksideError
from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.issue_group import IssueGroup, recovered_groups, standing_issues
from trackside.contracts.run.cluster_job import NO_JOB, ClusterJob
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.stored_fields import (
    COUNT,
    FINITE,
    INTEGER,
    TEXT,
    TEXTS,
    Kind,
    choice,
    document_of,
    nullable,
    record,
    record_of,
    stored,
)
from trackside.contracts.verdict import Severity, Verdict
from trackside.runs.first_failure import FirstFailure, first_failure
from trackside.runs.judged_part import JudgedPart, judging_command
from trackside.runs.recorded_run import RecordedRun, read_run, state_in_words
from trackside.runs.run_folder import RunState, read_record
from trackside.runs.run_stamp import files_of
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

SUMMARY_FILE = "summary.json"
_FORMAT = "1"  # of `SUMMARY_FILE`

_NAMES = Kind({"type": "array"}, lambda fields, name, absent: frozenset(fields.texts(name, absent)), sorted)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run in a list.

    started_at, ended_at   seconds since the epoch; None if not recorded, as for runs in S3
    status       exit code of its command, or -n for signal n; None while it runs, and if it is not recorded
    issues       number of issues that stand
    recovered    number of problems that recovered
    fired        rules with an issue, standing or recovered: by the name of its configuration and by its id
    standing     names of the rules whose issues stand, each problem's lead first
    worst_severity   the severity by which it fails: of its issues, or critical if it was ruined without one
    first        what went wrong first, of the issues that stand; None if nothing did
    failed_at    the moment at which the first critical issue that stands was found, in seconds since the epoch
    judged       the part of it that rules have judged: only then is "no issue" good news
    job          the job of a scheduler that it is part of; `NO_JOB` for none
    """

    name: str = field(metadata=stored(TEXT))
    uri: str = field(metadata=stored(TEXT))
    state: RunState = field(metadata=stored(choice(RunState)))
    status: int | None = field(metadata=stored(nullable(INTEGER)))
    started_at: float | None = field(metadata=stored(nullable(FINITE)))
    ended_at: float | None = field(metadata=stored(nullable(FINITE)))
    command: tuple[str, ...] = field(metadata=stored(TEXTS))
    steps_saved: int = field(metadata=stored(COUNT))
    issues: int = field(metadata=stored(COUNT))
    recovered: int = field(metadata=stored(COUNT))
    fired: frozenset[str] = field(metadata=stored(_NAMES))
    standing: tuple[str, ...] = field(metadata=stored(TEXTS))
    worst_severity: Severity | None = field(metadata=stored(nullable(choice(Severity))))
    first: FirstFailure | None = field(metadata=stored(nullable(record(FirstFailure))))
    failed_at: float | None = field(metadata=stored(nullable(FINITE)))
    judged: JudgedPart = field(metadata=stored(record(JudgedPart)))
    job: ClusterJob = field(default=NO_JOB, metadata=stored(record(ClusterJob), optional=True))

    @property
    def state_in_words(self) -> str:
        """The state, with the signal that the training died of: `failed (SIGSEGV)`."""
        return state_in_words(self.state, self.status)


def summarize(uri: str, *, stores: Callable[[str], Store] = open_store) -> RunSummary:
    """Return the summary of a run; the one that is stored with it, if nothing has changed since.

    Args:
        uri: Its folder or s3:// prefix.
        stores: Opens the store at a location.

    Errors: those of `read_run`.
    """
    known = None if "://" in uri else stored_summary(Path(uri))
    return known or summary_of(read_run(uri, stores=stores))


def store_summary(folder: Path) -> None:
    """Store the summary of a run that has ended beside its record. A failure is logged only: it can be made again.

    Args:
        folder: The folder of the run, to which nothing else is written any more. Without an end nothing is stored.
    """
    record = read_record(folder)
    if record is None or record.ended_at is None:
        return
    try:
        document = {"version": _version(), "files": files_of(folder), **document_of(summarize(str(folder)))}
        partial = folder / f"{SUMMARY_FILE}.partial"
        partial.write_text(to_json(document), encoding="utf-8")
        partial.replace(folder / SUMMARY_FILE)
    except (OSError, TracksideError) as error:
        _logger.debug("The summary of the run is not stored", exc_info=error)


def stored_summary(folder: Path) -> RunSummary | None:
    """Return the summary that is stored with a run; None without one, and for a run that has changed since.

    Args:
        folder: The folder of the run.
    """
    try:
        fields = Fields(parse_json((folder / SUMMARY_FILE).read_bytes(), subject=SUMMARY_FILE), where="")
        if fields.mapping("version", {}) != _version() or fields.mapping("files", {}) != files_of(folder):
            return None
        found = record_of(RunSummary, fields)
        fields.finish(subject=SUMMARY_FILE)
    except (OSError, ConfigurationError):
        return None
    run = RunLocation(str(folder))  # which may have been moved
    judged = replace(found.judged, command=judging_command(run.uri) if found.judged.command else "")
    return replace(found, name=run.name, uri=run.uri, judged=judged)


def _version() -> dict[str, str]:
    """Return what must be the same for words and counts to be those of today."""
    return {"trackside": __version__, "format": _FORMAT}


def summary_of(recorded: RecordedRun) -> RunSummary:
    """Return the summary of a run that was read."""
    uri, groups = recorded.location.uri, recorded.groups
    record = recorded.record
    return RunSummary(
        name=recorded.location.name,
        uri=uri,
        state=recorded.state,
        status=record.status if record else None,
        started_at=record.started_at if record else None,
        ended_at=record.ended_at if record else None,
        command=record.command if record else (),
        steps_saved=len(recorded.steps),
        issues=len(standing_issues(recorded.verdicts)),
        recovered=len(recovered_groups(groups)),
        fired=frozenset(
            name for group in groups for issue in group.issues for name in (issue.configuration_name, issue.rule_id)
        ),
        standing=tuple(dict.fromkeys(issue.configuration_name for issue in _leads_first(groups))),
        worst_severity=recorded.worst_severity,
        first=first_failure(groups),
        failed_at=min(
            (one.detected_at for group in groups for one in group.standing if one.severity is Severity.CRITICAL),
            default=None,
        ),
        judged=recorded.judged,
        job=record.job if record else NO_JOB,
    )


def _leads_first(groups: Sequence[IssueGroup]) -> Iterator[Verdict]:
    for group in groups:
        yield from (group.lead, *group.standing) if group.standing else ()
