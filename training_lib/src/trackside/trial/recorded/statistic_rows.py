"""Rows of statistics as the bytes they came in, and the columns cut out of them on request.

The first rows of a table stay in memory. A table beyond `MOST_SLABS` keeps its rows in a file without a name,
which the operating system removes with the process.
"""

from __future__ import annotations

import itertools
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from trackside.records.modes import MODE_NUMBERS
from trackside.records.statistics_segment import Rows, Schema, column_of
from trackside.trial.window import Column

MOST_GAPS = 1 << 16  # in the numbers of one log; a log that was not made up has a few
MOST_SLABS = 16  # of a table in memory
_SLAB_BYTES = 1 << 20
_FIRST_STEP, _LAST_STEP = -(2**63), 2**63 - 2


class BlockNumbers:
    """The known block numbers of a log, as runs of consecutive numbers."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._count = 0

    @property
    def missing(self) -> int:
        """The number of missing block numbers below the highest."""
        return self._lasts[-1] + 1 - self._count if self._lasts else 0

    @property
    def first_gap(self) -> tuple[int, int]:
        """The first missing numbers, (first, last). Only valid if some are missing."""
        if self._firsts[0] > 0:
            return 0, self._firsts[0] - 1
        return self._lasts[0] + 1, self._firsts[1] - 1

    def covers(self, first: int, last: int) -> bool:
        """Return True if all numbers from `first` to `last` are known."""
        place = bisect_right(self._firsts, first) - 1
        return place >= 0 and self._lasts[place] >= last

    def add(self, number: int) -> bool:
        """Add a number that is not known yet. Return False if that would exceed `MOST_GAPS`."""
        firsts, lasts = self._firsts, self._lasts
        place = bisect_right(firsts, number)
        follows = place > 0 and lasts[place - 1] == number - 1
        precedes = place < len(firsts) and firsts[place] == number + 1
        if follows and precedes:
            lasts[place - 1] = lasts.pop(place)
            del firsts[place]
        elif follows:
            lasts[place - 1] = number
        elif precedes:
            firsts[place] = number
        elif len(firsts) > MOST_GAPS:
            return False
        else:
            firsts.insert(place, number)
            lasts.insert(place, number)
        self._count += 1
        return True


# A worker, and steps and values by (tensor, statistic)
Piece = tuple[str, Mapping[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float64]]]]


class RowTable:
    """Rows of one schema of one log, in the order they were read. `order` is the place of the log among others."""

    def __init__(self, schema: Schema, *, has_holes: bool, order: int) -> None:
        self.schema, self.order = schema, order
        self._dtype = schema.dtype(has_holes=has_holes)
        self._slab_bytes = max(1, _SLAB_BYTES // self._dtype.itemsize) * self._dtype.itemsize
        self._slabs = _Slabs(self._slab_bytes)
        self._parts: dict[tuple[int, int | None], list[_Part]] = {}
        self._ranges: list[tuple[int, int, bool]] = []
        self.count = 0

    def add(self, rows: Rows) -> None:
        """Keep a copy of the rows, which must be whole."""
        self._parts.clear()  # views of slabs, which do not grow while they are viewed
        self._slabs.append(rows.body)
        self.count += rows.count

    def rows_from(self, start: int) -> Iterator[NDArray[np.void]]:
        """Yield the rows from index `start` on. Views: drop them before more rows are added."""
        in_slab = self._slab_bytes // self._dtype.itemsize
        for number in range(start // in_slab, len(self._slabs)):
            yield self._rows(number)[max(0, start - number * in_slab) :]

    def cut(self, place: int, *, start: int, mode: int | None) -> list[_Cut]:
        """Return the column at `place`, of the rows from `start` on, in one mode or in all (None).

        Values that were not measured are left out.
        """
        if self._slabs.is_long:  # a part keeps its rows in memory
            return [_Part(rows, self.schema, order=self.order, mode=mode).cut(place) for rows in self.rows_from(start)]
        parts = self._parts.get((start, mode))
        if parts is None:
            parts = [_Part(rows, self.schema, order=self.order, mode=mode) for rows in self.rows_from(start)]
            self._parts[start, mode] = parts
        return [part.cut(place) for part in parts]

    @property
    def is_in_order(self) -> bool:
        """True if no row is of an earlier step than the row before."""
        ranges = self._known_ranges()
        return all(one[2] for one in ranges) and all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))

    @property
    def starts(self) -> list[int]:
        """The first step of each slab: from one to the next a reader has one slab in memory."""
        return [least for least, _, _ in self._known_ranges()]

    def rows_between(self, first: int, end: int, held: dict[int, NDArray[np.void]]) -> Iterator[NDArray[np.void]]:
        """Yield the rows of the steps from `first` on, before `end`, of a table in order.

        `held` are the slabs of the call before, by number: the same reader gives them back, so that a slab of a file is
        read once.
        """
        wanted = [number for number, (least, most, _) in enumerate(self._ranges) if least < end and most >= first]
        for number in [number for number in held if number not in wanted]:
            del held[number]
        for number in wanted:
            if number not in held:
                held[number] = self._rows(number)
            begin, stop = np.searchsorted(held[number]["step"], (first, end))
            if begin < stop:
                yield held[number][begin:stop]

    def _known_ranges(self) -> list[tuple[int, int, bool]]:
        """Return first and last step of each slab, and whether its steps ascend. Full slabs are looked at once."""
        whole = self.count * self._dtype.itemsize // self._slab_bytes
        found = self._ranges[:whole]
        for number in range(len(found), len(self._slabs)):
            steps = self._rows(number)["step"]
            ascends = bool((steps[1:] >= steps[:-1]).all())
            found.append((int(steps.min()), int(steps.max()), ascends))
        self._ranges = found
        return found

    def _rows(self, slab: int) -> NDArray[np.void]:
        return np.frombuffer(self._slabs[slab], self._dtype)


class _Slabs:
    """Bytes in pieces of one size, the last one maybe shorter: the full ones beyond `MOST_SLABS` are in a file."""

    def __init__(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._in_memory: list[bytearray] = []
        self._file: IO[bytes] | None = None
        self._in_file = 0
        self._has_disk = True
        self.is_long = False

    def __len__(self) -> int:
        return self._in_file + len(self._in_memory)

    def __getitem__(self, number: int) -> bytes | bytearray:
        if self._file is None or number >= self._in_file:
            return self._in_memory[number - self._in_file]
        self._file.seek(number * self._size_bytes)
        return self._file.read(self._size_bytes)

    def append(self, data: memoryview) -> None:
        """Keep a copy of the data."""
        while data:
            if not self._in_memory or len(self._in_memory[-1]) == self._size_bytes:
                self._make_room()
                self._in_memory.append(bytearray())
            room = self._size_bytes - len(self._in_memory[-1])
            self._in_memory[-1] += data[:room]
            data = data[room:]

    def _make_room(self) -> None:
        """Move full slabs into the file. Without room on the disk they stay in memory."""
        if len(self._in_memory) < MOST_SLABS or not self._has_disk:
            return
        self.is_long = True
        try:
            if self._file is None:
                import tempfile  # for long runs

                self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the table
                weakref.finalize(self, self._file.close)
            self._file.seek(self._in_file * self._size_bytes)
            for slab in self._in_memory:
                self._file.write(slab)
            self._file.flush()
        except OSError:
            self._has_disk = False
            return
        self._in_file += len(self._in_memory)
        self._in_memory.clear()


class _Part:
    """Rows of one slab, of one mode or of all. Columns that were measured together share their steps, computed once."""

    def __init__(self, rows: NDArray[np.void], schema: Schema, *, order: int, mode: int | None) -> None:
        self._rows, self.schema, self._order = rows, schema, order
        self._of_mode = None if mode is None else rows["mode"] == mode
        self._moments: dict[bytes, tuple[NDArray[np.bool_] | None, _Moments]] = {}

    def cut(self, place: int) -> _Cut:
        values, measured = column_of(self._rows, self.schema, place)
        key = b"" if measured is None else measured.tobytes()
        found = self._moments.get(key)
        if found is None:
            found = self._moments[key] = self._moments_of(measured)
        chosen, moments = found
        return _Cut(moments, values if chosen is None else values[chosen])

    def _moments_of(self, measured: NDArray[np.bool_] | None) -> tuple[NDArray[np.bool_] | None, _Moments]:
        masks = [mask for mask in (measured, self._of_mode) if mask is not None]
        chosen = np.logical_and.reduce(masks) if masks else None
        if chosen is not None and chosen.all():
            chosen = None
        rows = self._rows
        kept = (rows[name].copy() if chosen is None else rows[name][chosen] for name in ("step", "mode", "wall_time"))
        steps, modes, times = kept
        return chosen, _Moments(steps, modes, np.broadcast_to(np.int64(self._order), len(steps)), times)


class _Moments:
    """The steps of a piece of a column, with the order of rows for the same step. Its arrays are copies."""

    def __init__(self, *arrays: NDArray[Any]) -> None:
        self._arrays = arrays
        self.steps, self._modes, self._orders, self._times = arrays
        self.is_ascending = len(self.steps) < 2 or bool((self.steps[1:] > self.steps[:-1]).all())

    def where(self, chosen: NDArray[Any]) -> _Moments:
        return _Moments(*(array[chosen] for array in self._arrays))

    def latest(self) -> NDArray[np.intp]:
        """Return the places of the rows that count, by step and mode: the last row of the latest log."""
        order = np.lexsort((self._times, self._orders, self._modes, self.steps))
        steps, modes = self.steps[order], self._modes[order]
        is_last = np.append((steps[1:] != steps[:-1]) | (modes[1:] != modes[:-1]), True)
        found: NDArray[np.intp] = order[is_last]
        return found

    @staticmethod
    def joined(some: Sequence[_Moments]) -> _Moments:
        follow = (a.steps[-1:] < b.steps[:1] for a, b in itertools.pairwise(one for one in some if len(one.steps)))
        if all(one.is_ascending for one in some) and all(map(all, follow)):  # nothing has to be told apart
            steps = np.concatenate([one.steps for one in some])
            nothing = np.broadcast_to(np.int64(0), len(steps))
            return _Moments(steps, nothing, nothing, nothing)
        return _Moments(*(np.concatenate(arrays) for arrays in zip(*(one._arrays for one in some), strict=True)))


class _Cut:
    """A piece of a column."""

    def __init__(self, moments: _Moments, values: NDArray[np.float64]) -> None:
        self.moments, self.values = moments, values
        self.steps: NDArray[np.int64] = moments.steps
        self.is_ascending = moments.is_ascending

    def in_order(self) -> _Cut:
        """Return the piece ascending by step and mode, each pair once: the last row of the latest log counts."""
        if self.moments.is_ascending:
            return self
        places = self.moments.latest()
        return _Cut(self.moments.where(places), self.values[places])

    @staticmethod
    def joined(cuts: Sequence[_Cut]) -> _Cut:
        if len(cuts) == 1:
            return cuts[0]
        return _Cut(_Moments.joined([cut.moments for cut in cuts]), np.concatenate([cut.values for cut in cuts]))


class _Steps:
    """Steps of one or several columns. The first `count` never change: only more may follow."""

    def __init__(self) -> None:
        self.array, self.count = np.empty(0, np.int64), 0
        self._taken: tuple[int, weakref.ref[NDArray[np.int64]]] = 0, weakref.ref(self.array)
        self._view = self.array

    def take(self, start: int, new: NDArray[np.int64], *, most: int) -> bool:
        """Append `new` at `start`, or compare with the steps present. Return True if `new` lies at `start` now.

        `most` is the number of steps that are known to come, with those present.
        """
        if (
            start == self._taken[0] and new is self._taken[1]()
        ):  # as the column before, which was measured with this one
            return True
        end = start + len(new)
        if self.count == start:
            self.array = _with_room(self.array, start, max(end, most))
            self.array[start:end] = new
            self.count = end
            self._taken = start, weakref.ref(new)
            return True
        return self.count >= end and np.array_equal(self.array[start:end], new)

    def first(self, count: int) -> NDArray[np.int64]:
        """Return the first `count` steps, read-only. Columns that share them get the same object."""
        if len(self._view) != count or self._view.base is not self.array:
            self._view = self.array[:count]
            self._view.flags.writeable = False
        return self._view


class _SharedSteps:
    """The steps that most columns of the same tables have in common, kept in one array."""

    def __init__(self) -> None:
        self.latest = _Steps()

    def extended(self, steps: _Steps, start: int, new: NDArray[np.int64], *, most: int) -> _Steps:
        """Return steps that begin with the first `start` of `steps` and continue with `new`; see `_Steps.take`."""
        if steps.take(start, new, most=most):
            return steps
        wanted = np.concatenate((steps.array[:start], new))
        if not self.latest.take(0, wanted, most=most):
            self.latest = _Steps()
            self.latest.take(0, wanted, most=most)
        return self.latest


class _WorkerColumn:
    """One statistic of one tensor of one worker and mode (None: all), which grows with its tables.

    `shared` are the steps of other columns of the same tables and mode.
    """

    def __init__(self, tensor: str, statistic: str, worker: str, mode: int | None, *, shared: _SharedSteps) -> None:
        self._tensor, self._statistic, self._worker, self._mode = tensor, statistic, worker, mode
        self._taken: dict[RowTable, int] = {}
        self._shared, self._steps = shared, shared.latest
        self._values, self._count = np.empty(0), 0

    @property
    def size_bytes(self) -> int:
        return self._values.nbytes

    def up_to(self, last_step: int) -> Column | None:
        count = self._count
        if count and self._steps.array[count - 1] > last_step:
            count = int(np.searchsorted(self._steps.array[:count], last_step, side="right"))
        if not count:
            return None
        values = self._values[:count]
        values.flags.writeable = False
        return Column(self._tensor, self._worker, self._steps.first(count), values)

    def update(self, tables: Sequence[RowTable]) -> None:
        """Add new rows. If they do not lie after all present ones (a restart), build the column anew."""
        new = self._cuts(tables)
        if not new:
            return
        if self._count and new[0].steps[0] <= self._steps.array[self._count - 1]:
            # What was handed out are views of the arrays so far: new ones from here on.
            self._taken, self._values, self._count = {}, np.empty(0), 0
            new = self._cuts(tables) or new
        most = self._count + sum(len(cut.steps) for cut in new)
        self._values = _with_room(self._values, self._count, most)
        for cut in new:
            start, end = self._count, self._count + len(cut.steps)
            self._steps = self._shared.extended(self._steps, start, cut.steps, most=most)
            self._values[start:end] = cut.values
            self._count = end

    def _cuts(self, tables: Sequence[RowTable]) -> list[_Cut]:
        """Return the new rows in pieces that follow one another: joined only where they do not."""
        cuts: list[_Cut] = []
        for table in tables:
            start = self._taken.get(table, 0)
            if start < table.count:
                place = table.schema.positions[self._tensor, self._statistic]
                cuts += table.cut(place, start=start, mode=self._mode)
                self._taken[table] = table.count
        cuts = [cut for cut in cuts if len(cut.steps)]
        if all(cut.is_ascending for cut in cuts) and all(a.steps[-1] < b.steps[0] for a, b in itertools.pairwise(cuts)):
            return cuts
        return [_Cut.joined(cuts).in_order()]


class _Entry:
    """One statistic of one tensor of all workers."""

    def __init__(self) -> None:
        self.version = -1
        self.columns: dict[str, _WorkerColumn] = {}
        self.size_bytes = 0


class StatisticColumns:
    """The requested columns, up to `most_bytes`; beyond them the least recently used are dropped.

    Steps are not counted: columns share them, except columns that were not measured together with the others.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._size_bytes = 0
        self._entries: dict[tuple[str, str, str | None], _Entry] = {}
        self._shared: dict[tuple[str | None, tuple[RowTable, ...]], _SharedSteps] = {}

    def of(
        self,
        tensor: str,
        statistic: str,
        mode: str | None,
        *,
        tables: Mapping[str, Sequence[RowTable]],
        version: int,
        last_step: int,
    ) -> tuple[Column, ...]:
        """Return a column per worker of `tables`, by name. `version` changes with the tables."""
        identity = (tensor, statistic, mode)
        entry = self._entries.pop(identity, None) or _Entry()
        self._entries[identity] = entry  # the last is the one used latest
        if entry.version != version:
            self._update(entry, identity, tables)
            entry.version = version
        found = (column.up_to(last_step) for column in entry.columns.values())
        return tuple(column for column in found if column is not None)

    def trim(self, most_bytes: int) -> bool:
        """Drop all columns if they take more than this. Return True if they were dropped."""
        if self._size_bytes <= most_bytes:
            return False
        self._entries.clear()
        self._shared.clear()
        self._size_bytes = 0
        return True

    def _update(
        self, entry: _Entry, identity: tuple[str, str, str | None], tables: Mapping[str, Sequence[RowTable]]
    ) -> None:
        tensor, statistic, mode = identity
        number = None if mode is None else MODE_NUMBERS.get(mode, -1)
        for worker in sorted(tables):
            having = tuple(table for table in tables[worker] if (tensor, statistic) in table.schema.positions)
            if having:
                if worker not in entry.columns:
                    shared = self._shared.setdefault((mode, having), _SharedSteps())
                    entry.columns[worker] = _WorkerColumn(tensor, statistic, worker, number, shared=shared)
                entry.columns[worker].update(having)
        entry.columns = dict(sorted(entry.columns.items()))
        size_bytes = sum(column.size_bytes for column in entry.columns.values())
        self._size_bytes += size_bytes - entry.size_bytes
        entry.size_bytes = size_bytes
        while self._size_bytes > self._most_bytes and len(self._entries) > 1:
            self._size_bytes -= self._entries.pop(next(iter(self._entries))).size_bytes


