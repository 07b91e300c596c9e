"""Rows of statistics in memory, as the bytes they came in, and the columns cut out of them on request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.records.modes import MODE_NUMBERS
from trackside.records.statistics_segment import Rows, Schema, column_of
from trackside.trial.window import Column

MOST_GAPS = 1 << 16  # in the numbers of one log; a log that was not made up has a few
_SLAB_BYTES = 1 << 20


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


class RowTable:
    """Rows of one schema of one log, in the order they were read. `order` is the place of the log among others."""

    def __init__(self, schema: Schema, *, has_holes: bool, order: int) -> None:
        self.schema, self.order = schema, order
        self._dtype = schema.dtype(has_holes=has_holes)
        self._slab_bytes = max(1, _SLAB_BYTES // self._dtype.itemsize) * self._dtype.itemsize
        self._slabs: list[bytearray] = []
        self._parts: dict[tuple[int, int | None], list[_Part]] = {}
        self.count = 0

    def add(self, rows: Rows) -> None:
        """Keep a copy of the rows, which must be whole."""
        self._parts.clear()  # views of slabs, which do not grow while they are viewed
        body = rows.body
        while body:
            if not self._slabs or len(self._slabs[-1]) == self._slab_bytes:
                self._slabs.append(bytearray())
            room = self._slab_bytes - len(self._slabs[-1])
            self._slabs[-1] += body[:room]
            body = body[room:]
        self.count += rows.count

    def rows_from(self, start: int) -> Iterator[NDArray[np.void]]:
        """Yield the rows from index `start` on. Views: drop them before more rows are added."""
        in_slab = self._slab_bytes // self._dtype.itemsize
        for number in range(start // in_slab, len(self._slabs)):
            rows = np.frombuffer(self._slabs[number], self._dtype)
            yield rows[max(0, start - number * in_slab) :]

    def cut(self, place: int, *, start: int, mode: int | None) -> list[_Cut]:
        """Return the column at `place`, of the rows from `start` on, in one mode or in all (None).

        Values that were not measured are left out.
        """
        parts = self._parts.get((start, mode))
        if parts is None:
            parts = [_Part(rows, self.schema, order=self.order, mode=mode) for rows in self.rows_from(start)]
            self._parts[start, mode] = parts
        return [part.cut(place) for part in parts]


class _Part:
    """Rows of one slab, of one mode or of all. Columns that were measured together share their steps, computed once."""

    def __init__(self, rows: NDArray[np.void], schema: Schema, *, order: int, mode: int | None) -> None:
        self._rows, self._schema, self._order = rows, schema, order
        self._of_mode = None if mode is None else rows["mode"] == mode
        self._moments: dict[bytes, tuple[NDArray[np.bool_] | None, _Moments]] = {}

    def cut(self, place: int) -> _Cut:
        values, measured = column_of(self._rows, self._schema, place)
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
        return chosen, _Moments(steps, modes, np.full(len(steps), self._order), times)


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
        return _Moments(*(np.concatenate(arrays) for arrays in zip(*(one._arrays for one in some), strict=True)))


class _Cut:
    """A piece of a column."""

    def __init__(self, moments: _Moments, values: NDArray[np.float64]) -> None:
        self._moments, self.values = moments, values
        self.steps: NDArray[np.int64] = moments.steps

    def in_order(self) -> _Cut:
        """Return the piece ascending by step and mode, each pair once: the last row of the latest log counts."""
        if self._moments.is_ascending:
            return self
        places = self._moments.latest()
        return _Cut(self._moments.where(places), self.values[places])

    @staticmethod
    def joined(cuts: Sequence[_Cut]) -> _Cut:
        if len(cuts) == 1:
            return cuts[0]
        return _Cut(_Moments.joined([cut._moments for cut in cuts]), np.concatenate([cut.values for cut in cuts]))


class _Steps:
    """Steps of one or several columns. The first `count` never change: only more may follow."""

    def __init__(self) -> None:
        self.array, self.count = np.empty(0, np.int64), 0
        self._taken: tuple[int, NDArray[np.int64]] = 0, self.array
        self._view = self.array

    def take(self, start: int, new: NDArray[np.int64]) -> bool:
        """Append `new` at `start`, or compare with the steps present. Return True if `new` lies at `start` now."""
        if new is self._taken[1] and start == self._taken[0]:  # as the column before, which was measured with this one
            return True
        end = start + len(new)
        if self.count == start:
            self.array = _with_room(self.array, start, end)
            self.array[start:end] = new
            self.count = end
            self._taken = start, new
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

    def extended(self, steps: _Steps, start: int, new: NDArray[np.int64]) -> _Steps:
        """Return steps that begin with the first `start` of `steps` and continue with `new`."""
        if steps.take(start, new):
            return steps
        wanted = np.concatenate((steps.array[:start], new))
        if not self.latest.take(0, wanted):
            self.latest = _Steps()
            self.latest.take(0, wanted)
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
        new = self._cut(tables)
        if new is None or not len(new.steps):
            return
        if self._count and new.steps[0] <= self._steps.array[self._count - 1]:
            # What was handed out are views of the arrays so far: new ones from here on.
            self._taken, self._values, self._count = {}, np.empty(0), 0
            new = self._cut(tables) or new
        start, end = self._count, self._count + len(new.steps)
        self._steps = self._shared.extended(self._steps, start, new.steps)
        self._values = _with_room(self._values, start, end)
        self._values[start:end] = new.values
        self._count = end

    def _cut(self, tables: Sequence[RowTable]) -> _Cut | None:
        cuts: list[_Cut] = []
        for table in tables:
            start = self._taken.get(table, 0)
            if start < table.count:
                place = table.schema.positions[self._tensor, self._statistic]
                cuts += table.cut(place, start=start, mode=self._mode)
                self._taken[table] = table.count
        return _Cut.joined(cuts).in_order() if cuts else None


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


def _with_room(array: NDArray[Any], count: int, needed: int) -> NDArray[Any]:
    """Return `array` if `needed` elements fit into it, else a larger copy of its first `count`."""
    if needed <= len(array):
        return array
    larger = np.empty(needed + needed // 8, array.dtype)
    larger[:count] = array[:count]
    return larger
