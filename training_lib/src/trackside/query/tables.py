"""All runs of a place as tables: runs, rules, findings and, where wanted, statistics. For SQL, and as Parquet by date.

The columns are documented in docs/query.md, which a test compares with `TABLES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

from trackside.contracts.action import Action
from trackside.contracts.errors import RunNotFoundError, StorageError, TracksideError
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Verdict
from trackside.exchange.statistic_tables import file_name
from trackside.extras import missing_extra
from trackside.local.recorded_run import RecordedRun, read_run, summary_of
from trackside.local.run_folder import RunRecord, read_record
from trackside.local.run_listing import runs_in, stores_in
from trackside.storage.store import Store
from trackside.trial.model_facts import ModelFactsReader
from trackside.trial.parallel import in_parallel
from trackside.trial.trial import open_trial

UNDATED = date(1970, 1, 1)  # of a run without a time: a folder of tensors that nothing judged

# Name of a column -> its type in Arrow. `run` and `date` join all tables.
TABLES: Mapping[str, Mapping[str, str]] = {
    "runs": {
        "run": "string",
        "date": "date32",
        "place": "string",
        "state": "string",
        "started_at": "timestamp",
        "ended_at": "timestamp",
        "seconds": "float64",
        "command": "string",
        "status": "int64",
        "stopped_by_trackside": "bool",
        "steps_saved": "int64",
        "issues": "int64",
        "worst": "string",
        "judged": "bool",
        "framework": "string",
        "framework_version": "string",
        "precision": "string",
        "processes": "int64",
        "parameters": "int64",
    },
    "rules": {
        "run": "string",
        "date": "date32",
        "rule": "string",
        "rule_id": "string",
        "code": "string",
        "state": "string",
        "detail": "string",
        "steps_judged": "int64",
    },
    "findings": {
        "run": "string",
        "date": "date32",
        "rule": "string",
        "rule_id": "string",
        "code": "string",
        "problem": "string",
        "severity": "string",
        "state": "string",
        "since_step": "int64",
        "step": "int64",
        "recovered_at": "int64",
        "probability": "float64",
        "cause": "string",
        "subject": "string",
        "affected": "int64",
        "message": "string",
        "wants_stop": "bool",
        "detected_at": "timestamp",
    },
}
STATISTICS = "statistics"  # the table of `trackside export --to parquet`, for all runs


@dataclass(frozen=True)
class RunTables:
    """Tables of runs.

    tables   by name, each a `pyarrow.Table`
    places   the location of each run by its name, as in the column `run`
    unread   the location of each run that cannot be read, and the error
    """

    tables: Mapping[str, Any]
    places: Mapping[str, str]
    unread: tuple[tuple[str, TracksideError], ...]


def run_tables(where: str | None = None) -> RunTables:
    """Return the tables of the runs right below a place, without their statistics.

    Args:
        where: A folder that holds runs, or `s3://bucket/prefix`; None: the runs of `trackside run`.

    Raises:
        ConfigurationError: pyarrow is not installed, or the place is itself a run.
        RunNotFoundError: There is no such folder.
        StorageError: The place cannot be listed.
    """
    arrow, stores = _arrow(), stores_in(where)
    found = runs_in(where)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    unread: list[tuple[str, TracksideError]] = []
    places: dict[str, str] = {}
    read = in_parallel(stores(found[0]), lambda uri: _rows_or_error(uri, stores), found) if found else []
    for uri, of_run in zip(found, read, strict=True):
        if isinstance(of_run, RunNotFoundError):
            continue  # another folder beside the runs
        if isinstance(of_run, TracksideError):
            unread.append((uri, of_run))
            continue
        places[uri.rstrip("/").rpartition("/")[2]] = uri
        for name, some in of_run.items():
            rows[name].extend(some)
    tables = {name: arrow.Table.from_pylist(rows[name], schema=schema(arrow, name)) for name in TABLES}
    return RunTables(tables, places, tuple(unread))


def schema(arrow: Any, table: str) -> Any:
    """Return the Arrow schema of one of `TABLES`. `arrow` is the module pyarrow."""
    kinds = {"timestamp": arrow.timestamp("us"), "bool": arrow.bool_(), "date32": arrow.date32()}
    return arrow.schema([(name, kinds.get(kind) or getattr(arrow, kind)()) for name, kind in TABLES[table].items()])


def write_run_tables(found: RunTables, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Write the tables as Parquet files, `<table>/date=YYYY-MM-DD/<table>-0.parquet`, and return the tables' folders.

    The layout is Hive's: DuckDB, Athena and pandas read `date` from it. The files of the same days are replaced, those
    of other days stay.

    Raises:
        StorageError: A file cannot be written.
    """
    dataset, arrow = import_module("pyarrow.dataset"), _arrow()
    by_date = dataset.partitioning(arrow.schema([("date", arrow.date32())]), flavor="hive")
    target, folders = Path(folder).expanduser(), []
    try:
        for name, table in found.tables.items():
            folders.append(target / name)
            dataset.write_dataset(
                table,
                target / name,
                format="parquet",
                partitioning=by_date,
                basename_template=f"{name}-{{i}}.parquet",
                existing_data_behavior="delete_matching",
            )
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(f"Cannot write {target}. {reason}.", advice="another folder") from error
    return tuple(folders)