def pieces_of(
    wanted: Sequence[tuple[str, str]],
    *,
    tables: Mapping[str, Sequence[RowTable]],
    first: int,
    last: int,
    mode: str | None,
) -> tuple[Iterator[Piece], list[tuple[str, str]]]:
    """Return recorded numbers a piece at a time, and those of `wanted` that have to be read as whole columns.

    The pieces of a worker follow one another by step. A column is read whole where a table of it is not in the order of
    steps.

    Args:
        wanted: Tensors and statistics.
        tables: The rows by worker.
        first: First step to read; some steps before it may come, too.
        last: Last step to read; some steps after it may come, too.
        mode: Mode of the steps; None for all.
    """
    number = None if mode is None else MODE_NUMBERS.get(mode, -1)
    in_order: dict[str, list[RowTable]] = {}
    whole: dict[tuple[str, str], None] = {}
    for worker, of_worker in sorted(tables.items()):
        having = [table for table in of_worker if not table.schema.positions.keys().isdisjoint(wanted)]
        in_order[worker] = [table for table in having if table.is_in_order]
        for table in having:
            if not table.is_in_order:
                whole.update(dict.fromkeys(one for one in wanted if one in table.schema.positions))

    def pieces() -> Iterator[Piece]:
        for worker, some in in_order.items():
            known = [one for one in wanted if one not in whole]
            having = [table for table in some if not table.schema.positions.keys().isdisjoint(known)]
            for rows in in_step_order(having, first=first, last=last):
                parts = [_Part(some, table.schema, order=table.order, mode=number) for table, some in rows]
                yield worker, _in_order_of_steps(parts, known)

    return pieces(), list(whole)


