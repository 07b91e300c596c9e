"""The SQLite databases of MLflow (`mlflow.db`) and trackio: one log for each run. They are read only."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from trackside.imported.format import Format
from trackside.imported.formats.json_lines import numbers_of
from trackside.imported.formats.mlflow_files import log_of
from trackside.imported.log import Log, LogFile, Series

_MARK = b"SQLite format 3\x00"
_LARGEST = 1.7976931348623157e308  # MLflow's infinity
_AT_ONCE = 10_000


def _is_ours(file: LogFile) -> bool:
    return file.head().startswith(_MARK)


def _read(name: str, files: Sequence[LogFile], _: Series) -> Iterable[Log]:
    (file,) = files
    try:
        with closing(_opened(file.path())) as database:
            columns = {str(row[1]) for row in database.execute("PRAGMA table_info(metrics)")}
            if {"key", "value", "run_uuid", "step", "is_nan"} <= columns:
                yield from _of_mlflow(database, file)
            elif {"run_name", "step", "metrics"} <= columns:
                yield from _of_trackio(database, file, name)
            else:
                yield Log(name, file.where, FORMAT.name, {}, damage=("it has no table of MLflow or trackio",))
    except sqlite3.DatabaseError as error:
        yield Log(name, file.where, FORMAT.name, {}, damage=(f"the database cannot be read: {error}",))


def _opened(path: str) -> sqlite3.Connection:
    """Open a database for reading, also while another process writes it."""
    return sqlite3.connect(f"file:{quote(str(Path(path).absolute()))}?mode=ro", uri=True, timeout=5)


def _of_mlflow(database: sqlite3.Connection, file: LogFile) -> Iterator[Log]:
    runs = database.execute(
        "SELECT run_uuid, name FROM runs WHERE lifecycle_stage != 'deleted' ORDER BY start_time, run_uuid"
    ).fetchall()
    for run, name in runs:
        series = Series()
        rows = database.execute(
            "SELECT key, step, value, is_nan, timestamp FROM metrics WHERE run_uuid = ? ORDER BY key, step, timestamp",
            (run,),
        )
        while some := rows.fetchmany(_AT_ONCE):
            for key, step, value, is_nan, time in some:
                if (own := series.of(str(key))) is not None:
                    own.add(int(step), _value(float(value), is_nan=bool(is_nan)), float(time) / 1000)
        yield log_of(str(name or run), f"{file.where} (run {run})", "MLflow's database", series)


def _value(value: float, *, is_nan: bool) -> float:
    if is_nan:
        return float("nan")
    return float("inf") * value if abs(value) >= _LARGEST else value


def _of_trackio(database: sqlite3.Connection, file: LogFile, name: str) -> Iterator[Log]:
    runs = [str(run) for (run,) in database.execute("SELECT DISTINCT run_name FROM metrics ORDER BY run_name")]
    project = name.rpartition("/")[2].removesuffix(".db")
    for run in runs:
        series = Series()
        rows = database.execute("SELECT step, metrics FROM metrics WHERE run_name = ? ORDER BY id", (run,))
        while some := rows.fetchmany(_AT_ONCE):
            for step, text in some:
                _add(series, step, text)
        yield Log(f"{project}/{run}", file.where, "trackio's database", series.points(), damage=tuple(series.damage))


def _add(series: Series, step: int, text: bytes | str) -> None:
    try:
        row = json.loads(text)
    except ValueError:
        series.note(f"the row of step {step} is no JSON")
        return
    if isinstance(row, dict):
        series.add_row(numbers_of({"_step": step, **row}))


FORMAT = Format("databases of MLflow and trackio", 35, _is_ours, _read)
