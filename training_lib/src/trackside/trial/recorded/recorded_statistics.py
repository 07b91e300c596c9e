"""The always-on statistics of a run, read as they grow: every step of every worker, as columns.

The format is `records.statistics_segment`. Reading costs only new data.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError, NotAFileError, RecordError
from trackside.contracts.run_layout import SegmentName
from trackside.records.block_file import FOOTER_BYTES, HEAD_BYTES, MOST_PAYLOAD_BYTES, ReadBlocks, read_blocks
from trackside.records.modes import MODE_NUMBERS
from trackside.records.statistics_segment import ROWS_KIND
from trackside.storage.store import Store
from trackside.trial.parallel import REMOTE_READS_AT_ONCE, each_in_parallel
from trackside.trial.recorded.recorded_steps import RecordedSteps
from trackside.trial.recorded.statistic_rows import Piece, RowTable, StatisticColumns, in_step_order, pieces_of
from trackside.trial.recorded.statistics_logs import StatisticsLogs
from trackside.trial.steps.step_numbers import StepNumbers
from trackside.trial.window import Column

READ_BYTES = 16 << 20  # more than the objects that our writer makes, so that each of those is one request
DISK_READ_BYTES = 2 << 20  # where a request costs nothing: as much again for its blocks is in memory at once
CACHE_BYTES = 256 << 20  # of columns that were asked for: 200 of them over 72,000 steps
Moments = tuple[NDArray[np.int64], NDArray[np.float64]]  # steps and their ends in seconds since the epoch
_LARGEST_READ = READ_BYTES + HEAD_BYTES + MOST_PAYLOAD_BYTES + FOOTER_BYTES
MOST_LOST_BYTES = 64 << 20  # of one file between its blocks: the rest is given up, for a hole costs no disk
_MOST_PASSES = 3


class RecordedStatistics:
    """The content of a run's statistics segments. Nothing is read before the first `refresh`.

    Damaged and missing blocks are skipped, and reported once. Memory: the rows as stored, and up to `cache_bytes` of
    columns. Not to be shared between threads.

    store        rooted at the run's statistics
    report       called with each damage, once
    cache_bytes  the most bytes of columns to keep
    """

    def __init__(self, store: Store, *, report: Callable[[RecordError], None], cache_bytes: int = CACHE_BYTES) -> None:
        self._store, self._report = store, report
        self._read_bytes = READ_BYTES if "://" in store.uri else min(READ_BYTES, DISK_READ_BYTES)
        self._files: dict[str, _File] = {}
        self._logs = StatisticsLogs(report)
        self._columns = StatisticColumns(cache_bytes)
        self._steps, self._steps_version = RecordedSteps(), 0

    def refresh(self, *, newest: Sequence[SegmentName] | None = None) -> bool:
        """Read new rows. Return True if any came.

        This costs one LIST, one read of each file that may have grown, and one of each new object. If `newest` names
        the newest segments, oldest first, they are read without a LIST, unless a block before them is missing.

        Errors: those of the store. Rows read before stay.
        """
        before = self._logs.version
        try:
            if newest is None or not self._read_newest(newest):
                self._catch_up()
        finally:
            self._logs.sort_tables()
        self._logs.report_gaps()
        return self._logs.version > before

    @property
    def tensors(self) -> frozenset[str]:
        """Tensors, and named groups of tensors, with rows."""
        return frozenset(self._logs.statistics)

    def statistics_of(self, tensor: str) -> frozenset[str]:
        """Return the names of a tensor's statistics with rows."""
        return frozenset(self._logs.statistics.get(tensor, ()))

    @property
    def steps(self) -> RecordedSteps:
        """The steps with rows."""
        if self._steps_version != self._logs.version:
            self._steps.update(self._logs.tables)
            self._steps_version = self._logs.version
        return self._steps

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The member tensors of each named group."""
        return self._logs.groups()

    @property
    def missing_blocks(self) -> int:
        """The number of missing blocks: dropped by the writer, or damaged."""
        return self._logs.missing_blocks()

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Return one column per worker, by worker name, over the measured steps <= `last_step`.

        `mode` None means every mode. Of several rows for one step and mode, the last row of the latest log counts. The
        arrays are read-only.
        """
        if statistic not in self._logs.statistics.get(tensor, ()):
            return ()
        return self._columns.of(
            tensor, statistic, mode, tables=self._logs.tables, version=self._logs.version, last_step=last_step
        )

    def pieces(
        self, wanted: Sequence[tuple[str, str]], *, first: int, last: int, mode: str | None
    ) -> tuple[Iterator[Piece], list[tuple[str, str]]]:
        """Return the recorded numbers of a range of steps a piece at a time; see `pieces_of`."""
        return pieces_of(wanted, tables=self._logs.tables, first=first, last=last, mode=mode)

    def trim(self, most_bytes: int) -> bool:
        """Drop the columns that are kept if they take more than this. Return True if they were dropped."""
        return self._columns.trim(most_bytes)

    def moments(self, worker: str) -> Iterator[Moments]:
        """Yield the training steps of a worker, and the end of each in seconds since the epoch, a piece at a time.

        The pieces follow one another.
        """
        for rows in _ranges(self._logs.tables.get(worker, ())):
            training = [some[some["mode"] == MODE_NUMBERS["TRAIN"]] for some in rows]
            steps, times = (np.concatenate([some[name] for some in training]) for name in ("step", "wall_time"))
            if not (steps[1:] > steps[:-1]).all():
                order = np.lexsort((times, steps))
                steps, times = steps[order], times[order]
                is_first = np.append(True, steps[1:] != steps[:-1])  # numbers noted later are of another moment
                steps, times = steps[is_first], times[is_first]
            if len(steps):
                yield steps, times

    def training_steps(self) -> StepNumbers:
        """Return the number of each training step of any worker."""
        numbers = StepNumbers()
        for rows in _ranges([table for of_worker in self._logs.tables.values() for table in of_worker]):
            steps, modes, counts = (
                np.concatenate([some[name] for some in rows]) for name in ("step", "mode", "mode_step")
            )
            is_global = modes == MODE_NUMBERS["GLOBAL"]  # nobody set a mode: one count is all that the user has
            counts = np.where(is_global, steps, counts)
            is_training = is_global | (modes == MODE_NUMBERS["TRAIN"])
            if not is_training.all():
                steps, counts = steps[is_training], counts[is_training]
            if not (steps[1:] > steps[:-1]).all():
                steps, places = np.unique(steps, return_index=True)
                counts = counts[places]
            numbers.add(steps, counts)
        return numbers

    def _catch_up(self) -> None:
        """Read the listed files, and list again if some were merged meanwhile.

        A gap also leads to another listing: a listing of several pages may show a gap by mistake.
        """
        for _ in range(_MOST_PASSES):
            missing = self.missing_blocks
            was_gone = self._read(self._listed())
            if not was_gone and self.missing_blocks <= missing:
                return

    def _read_newest(self, names: Sequence[SegmentName]) -> bool:
        """Read the segments of these names. Return False if they are not all the new data."""
        logs = {(name.worker, name.started_ms) for name in names}
        missing = self.missing_blocks
        for name in names:
            file = self._files.setdefault(name.key, _File(name.key, name))
            file.may_grow = name.last is None
        growing = [name for name in names if name.last is None]
        for name, following in itertools.pairwise(growing):
            if (name.worker, name.started_ms) == (following.worker, following.started_ms):
                self._files[name.key].may_grow = False  # the writer has begun another
        files = [file for name in names if not (file := self._files[name.key]).is_settled]
        was_gone = self._read(files)
        named = {name.key for name in names}
        self._files = {key: file for key, file in self._files.items() if not file.is_settled or key in named}
        return not was_gone and self._logs.knows(logs) and self.missing_blocks <= missing

    def _listed(self) -> list[_File]:
        """Return the files that may hold new rows, larger ones first: they replace smaller ones."""
        found = {key: self._files.get(key) or _File.of(key) for key in self._store.list()}
        self._files = {key: file for key, file in found.items() if file is not None}
        newest: dict[tuple[str, int], int] = {}
        for file in self._files.values():
            if file.name.last is None:
                newest[file.log] = max(newest.get(file.log, 0), file.name.first)
        for file in self._files.values():
            file.may_grow = file.name.last is None and file.name.first == newest[file.log]
        unread = (file for file in self._files.values() if not file.is_settled)
        return sorted(unread, key=lambda file: (-file.span, file.log, file.name.first))

    def _read(self, files: Iterable[_File]) -> bool:
        """Read the new part of `files`, several at a time. Return True if one was gone."""
        was_gone = False
        batch: list[_File] = []
        for file in files:
            if any(file.overlaps(other) for other in batch) or len(batch) == REMOTE_READS_AT_ONCE:
                was_gone |= self._read_batch(batch)
                batch = []
            if not self._is_known(file):
                batch.append(file)
        return self._read_batch(batch) or was_gone

    def _read_batch(self, files: list[_File]) -> bool:
        was_gone = False
        for file, data in zip(files, each_in_parallel(self._store, self._first_bytes, files), strict=True):
            if data is None:
                was_gone = True
            elif isinstance(data, RecordError):
                self._logs.damaged(file.log, data)
                file.is_settled = True
            else:
                self._take_file(file, data)
        return was_gone

    def _is_known(self, file: _File) -> bool:
        if file.name.last is None or not self._logs.covers(file.log, file.name.first, file.name.last):
            return False
        file.is_settled = True
        return True

    def _first_bytes(self, file: _File) -> bytes | RecordError | None:
        try:
            return self._store.get(file.key, start=file.offset, length=self._read_bytes)
        except NotAFileError as error:
            return RecordError(file.key, file.offset, str(error))
        except KeyNotFoundError:
            return None

    def _take_file(self, file: _File, data: bytes) -> None:
        log, is_whole = file.log, True
        for found in self._read_on(file, data):
            if not all(self._logs.take(log, block, file.key) for block in found.blocks):
                file.is_settled = True
                return
            for error in found.damage:
                self._logs.damaged(log, error)
            is_whole = is_whole and not found.damage
            file.last_rows = max((b.number for b in found.blocks if b.kind == ROWS_KIND), default=file.last_rows)
        if is_whole and file.name.last not in {None, file.last_rows}:
            what = f"block {file.name.last}, with which the object should end by its name, is not in it"
            self._logs.damaged(log, RecordError(file.key, file.offset, what))
        file.is_settled = file.is_given_up or not file.may_grow

    def _read_on(self, file: _File, data: bytes) -> Iterator[ReadBlocks]:
        """Yield the blocks from the file's last read position to its present end.

        `data` are the first bytes after it.
        """
        length = self._read_bytes
        while data:
            found = read_blocks(data, key=file.key, offset=file.offset)
            is_end = len(data) < length
            if is_end and not file.may_grow and found.end < file.offset + len(data):
                cut = RecordError(file.key, found.end, "the file ends within a block, or in damage")
                found = ReadBlocks(found.blocks, found.end, (*found.damage, cut))
            elif not is_end and found.end == file.offset:
                if length < _LARGEST_READ:
                    length = min(2 * length, _LARGEST_READ)
                else:  # none begins in the first bytes: it would have ended within the rest
                    lost = RecordError(file.key, file.offset, f"no block begins in these {self._read_bytes} bytes")
                    found = ReadBlocks((), file.offset + self._read_bytes, (lost,))
            blocks_size = sum(HEAD_BYTES + len(block.payload) + FOOTER_BYTES for block in found.blocks)
            file.lost_bytes += found.end - file.offset - blocks_size
            if file.lost_bytes > MOST_LOST_BYTES:
                what = f"the rest is left out: {file.lost_bytes} bytes so far are no blocks"
                found = ReadBlocks(found.blocks, found.end, (*found.damage, RecordError(file.key, found.end, what)))
            file.offset = found.end
            yield found
            if is_end or file.is_given_up:
                return
            data = b""  # not both at once
            try:
                data = self._store.get(file.key, start=file.offset, length=length)
            except KeyNotFoundError:  # merged into another one meanwhile
                return


