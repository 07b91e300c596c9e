"""SQL over the tables of runs, by DuckDB, in this process."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

from trackside.contracts.errors import ConfigurationError, Problem, TracksideError
from trackside.contracts.questions.tables import STATISTICS
from trackside.extras import missing_extra
from trackside.views.query.tables import RunTables, write_statistics

# Athena's aggregate of this name, which DuckDB lacks: one text of a question for both. Exact here.
MACROS = "CREATE OR REPLACE MACRO approx_percentile(x, share) AS quantile_cont(x, share)"


@dataclass(frozen=True)
class Answer:
    """The rows of a question; `columns` are their names. Values are Python's: numbers, texts, moments, None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


class RunDatabase:
    """`with RunDatabase(run_tables()) as database: database.answer("SELECT ...")`.

    The statistics of the runs are read at the first question that names them.

    Args:
        found: The tables.

    Raises:
        ConfigurationError: DuckDB is not installed.
    """

    def __init__(self, found: RunTables) -> None:
        try:
            self._duckdb: Any = import_module("duckdb")
        except ImportError as missing:
            raise missing_extra("query") from missing
        self._found, self._open = found, ExitStack()
        self._has_statistics = False
        self.without_statistics: tuple[tuple[str, TracksideError], ...] = ()

    def __enter__(self) -> RunDatabase:
        # No extension is fetched from the network behind the user's back.
        settings = {"autoinstall_known_extensions": "false"}
        self._connection = self._open.enter_context(self._duckdb.connect(config=settings))
        self._connection.execute(MACROS)
        for name, table in self._found.tables.items():
            self._connection.register(name, table)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._open.close()

    def answer(self, sql: str) -> Answer:
        """Return the answer to a question in SQL.

        Raises:
            ConfigurationError: DuckDB cannot answer it. Holds DuckDB's own reason, and the tables.
            StorageError: A run cannot be read.
        """
        if not self._has_statistics and re.search(rf"\b{STATISTICS}\b", sql, re.IGNORECASE):
            self._read_statistics()
        try:
            cursor = self._connection.execute(sql)
            columns = tuple(column[0] for column in cursor.description or ())
            return Answer(columns, tuple(cursor.fetchall()) if columns else ())
        except self._duckdb.Error as error:
            fix = "See the tables and their columns: trackside query"
            reason = " ".join(re.split(r"\n\s*LINE \d", str(error))[0].split())  # without the picture of the place
            problem = Problem("the question", reason, fix)
            raise ConfigurationError([problem], subject="SQL") from error

    def _read_statistics(self) -> None:
        self._has_statistics = True
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="trackside-query-")))
        written: dict[str, Path] = {}
        missing: list[tuple[str, TracksideError]] = []
        for name, result in write_statistics(self._found, lambda _: folder):
            if isinstance(result, Path):
                written[name] = result
            else:
                missing.append((name, result))
        self.without_statistics = tuple(missing)
        if written:
            files = [str(path) for path in written.values()]
            self._connection.read_parquet(files, union_by_name=True).create_view(STATISTICS)


def as_documents(answer: Answer) -> Sequence[Mapping[str, Any]]:
    """Return each row by the names of its columns."""
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