def write_statistics(found: RunTables, folder: Path) -> Iterator[tuple[str, Path | TracksideError]]:
    """Write the statistics of each run into `folder`, and yield its name with the file, or why it has none."""
    from trackside.exchange.parquet import export_parquet

    for name, uri in found.places.items():
        path = folder / f"{file_name(name)}.parquet"
        try:
            export_parquet(open_trial(uri), path, run=name)
        except TracksideError as error:
            yield name, error
        else:
            yield name, path


def _arrow() -> Any:
    try:
        return import_module("pyarrow")
    except ImportError as missing:
        raise missing_extra("query") from missing


def _rows_or_error(uri: str, stores: Callable[[str], Store]) -> Mapping[str, Sequence[dict[str, Any]]] | TracksideError:
    try:
        return _rows(uri, stores)
    except TracksideError as error:
        return error


def _rows(uri: str, stores: Callable[[str], Store]) -> Mapping[str, Sequence[dict[str, Any]]]:
    recorded, name = read_run(uri, stores=stores), uri.rstrip("/").rpartition("/")[2]
    record = None if "://" in uri else read_record(Path(uri))
    common = {"run": name, "date": _date_of(recorded, record)}
    code_of = built_in_catalogue().code_of
    return {
        "runs": [{**common, **_run_row(recorded, record, _facts(uri, stores))}],
        "rules": [
            {
                **common,
                "rule": rule.name,
                "rule_id": rule.rule_id,
                "code": code_of(rule.rule_id),
                "state": rule.state.value,
                "detail": rule.detail,
                "steps_judged": rule.judged,
            }
            for rule in recorded.rules
        ],
        "findings": [
            {**common, "code": code_of(one.rule_id), **_finding_row(group, one)}
            for group in recorded.groups
            for one in group.issues
        ],
    }


def _run_row(recorded: RecordedRun, record: RunRecord | None, facts: ModelFacts | None) -> dict[str, Any]:
    summary = summary_of(recorded)
    ended_at = record.ended_at if record else None
    row: dict[str, Any] = {
        "place": summary.uri,
        "state": summary.state.value,
        "started_at": _moment(summary.started_at),
        "ended_at": _moment(ended_at),
        "seconds": ended_at - record.started_at if record and ended_at is not None else None,
        "command": " ".join(summary.command) or None,
        "status": record.status if record else None,
        "stopped_by_trackside": record.stopped_by_trackside if record else None,
        "steps_saved": summary.steps_saved,
        "issues": summary.issues,
        "worst": summary.worst_severity.value if summary.worst_severity else None,
        "judged": summary.was_judged,
    }
    if facts is not None:
        program = facts.program
        row |= {
            "framework": program.framework or None,
            "framework_version": program.framework_version or None,
            "precision": program.autocast_dtype or None,
            "processes": program.world_size,
            "parameters": sum(_size(one.shape) for one in facts.parameters if not one.tied_to),
        }
    return row


def _finding_row(group: IssueGroup, verdict: Verdict) -> dict[str, Any]:
    back = group.recovered.get(verdict.configuration_name)
    lead, causes = verdict.lead, group.suspicions
    return {
        "rule": verdict.configuration_name,
        "rule_id": verdict.rule_id,
        "problem": group.group,
        "severity": verdict.severity.value,
        "state": "standing" if back is None else "recovered",
        "since_step": verdict.since_step,
        "step": verdict.step,
        "recovered_at": None if back is None else back.step,
        "probability": verdict.probability,
        "cause": causes[0].cause.value if causes else None,
        "subject": lead.subject if lead else None,
        "affected": verdict.affected,
        "message": verdict.message,
        "wants_stop": Action.STOP_TRAINING in verdict.actions,
        "detected_at": _moment(verdict.detected_at),
    }


def _date_of(recorded: RecordedRun, record: RunRecord | None) -> date:
    """Return the day of the run's start, UTC; for a run elsewhere that of its first verdict."""
    moments = [record.started_at] if record else [one.detected_at for one in recorded.verdicts]
    return datetime.fromtimestamp(min(moments), tz=timezone.utc).date() if moments else UNDATED


def _facts(uri: str, stores: Callable[[str], Store]) -> ModelFacts | None:
    """Return the newest facts; None for a run without, or with damaged ones: its verdicts stand."""
    return ModelFactsReader(stores(RunLocation(uri).tensors), report=lambda _: None).newest()


def _moment(seconds: float | None) -> datetime | None:
    """Return the moment in UTC, without a zone: DuckDB hands out zoned ones with the help of another package alone."""
    return None if seconds is None else datetime.fromtimestamp(seconds, tz=timezone.utc).replace(tzinfo=None)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size