def _ranges(tables: Sequence[RowTable]) -> Iterator[list[NDArray[np.void]]]:
    """Yield the rows of tables by ranges of steps that follow one another; all at once if a table is in no order."""
    if all(table.is_in_order for table in tables):
        yield from ([some for _, some in rows] for rows in in_step_order(tables))
    else:
        yield [some for table in tables for some in table.rows_from(0)]


@dataclass(eq=False)
class _File:
    """A segment as listed, and its read position. A settled segment holds nothing new."""

    key: str
    name: SegmentName
    offset: int = 0
    last_rows: int = -1  # the number of the last block of rows in it
    may_grow: bool = False
    is_settled: bool = False
    lost_bytes: int = 0  # passed over because nothing in them is a block

    @classmethod
    def of(cls, key: str) -> _File | None:
        name = SegmentName.parse(key)
        return None if name is None else cls(key, name)

    @property
    def log(self) -> tuple[str, int]:
        return self.name.worker, self.name.started_ms

    @property
    def is_given_up(self) -> bool:
        return self.lost_bytes > MOST_LOST_BYTES

    @property
    def span(self) -> int:
        return 0 if self.name.last is None else self.name.last - self.name.first

    def overlaps(self, other: _File) -> bool:
        """Return True if both hold blocks of the same numbers."""
        if self.log != other.log or self.name.last is None or other.name.last is None:
            return False
        return self.name.first <= other.name.last and other.name.first <= self.name.last
