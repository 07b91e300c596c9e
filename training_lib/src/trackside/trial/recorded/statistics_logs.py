"""The content of statistics segments, by the process that wrote them: rows, schemas, and gaps between blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from trackside.contracts.errors import RecordError
from trackside.records.block_file import HEADER_KIND, Block
from trackside.records.statistics_segment import (
    ROWS_KIND,
    SCHEMA_KIND,
    Rows,
    Schema,
    check_rows,
    inflate_schema,
    parse_schema,
    read_header,
    read_rows,
)
from trackside.trial.recorded.statistic_rows import BlockNumbers, RowTable

MOST_SCHEMAS_BYTES = 64 << 20  # of the JSON of all schemas that differ; ours take some ten kilobytes each
MOST_ORPHAN_BYTES = 16 << 20  # rows with a damaged schema, which may come again

LogKey = tuple[str, int]  # worker, and the moment at which its process began: milliseconds since the epoch


class StatisticsLogs:
    """The blocks of all processes that wrote statistics, as far as they are read. Each damage is reported once.

    Attributes:
        statistics: The names of the statistics with rows, by tensor.
        tables: The rows by worker, as `sort_tables` left them.
        version: A number that grows with each block of rows.
    """

    def __init__(self, report: Callable[[RecordError], None]) -> None:
        self._report = report
        self._logs: dict[LogKey, _Log] = {}
        self._schemas = _Schemas()
        self.statistics: defaultdict[str, set[str]] = defaultdict(set)
        self.tables: dict[str, list[RowTable]] = {}
        self.version = 0

    def groups(self) -> dict[str, tuple[str, ...]]:
        """Return the member tensors of each named group."""
        schemas = (schema for _, log in sorted(self._logs.items()) for schema in log.schemas.values())
        return {name: members for schema in schemas for name, members in schema.groups.items()}

    def missing_blocks(self) -> int:
        """Return the number of missing blocks."""
        return sum(log.numbers.missing for log in self._logs.values())

    def knows(self, keys: AbstractSet[LogKey]) -> bool:
        """Return True if something of each of these logs was read."""
        return keys <= self._logs.keys()

    def covers(self, key: LogKey, first: int, last: int) -> bool:
        """Return True if all blocks of the log from `first` to `last` are read."""
        log = self._logs.get(key)
        return log is not None and log.numbers.covers(first, last)

    def take(self, key: LogKey, block: Block, file: str) -> bool:
        """Take the content of a block. Return False if the rest of the file is not readable for this version."""
        return self._take(self._log(key), block, file)

    def damaged(self, key: LogKey, error: RecordError) -> None:
        """Report damage in a log. Its gaps are not reported afterwards."""
        self._damaged(self._log(key), error)

    def sort_tables(self) -> None:
        """Bring `tables` up to date."""
        self.tables = {}
        for log in self._logs.values():
            if log.tables:
                self.tables.setdefault(log.worker, []).extend(log.tables.values())

    def report_gaps(self) -> None:
        """Report the missing blocks of each log once, unless damage of that log is reported already."""
        for log in self._logs.values():
            what = log.complaint()
            if what and not log.is_damaged:
                self._damaged(log, RecordError(f"{log.worker}/{log.started_ms:013d}", 0, what))

    def _log(self, key: LogKey) -> _Log:
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = _Log(key)
        return log

    def _take(self, log: _Log, block: Block, file: str) -> bool:
        try:
            if block.offset == 0 and block.kind != HEADER_KIND:
                self._damaged(log, RecordError(file, 0, "the file does not begin with a header"))
            if block.kind == SCHEMA_KIND:
                self._take_schema(log, block, file)
            elif block.kind == ROWS_KIND:
                self._take_rows(log, block, file)
            elif block.kind == HEADER_KIND:
                read_header(block, key=file)
        except RecordError as error:
            self._damaged(log, error)
            return block.kind != HEADER_KIND
        return True

    def _take_schema(self, log: _Log, block: Block, file: str) -> None:
        number, schema = self._schemas.read(block, key=file)
        if log.schemas.setdefault(number, schema) is not schema:
            raise RecordError(file, block.offset, f"schema {number} is described in two ways")
        for orphan, orphan_file in log.orphans_of(number):
            self._take(log, orphan, orphan_file)

    def _take_rows(self, log: _Log, block: Block, file: str) -> None:
        if log.numbers.covers(block.number, block.number):
            return
        rows = read_rows(block, key=file)
        schema = log.schemas.get(rows.schema_id)
        if schema is None:
            log.keep_orphan(rows.schema_id, block, file)
            return
        check_rows(rows, schema, key=file, offset=block.offset)
        if not log.numbers.add(block.number):
            raise RecordError(file, block.offset, "the numbers of the blocks leave out too many")
        if rows.count:
            self._table(log, rows, schema).add(rows)
            self.version += 1

    def _table(self, log: _Log, rows: Rows, schema: Schema) -> RowTable:
        identity = (rows.schema_id, rows.has_holes)
        table = log.tables.get(identity)
        if table is None:
            table = RowTable(schema, has_holes=rows.has_holes, order=log.started_ms)
            log.tables[identity] = table
            for column in schema.columns:
                self.statistics[column.tensor].add(column.statistic)
        return table

    def _damaged(self, log: _Log, error: RecordError) -> None:
        log.is_damaged = True
        self._report(error)


class _Log:
    """The blocks of one writing process, as far as they are read."""

    def __init__(self, identity: tuple[str, int]) -> None:
        self.worker, self.started_ms = identity
        self.numbers = BlockNumbers()
        self.schemas: dict[int, Schema] = {}
        self.tables: dict[tuple[int, bool], RowTable] = {}
        self.is_damaged = False  # and the damage is reported
        self._orphans: dict[int, list[tuple[Block, str]]] = {}
        self._orphan_bytes = 0

    def keep_orphan(self, schema_id: int, block: Block, key: str) -> None:
        """Keep rows of an unknown schema. Errors: `RecordError` if their bytes exceed `MOST_ORPHAN_BYTES`."""
        if self._orphan_bytes + len(block.payload) > MOST_ORPHAN_BYTES:
            raise RecordError(key, block.offset, f"nothing describes the rows of schema {schema_id}")
        self._orphans.setdefault(schema_id, []).append((block, key))
        self._orphan_bytes += len(block.payload)

    def orphans_of(self, schema_id: int) -> list[tuple[Block, str]]:
        """Remove and return the kept rows of this schema."""
        found = self._orphans.pop(schema_id, [])
        self._orphan_bytes -= sum(len(block.payload) for block, _ in found)
        return found

    def complaint(self) -> str:
        """Return a sentence about missing blocks or schemas; "" if the log is complete."""
        if self._orphans:
            return f"nothing describes the rows of schema {min(self._orphans)}"
        if self.numbers.missing:
            first, last = self.numbers.first_gap
            return f"blocks {first} to {last} are missing: the writer could not store them in time, and dropped them"
        return ""


class _Schemas:
    """Schemas by their stored bytes. Those of all workers and objects are mostly equal, and are parsed once."""

    def __init__(self) -> None:
        self._read: dict[bytes, tuple[int, Schema]] = {}
        self._size_bytes = 0

    def read(self, block: Block, *, key: str) -> tuple[int, Schema]:
        """Return a schema and its id. Errors: `RecordError`."""
        found = self._read.get(block.payload)
        if found is None:
            text = inflate_schema(block, key=key)
            self._size_bytes += len(text)
            if self._size_bytes > MOST_SCHEMAS_BYTES:
                raise RecordError(key, block.offset, f"the run's schemas take more than {MOST_SCHEMAS_BYTES} bytes")
            found = self._read[block.payload] = parse_schema(text, key=key, offset=block.offset)
        return found
