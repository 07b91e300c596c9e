"""The always-on statistics of one process: rows are taken on the training thread and stored on the writer's.

    log = StatisticsLog(open_store(RunLocation(run).statistics), worker="worker_0", started_ms=int(time.time() * 1000))
    every_step = log.open_table(Schema((StatisticColumn("Loss_output_0", "mean"), ...)))
    every_step.record(values, step=step, mode="TRAIN", mode_step=step, wall_time=time.time())   # training thread
    log.flush_if_due()                                                                          # writer thread

Taking a row takes no lock, so that a signal handler that interrupts it can still flush everything: one append to a list
makes rows visible to the writer thread. One thread at a time may record, one thread at a time may flush.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.capture.statistics.segment_storage import (
    RowsBlock,
    SegmentLimits,
    SegmentLog,
    SegmentStorage,
    segment_storage,
)
from trackside.capture.steps.step_engine import Position
from trackside.contracts.cached_property import cached_property
from trackside.contracts.run_layout import SegmentName
from trackside.records.block_file import encode_block
from trackside.records.modes import MODE_NAMES, MODE_NUMBERS, checked_mode
from trackside.records.statistics_segment import (
    ROWS_KIND,
    Schema,
    StatisticColumn,
    encode_rows,
    encode_schema,
    saturated,
)
from trackside.storage.store import Store

_CHUNK_BYTES = 256 << 10  # of values; a chunk is at most one block
_CHUNK_ROWS = (4, 4096)

Mark = tuple[int, int, int, float]  # step, mode's number, mode step, wall time


@dataclass(frozen=True)
class LogLimits:
    """Intervals of storing rows, and bounds of the rows that wait while storing fails."""

    flush_seconds: float = 1.0  # what a SIGKILL can cost; on S3 each flush is a PUT
    pending_bytes: int = 8 << 20  # of rows that are not stored yet; beyond it the oldest blocks are dropped
    first_retry_seconds: float = 1.0  # after a failure of the store; doubles with each further one
    last_retry_seconds: float = 60.0
    segments: SegmentLimits = field(default_factory=SegmentLimits)


class _Chunk:
    """Rows of one table. A row counts once its mark is stored, which comes last."""

    __slots__ = ("marks", "measured", "taken", "values")

    def __init__(self, capacity: int, columns: int, dtype: type[np.floating[Any]]) -> None:
        self.values = np.empty((capacity, columns), dtype)
        self.measured: NDArray[np.bool_] | None = None
        self.marks: list[Mark] = []
        self.taken = 0  # rows that the writer thread has

    def take(self) -> _Taken:
        """Return the rows since the last call."""
        start, self.taken = self.taken, len(self.marks)
        part = slice(start, self.taken)
        return _Taken(self.marks[part], self.values[part], None if self.measured is None else self.measured[part])


@dataclass(frozen=True, eq=False)
class _Taken:
    """Rows as they lie in a chunk; nothing writes to them any more."""

    marks: list[Mark]
    values: NDArray[np.floating[Any]]
    measured: NDArray[np.bool_] | None

    @property
    def count(self) -> int:
        return len(self.marks)


def moved_on_marks(marks: list[Mark], start: Position) -> list[Mark]:
    """Return marks of rows that were counted from 0 with their numbers in a run that had reached `start` before."""
    starts = {MODE_NUMBERS[mode]: count for mode, count in (start.mode_steps or {}).items()}
    return [
        (step + start.step, mode, mode_step + starts.get(mode, 0), wall_time)
        for step, mode, mode_step, wall_time in marks
    ]


class StatisticsTable:
    """Rows of one schema, from `StatisticsLog.open_table`."""

    def __init__(self, schema: Schema, schema_id: int, *, pending_bytes: int) -> None:
        self.schema, self.schema_id = schema, schema_id
        self.dtype = np.float32 if schema.is_single_precision else np.float64
        self._shape = (len(schema.columns),)
        row_bytes = self._shape[0] * np.dtype(self.dtype).itemsize
        fewest, most = _CHUNK_ROWS
        self._capacity = min(max(_CHUNK_BYTES // row_bytes, fewest), most)
        self._most_full = max(1, pending_bytes // (self._capacity * row_bytes))
        self._full: deque[_Chunk] = deque()
        self._chunk = self._new_chunk()
        self._dropped_chunks = self._dropped_chunks_taken = 0
        self.dropped_rows = 0
        self.is_retired = False  # no row will come any more

    def record(
        self,
        values: NDArray[np.floating[Any]],
        *,
        step: int,
        mode: str,
        mode_step: int,
        wall_time: float,
        measured: NDArray[np.bool_] | None = None,
    ) -> None:
        """Record a row: no I/O, no lock, a few microseconds. The values are copied.

        - `values`: shape (columns,) in the order of the schema; fastest as `dtype`
        - `measured`: same shape; False for a value without meaning. A NaN is a measured value: not a number

        Errors: `ValueError` for another shape or no mode.
        """
        mode_number = MODE_NUMBERS.get(mode) or MODE_NUMBERS[checked_mode(mode)]
        if values.shape != self._shape or (measured is not None and measured.shape != self._shape):
            raise ValueError(f"A row of this table has {self._shape[0]} values; these are of shape {values.shape}.")
        chunk = self._chunk
        row = len(chunk.marks)
        if row == self._capacity:
            chunk, row = self._next_chunk(), 0
        if values.dtype != self.dtype:
            values = self._converted(values)
        chunk.values[row] = values
        if measured is not None:
            self._note_holes(chunk, row, measured)
        chunk.marks.append((step, mode_number, mode_step, wall_time))

    def take(self) -> list[_Taken]:
        """Return the rows that the writer thread has not taken yet. For that thread only."""
        current = self._chunk  # looked at first: should it fill up meanwhile, it is met among the full ones
        chunks: list[_Chunk] = []
        while self._full and (not chunks or chunks[-1] is not current):
            with contextlib.suppress(IndexError):  # the other thread has just dropped it
                chunks.append(self._full.popleft())
        if not chunks or chunks[-1] is not current:
            chunks.append(current)
        return [taken for chunk in chunks if (taken := chunk.take()).count]

    def take_dropped_chunks(self) -> int:
        """Return the number of chunks dropped since the last call."""
        dropped = self._dropped_chunks
        since, self._dropped_chunks_taken = dropped - self._dropped_chunks_taken, dropped
        return since

    def _new_chunk(self) -> _Chunk:
        return _Chunk(self._capacity, self._shape[0], self.dtype)

    def _next_chunk(self) -> _Chunk:
        """Return the chunk for the next rows.

        Drop the oldest full chunk if the writer thread has not taken any for long.
        """
        self._full.append(self._chunk)
        if len(self._full) > self._most_full:
            with contextlib.suppress(IndexError):  # the writer thread has just come
                dropped = self._full.popleft().take()
                self.dropped_rows += dropped.count
                self._dropped_chunks += dropped.count > 0
        self._chunk = self._new_chunk()
        return self._chunk

    def _converted(self, values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        with np.errstate(all="ignore"):
            wide = values.astype(np.float64)
            return saturated(wide, "f4") if self.dtype is np.float32 else wide

    def _note_holes(self, chunk: _Chunk, row: int, measured: NDArray[np.bool_]) -> None:
        if chunk.measured is None:
            chunk.measured = np.ones((self._capacity, self._shape[0]), np.bool_)
        chunk.measured[row] = measured


class StatisticsLog:
    """All tables of one process, and their storage.

    - `store`: rooted at the run's statistics, or a function that opens such a store with the first rows to be stored
    - `started_ms`: milliseconds since the epoch; names the log. No two logs of one worker may share it, and of two rows
      for one step that of the later log holds
    - `start`: returns the position to add to the numbers of steps; rows wait while it raises `OSError`
    - `note_steps`: is called with the rows that are about to be stored, as (step, mode, step within the mode)

    Nothing is stored or connected to before the first flush.
    """

    def __init__(
        self,
        store: Store | Callable[[], Store],
        *,
        worker: str,
        started_ms: int,
        start: Callable[[], Position] = Position,
        note_steps: Callable[[Iterable[tuple[int, str, int]]], object] = lambda steps: None,
        limits: LogLimits = LogLimits(),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits, self._monotonic = limits, monotonic
        self._find_start, self._start, self._note_steps = start, Position(), note_steps
        self._log = SegmentLog(worker, started_ms)
        self._store = store
        self._tables: list[StatisticsTable] = []
        self._loose: StatisticsTable | None = None
        self._pending: deque[RowsBlock] = deque()
        self._next_number = 0
        self._dropped_rows = 0
        self.flush_seconds = limits.flush_seconds
        self._due_at = monotonic() + self.flush_seconds
        self._retry_seconds = self._tend_retry_seconds = 0.0
        self._tend_at = 0.0
        self.compaction_error: OSError | None = None

    @cached_property
    def _storage(self) -> SegmentStorage:
        store = self._store() if callable(self._store) else self._store
        return segment_storage(store, self._log, self._limits.segments)

    @property
    def dropped_rows(self) -> int:
        """Number of rows that were lost because storing failed or took too long.

        A reader finds their blocks missing.
        """
        return self._dropped_rows + sum(table.dropped_rows for table in self._tables)

    @property
    def due_in_seconds(self) -> float:
        """Seconds that the writer thread may sleep before it should call `flush_if_due`; 0 if it is late."""
        return max(0.0, self._due_at - self._monotonic())

    @property
    def newest_segments(self) -> Sequence[SegmentName]:
        """The segments that hold the newest rows, the newest last. For the writer thread."""
        return tuple(self._storage.newest) if self._next_number else ()

    def open_table(self, schema: Schema) -> StatisticsTable:
        """Return a table for rows of that schema. Errors: `ValueError` for a schema that is too long."""
        table = StatisticsTable(schema, len(self._log.schemas), pending_bytes=self._limits.pending_bytes)
        self._log.schemas[table.schema_id] = encode_schema(table.schema_id, schema)
        self._tables = [*self._tables, table]  # another thread may be walking over the old list
        return table

    def record(
        self, values: Mapping[tuple[str, str], float], *, step: int, mode: str, mode_step: int, wall_time: float
    ) -> None:
        """Record a row of (tensor, statistic) -> value; its keys may differ from step to step.

        Absent keys were not measured.

        For a few numbers: some microseconds each. Errors: `ValueError` for no mode.
        """
        if not values:
            return
        table = self._table_for(values)
        places = [table.schema.positions[key] for key in values]
        row = np.zeros(len(table.schema.columns))
        measured = np.zeros(len(row), np.bool_)
        row[places] = list(values.values())
        measured[places] = True
        holes = None if len(values) == len(row) else measured
        table.record(row, step=step, mode=mode, mode_step=mode_step, wall_time=wall_time, measured=holes)

    def flush_if_due(self) -> bool:
        """Flush if `flush_seconds` have passed since the last time, or, after a failure, the time to the next attempt.

        Return True if it flushed. Errors: as `flush`.
        """
        if self._monotonic() < self._due_at:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Store all rows taken so far.

        Errors: `OSError` of the store; the rows wait for the next flush, within bounds.
        """
        started = self._monotonic()
        try:
            self._start = self._find_start()
            self._encode()
            if self._pending:
                self._storage.save(tuple(self._pending))
        except OSError:
            self._retry_seconds = self._longer(self._retry_seconds)
            self._due_at = self._monotonic() + self._retry_seconds
            raise
        self._pending.clear()
        self._retry_seconds = 0.0
        self._due_at = started + self.flush_seconds
        if started >= self._tend_at and self._next_number:
            self._tend(self._storage.tend)

    def close(self) -> None:
        """Flush, and merge the objects of this log into few. Errors: as `flush`."""
        self.flush()
        if self._next_number:
            self._tend(self._storage.finish)

    def _table_for(self, values: Mapping[tuple[str, str], float]) -> StatisticsTable:
        """Return the table of mixed rows. A new key makes a new table, with all keys so far."""
        known = self._loose.schema.columns if self._loose else ()
        if self._loose and values.keys() <= self._loose.schema.positions.keys():
            return self._loose
        keys = dict.fromkeys([*((column.tensor, column.statistic) for column in known), *values])
        table = self.open_table(Schema(tuple(StatisticColumn(tensor, name, "f8") for tensor, name in keys)))
        if self._loose:
            self._loose.is_retired = True
        self._loose = table
        return table

    def _encode(self) -> None:
        """Encode the taken rows as numbered blocks. The numbers of dropped ones are left out."""
        for table in self._tables:
            is_retired = table.is_retired  # no row came after that
            self._next_number += table.take_dropped_chunks()
            for taken in table.take():
                self._pending.append(self._block(table, taken))
            if is_retired:
                self._dropped_rows += table.dropped_rows
                self._tables = [other for other in self._tables if other is not table]
        while len(self._pending) > 1 and sum(len(b.data) for b in self._pending) > self._limits.pending_bytes:
            self._dropped_rows += self._pending.popleft().row_count

    def _block(self, table: StatisticsTable, taken: _Taken) -> RowsBlock:
        marks = moved_on_marks(taken.marks, self._start) if self._start.step else taken.marks
        steps, modes, mode_steps, wall_times = zip(*marks, strict=True)
        self._note_steps((step, MODE_NAMES[mode], mode_step) for step, mode, mode_step, _ in marks)
        payload = encode_rows(
            table.schema_id,
            table.schema,
            steps=steps,
            mode_steps=mode_steps,
            wall_times=wall_times,
            modes=modes,
            values=taken.values,
            measured=taken.measured,
        )
        number = self._next_number
        self._next_number += 1
        return RowsBlock(number, table.schema_id, taken.count, encode_block(ROWS_KIND, payload, number=number))

    def _tend(self, tend: Callable[[], None]) -> None:
        """Merge objects for later readers. Keep a failure in `compaction_error`; the next call tries again."""
        try:
            tend()
        except OSError as error:
            self.compaction_error = error
            self._tend_retry_seconds = self._longer(self._tend_retry_seconds)
            self._tend_at = self._monotonic() + self._tend_retry_seconds
            return
        self.compaction_error = None
        self._tend_retry_seconds = 0.0

    def _longer(self, seconds: float) -> float:
        return min(seconds * 2 or self._limits.first_retry_seconds, self._limits.last_retry_seconds)
