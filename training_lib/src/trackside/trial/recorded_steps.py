"""The steps with recorded statistics, their modes, and the tensors measured at them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.records.modes import MODE_NAMES
from trackside.records.statistics_segment import Schema
from trackside.trial.statistic_rows import RowTable

MOST_KINDS = 63  # rows of further kinds count as having the tensors of all of those
MOST_MASKS_AT_HAND = 4096
_OVERFLOW = np.uint64(1 << MOST_KINDS)

_Arrays = tuple[NDArray[Any], ...]  # steps, modes, kinds


class RecordedSteps:
    """The steps in the rows of all workers. An update costs only new rows.

    A step has one mode: of rows in several modes the one with the lowest number, TRAIN before EVAL. A kind of rows is
    the set of tensors with a measured value in them.
    """

    def __init__(self) -> None:
        self.last_by_worker: dict[str, int] = {}  # the newest step of each
        self.first_by_worker: dict[str, int] = {}
        self.first_steps: dict[str, int] = {}  # of each tensor, the first step at which anything of it was measured
        self.first_steps_version = 0
        self._first_by_tensors: dict[frozenset[str], int] = {}
        self._arrays: _Arrays = (np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint64))
        self._count = self._last_place = 0
        self._taken: dict[RowTable, int] = {}
        self._kinds: dict[frozenset[str], np.uint64] = {}
        self._beyond: frozenset[str] = frozenset()
        self._kinds_of_rows: dict[tuple[Schema, bytes], tuple[np.uint64, frozenset[str]]] = {}
        self._tensors: dict[int, frozenset[str]] = {}

    @property
    def steps(self) -> NDArray[np.int64]:
        """All steps, ascending. A view: drop it before more rows are added."""
        return self._arrays[0][: self._count]

    def update(self, tables: Mapping[str, Sequence[RowTable]]) -> None:
        """Add the new rows in the tables of each worker."""
        parts: list[_Arrays] = []
        for worker, of_worker in tables.items():
            for part in (part for table in of_worker for part in self._new_rows(table)):
                first, newest = int(part[0].min()), int(part[0].max())
                self.first_by_worker[worker] = min(first, self.first_by_worker.get(worker, first))
                self.last_by_worker[worker] = max(newest, self.last_by_worker.get(worker, -1))
                if self._count and first <= self.steps[-1]:
                    parts.append(part)
                else:  # mostly: so a run of a million steps is not in memory twice
                    self._add(part)
        if parts:
            self._add(tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def between(self, after: int, last: int) -> list[int]:
        """Return the steps above `after`, up to `last`."""
        first, end = np.searchsorted(self.steps, (after, last), side="right").tolist()
        found: list[int] = self.steps[first:end].tolist()
        return found

    def mode_of(self, step: int) -> str | None:
        """Return the mode of a step; None if it has no row."""
        place = self._place_of(step)
        return None if place is None else MODE_NAMES.get(int(self._arrays[1][place]))

    def tensors_at(self, step: int) -> frozenset[str]:
        """Return the tensors that any worker measured at the step. The same kind returns the same object."""
        place = self._place_of(step)
        if place is None:
            return frozenset()
        kinds = int(self._arrays[2][place])
        found = self._tensors.get(kinds)
        if found is None:
            known = (tensors for tensors, kind in self._kinds.items() if kinds & int(kind))
            beyond = self._beyond if kinds & int(_OVERFLOW) else frozenset[str]()
            found = self._tensors[kinds] = beyond.union(*known)
        return found

    def _place_of(self, step: int) -> int | None:
        """Return the place of a step in the arrays; None without a row. Mostly it follows the last one."""
        steps, count, place = self._arrays[0], self._count, self._last_place
        if place < count and steps[place] == step:
            return place
        place += 1
        if not (place < count and steps[place] == step):
            place = int(self.steps.searchsorted(step))
            if place >= count or steps[place] != step:
                return None
        self._last_place = place
        return place

    def _new_rows(self, table: RowTable) -> Iterator[_Arrays]:
        start = self._taken.get(table, 0)
        if start == table.count:
            return
        self._taken[table] = table.count
        for rows in table.rows_from(start):
            if len(rows):
                yield rows["step"].copy(), rows["mode"].copy(), self._kinds_in(rows, table.schema)

    def _kinds_in(self, rows: NDArray[np.void], schema: Schema) -> NDArray[np.uint64]:
        if "measured" not in (rows.dtype.names or ()):
            return np.full(len(rows), self._kind(schema, b"", first_step=int(rows["step"].min())))
        measured = np.ascontiguousarray(rows["measured"])
        masks, which = np.unique(measured.view(f"V{measured.shape[1]}")[:, 0], return_inverse=True)
        which = which.reshape(-1)
        firsts = np.full(len(masks), np.iinfo(np.int64).max)
        np.minimum.at(firsts, which, rows["step"])
        kinds = [
            self._kind(schema, mask.tobytes(), first_step=int(first)) for mask, first in zip(masks, firsts, strict=True)
        ]
        return np.array(kinds, np.uint64)[which]

    def _kind(self, schema: Schema, mask: bytes, *, first_step: int) -> np.uint64:
        """Return the kind of rows with this mask of measured columns (b"": all).

        Also lower the first steps of its tensors to `first_step`.
        """
        known = self._kinds_of_rows.get((schema, mask))
        if known is None:
            if len(self._kinds_of_rows) >= MOST_MASKS_AT_HAND:
                self._kinds_of_rows.clear()
            tensors = _measured(schema, mask)
            known = self._kinds_of_rows[schema, mask] = self._kind_of(tensors), tensors
        kind, tensors = known
        if self._first_by_tensors.get(tensors, first_step + 1) > first_step:
            self._learn_first_steps(tensors, first_step)
        return kind

    def _learn_first_steps(self, tensors: frozenset[str], step: int) -> None:
        self._first_by_tensors[tensors] = step
        earlier = {tensor: step for tensor in tensors if self.first_steps.get(tensor, step + 1) > step}
        if earlier:
            self.first_steps.update(earlier)
            self.first_steps_version += 1

    def _kind_of(self, tensors: frozenset[str]) -> np.uint64:
        kind = self._kinds.get(tensors)
        if kind is None and len(self._kinds) < MOST_KINDS:
            kind = self._kinds[tensors] = np.uint64(1 << len(self._kinds))
        if kind is None:
            kind = _OVERFLOW
            self._beyond |= tensors
            self._tensors.clear()
        return kind

    def _add(self, new: _Arrays) -> None:
        """Merge rows in. Most lie after all present rows."""
        first = int(np.searchsorted(self.steps, new[0].min()))
        if first < self._count:
            old = (array[first : self._count] for array in self._arrays)
            new = tuple(np.concatenate(pair) for pair in zip(old, new, strict=True))
        new = _joined(*new)
        count = first + len(new[0])
        if count > len(self._arrays[0]):
            room = count + count // 8
            self._arrays = tuple(np.concatenate((a[:first], np.empty(room - first, a.dtype))) for a in self._arrays)
        for array, values in zip(self._arrays, new, strict=True):
            array[first:count] = values
        self._count = count


def _measured(schema: Schema, mask: bytes) -> frozenset[str]:
    """Return the tensors with a measured value; all of them without a mask."""
    bits = np.unpackbits(np.frombuffer(mask, np.uint8), bitorder="little") if mask else None
    columns = enumerate(schema.columns)
    return frozenset(column.tensor for place, column in columns if bits is None or bits[place])


def _joined(steps: NDArray[np.int64], modes: NDArray[np.uint8], kinds: NDArray[np.uint64]) -> _Arrays:
    """Return the arrays ascending by step, each step once."""
    order = np.argsort(steps, kind="stable")
    steps, modes, kinds = steps[order], modes[order], kinds[order]
    firsts = np.flatnonzero(np.append(True, steps[1:] != steps[:-1]))
    return steps[firsts], np.minimum.reduceat(modes, firsts), np.bitwise_or.reduceat(kinds, firsts)
