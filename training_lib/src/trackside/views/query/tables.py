"""All runs of a place as tables: runs, rules, findings and, where wanted, statistics. For SQL, and as Parquet by date.

The columns are those of `trackside.contracts.questions.tables`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

from trackside.contracts.errors import RunNotFoundError, TracksideError
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.questions.tables import DATE, STATISTICS, TABLES, UNDATED
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.cluster_job import ClusterJob
from trackside.contracts.run_layout import RunLocation, SegmentName
from trackside.contracts.verdict import Verdict
from trackside.exchange.statistic_tables import file_name
from trackside.extras import missing_extra
from trackside.runs.read_losses import read_losses
from trackside.runs.recorded_run import RecordedRun, read_run
from trackside.runs.run_folder import RunRecord, read_record
from trackside.runs.run_listing import runs_in, stores_in
from trackside.runs.run_summary import summary_of
from trackside.storage.open_store import open_store
from trackside.storage.store import Store, put_parts
from trackside.trial.facts.model_facts import ModelFactsReader
from trackside.trial.parallel import in_parallel
from trackside.trial.trial import open_trial

_PART_BYTES = 1 << 23


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


@dataclass(frozen=True)
class WrittenTables:
    """The result of writing.

    places              the tables, each with its location
    rows                number of rows of each table but the statistics
    without_statistics  each run without statistics, and the reason
    """

    places: Mapping[str, str]
    rows: Mapping[str, int]
    without_statistics: tuple[tuple[str, TracksideError], ...]


def write_run_tables(found: RunTables, where: str | os.PathLike[str]) -> WrittenTables:
    """Write the tables as Parquet files, `<table>/date=YYYY-MM-DD/<name>.parquet`, below a folder or `s3://` prefix.

    The layout is Hive's: DuckDB, Athena and pandas read `date` from it. The files of the same days are replaced, those
    of other days stay. Statistics have a file for each run.

    Raises:
        StorageError: A file cannot be written.
    """
    store = open_store(os.fspath(where))
    with tempfile.TemporaryDirectory(prefix="trackside-tables-") as place:
        folder = Path(place)
        _write_parquet(found, folder)
        days = dict(zip(*(found.tables["runs"].column(name).to_pylist() for name in ("run", DATE)), strict=True))
        missing: list[tuple[str, TracksideError]] = []
        for name, result in write_statistics(found, lambda run: folder / STATISTICS / f"{DATE}={days[run]}"):
            if not isinstance(result, Path):
                missing.append((name, result))
        for table in (*TABLES, STATISTICS):
            _replace_days(store, table, folder)
    rows = {name: table.num_rows for name, table in found.tables.items()}
    return WrittenTables({name: f"{store.uri}/{name}" for name in (*TABLES, STATISTICS)}, rows, tuple(missing))


def _write_parquet(found: RunTables, folder: Path) -> None:
    from trackside.exchange.parquet import bounded_columns

    dataset, arrow = import_module("pyarrow.dataset"), _arrow()
    by_date = dataset.partitioning(arrow.schema([(DATE, arrow.date32())]), flavor="hive")
    form = dataset.ParquetFileFormat()
    for name, table in found.tables.items():
        dataset.write_dataset(
            table,
            folder / name,
            format=form,
            file_options=form.make_write_options(write_statistics=bounded_columns(arrow, table.schema)),
            partitioning=by_date,
            basename_template=f"{name}-{{i}}.parquet",
        )


def _replace_days(store: Store, table: str, folder: Path) -> None:
    """Store the new files of a table, then delete the other files of their days. A run may have got its date since."""
    written = {path.relative_to(folder).as_posix(): path for path in sorted((folder / table).rglob("*.parquet"))}
    for key, path in written.items():
        with path.open("rb") as file:
            put_parts(store, key, iter(lambda: file.read(_PART_BYTES), b""))
    for day in {key.rpartition("/")[0] for key in written} | {f"{table}/{DATE}={UNDATED}"}:
        for key in list(store.list(f"{day}/")):
            if key not in written:
                store.delete(key)


def write_statistics(found: RunTables, folder_of: Callable[[str], Path]) -> Iterator[tuple[str, Path | TracksideError]]:
    """Write the statistics of each run into its folder, and yield its name with the file, or why it has none."""
    from trackside.exchange.parquet import export_parquet

    for name, uri in found.places.items():
        path = folder_of(name) / f"{file_name(name)}.parquet"
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
    started_at = record.started_at if record else _first_segment_at(uri, stores)
    common = {"run": name, DATE: _date_of(recorded, started_at)}
    code_of = built_in_catalogue().code_of
    return {
        "runs": [{**common, **_run_row(recorded, record, started_at, _facts(uri, stores)), **_loss_row(recorded)}],
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


def _run_row(
    recorded: RecordedRun, record: RunRecord | None, started_at: float | None, facts: ModelFacts | None
) -> dict[str, Any]:
    summary = summary_of(recorded)
    ended_at = record.ended_at if record else None
    row: dict[str, Any] = {
        "place": summary.uri,
        "state": summary.state.value,
        "started_at": _moment(started_at),
        "ended_at": _moment(ended_at),
        "seconds": ended_at - record.started_at if record and ended_at is not None else None,
        "command": " ".join(summary.command) or None,
        "status": record.status if record else None,
        "stopped_by_trackside": record.stopped_by_trackside if record else None,
        "steps_saved": summary.steps_saved,
        "issues": summary.issues,
        "worst": summary.worst_severity.value if summary.worst_severity else None,
        "first_rule": summary.first.rule_id if summary.first else None,
        "layer_kind": summary.first.layer_kind if summary.first else None,
        "first_cause": (summary.first.cause or None) if summary.first else None,
        "first_step": summary.first.since_step if summary.first else None,
        "judged": summary.judged.is_enough,
        **_job_row(summary.job),
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


def _job_row(job: ClusterJob) -> dict[str, Any]:
    if not job:
        return {}
    return {
        "scheduler": job.scheduler,
        "job": job.id,
        "node": job.node or None,
        "job_user": job.user or None,
        "array_index": job.array_index,
        "restarts": job.restarts,
    }


def _loss_row(recorded: RecordedRun) -> dict[str, float | None]:
    """Return the last losses, as the list of runs has them: those that its evaluator stored, else read from the run."""
    found = recorded.judged.learning.losses or read_losses(recorded.location.uri)
    if isinstance(found, TracksideError):
        return {}
    lasts = {"last_loss": found.training, "last_evaluation_loss": found.evaluation}
    return {name: loss.last if loss else None for name, loss in lasts.items()}


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
        "wants_stop": any(action.unit.stops for action in verdict.actions),
        "detected_at": _moment(verdict.detected_at),
    }


def _date_of(recorded: RecordedRun, started_at: float | None) -> date:
    """Return the day of the run's start, UTC; for a run without a known start that of its first verdict."""
    moments = [one.detected_at for one in recorded.verdicts] if started_at is None else [started_at]
    return datetime.fromtimestamp(min(moments), tz=timezone.utc).date() if moments else date.fromisoformat(UNDATED)


def _first_segment_at(uri: str, stores: Callable[[str], Store]) -> float | None:
    """Return the start of the first worker that recorded statistics, from the name of its first segment."""
    names = map(SegmentName.parse, stores(RunLocation(uri).statistics).list())
    return next((name.started_ms / 1000 for name in names if name is not None), None)


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