def in_step_order(
    tables: Sequence[RowTable], *, first: int = _FIRST_STEP, last: int = _LAST_STEP
) -> Iterator[list[tuple[RowTable, NDArray[np.void]]]]:
    """Yield the rows of several tables by ranges of steps, which follow one another; at most a slab of each at once.

    Args:
        tables: Tables in order.
        first: First step.
        last: Last step.
    """
    bounds = sorted({first, last + 1, *(step for table in tables for step in table.starts if first < step <= last)})
    held: dict[RowTable, dict[int, NDArray[np.void]]] = {table: {} for table in tables}
    for begin, end in itertools.pairwise(bounds):
        rows = [(table, some) for table in tables for some in table.rows_between(begin, end, held[table])]
        if rows:
            yield rows


def _in_order_of_steps(
    parts: Sequence[_Part], wanted: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Return the columns of some rows of several tables. Columns that were measured together share their steps."""
    known: dict[tuple[int, ...], _Join] = {}
    found = {}
    for one in wanted:
        cuts = [part.cut(place) for part in parts if (place := part.schema.positions.get(one)) is not None]
        cuts = [cut for cut in cuts if len(cut.steps)]
        if cuts:
            key = tuple(id(cut.moments) for cut in cuts)
            if key not in known:
                known[key] = _Join(cuts)
            found[one] = known[key].of(cuts)
    return found


class _Join:
    """The order in which cuts with the same moments stand in one piece."""

    def __init__(self, cuts: Sequence[_Cut]) -> None:
        moments = _Moments.joined([cut.moments for cut in cuts]) if len(cuts) > 1 else cuts[0].moments
        self._places = None if moments.is_ascending else moments.latest()
        self._steps = moments.steps if self._places is None else moments.steps[self._places]

    def of(self, cuts: Sequence[_Cut]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        values = np.concatenate([cut.values for cut in cuts]) if len(cuts) > 1 else cuts[0].values
        return self._steps, values if self._places is None else values[self._places]


def _with_room(array: NDArray[Any], count: int, needed: int) -> NDArray[Any]:
    """Return `array` if `needed` elements fit into it, else a larger copy of its first `count`."""
    if needed <= len(array):
        return array
    larger = np.empty(needed + needed // 8, array.dtype)
    larger[:count] = array[:count]
    return larger
