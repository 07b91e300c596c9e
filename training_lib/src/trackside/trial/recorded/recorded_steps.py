"""The steps with recorded statistics, their modes, and the tensors measured at them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.records.modes import MODE_NAMES
from trackside.records.statistics_segment import Schema
from trackside.trial.recorded.statistic_rows import RowTable, in_step_order

BLOCK_STEPS = 1 << 14  # that are packed together
MOST_KINDS = 63  # rows of further kinds count as having the tensors of all of those
MOST_MASKS_AT_HAND = 4096
_OVERFLOW = np.uint64(1 << MOST_KINDS)

_Arrays = tuple[NDArray[Any], ...]  # steps, modes, kinds


class RecordedSteps:
    """The steps in the rows of all workers. An update costs only new rows.

    A step has one mode: of rows in several modes the one with the lowest number, TRAIN before EVAL. A kind of rows is
    the set of tensors with a measured value in them. Memory: a byte or two for each step, less where steps follow one
    another and are of one mode and kind.
    """

    def __init__(self) -> None:
        self.last_by_worker: dict[str, int] = {}  # the newest step of each
        self.first_by_worker: dict[str, int] = {}
        self.first_steps: dict[str, int] = {}  # of each tensor, the first step at which anything of it was measured
        self.first_steps_version = 0
        self._first_by_tensors: dict[frozenset[str], int] = {}
        self._blocks: list[_Block] = []  # of whole blocks of steps, before the open one
        self._firsts: list[int] = []  # first step of each
        self._packed = 0  # steps in them
        self._open = _OpenBlock()
        self._taken: dict[RowTable, int] = {}
        self._processes: dict[str, tuple[int, int]] = {}  # of each worker the newest one, the last step before it
        # (worker, first and last step) of what a process that was started again wrote anew, after the first update.
        self.written_again: list[tuple[str, int, int]] = []
        self._kinds: dict[frozenset[str], np.uint64] = {}
        self._beyond: frozenset[str] = frozenset()
        self._kinds_of_rows: dict[tuple[Schema, bytes], tuple[np.uint64, frozenset[str]]] = {}
        self._tensors: dict[int, frozenset[str]] = {}

    def __len__(self) -> int:
        return self._packed + self._open.count

    @property
    def first(self) -> int | None:
        """The first step; None without any."""
        return self._firsts[0] if self._firsts else self._open.first

    def newest(self, last: int) -> int | None:
        """Return the last step up to `last`; None without any."""
        if (at := self._open.newest(last)) is not None:
            return at
        place = bisect_right(self._firsts, last) - 1
        if place < 0:
            return None
        steps = self._blocks[place].arrays()[0]
        return int(steps[np.searchsorted(steps, last, side="right") - 1])

    def update(self, tables: Mapping[str, Sequence[RowTable]]) -> None:
        """Add the new rows in the tables of each worker."""
        is_grown = bool(len(self))
        for rows in self._new_rows(tables):
            parts: list[_Arrays] = []
            for worker, table, some in rows:
                first, newest = int(some["step"].min()), int(some["step"].max())
                self._note_process(worker, table.order, first, newest, is_grown=is_grown)
                self.first_by_worker[worker] = min(first, self.first_by_worker.get(worker, first))
                self.last_by_worker[worker] = max(newest, self.last_by_worker.get(worker, -1))
                parts.append((some["step"].copy(), some["mode"].copy(), self._kinds_in(some, table.schema)))
            self._add(_joined(*map(np.concatenate, zip(*parts, strict=True))))

    def between(self, after: int, last: int) -> list[int]:
        """Return the steps above `after`, up to `last`."""
        found: list[int] = []
        for place in range(max(0, bisect_right(self._firsts, after) - 1), bisect_right(self._firsts, last)):
            found += _between(self._blocks[place].arrays()[0], after, last)
        return found + _between(self._open.steps, after, last)

    def mode_of(self, step: int) -> str | None:
        """Return the mode of a step; None if it has no row."""
        found = self._at(step)
        return None if found is None else MODE_NAMES.get(found[0])

    def tensors_at(self, step: int) -> frozenset[str]:
        """Return the tensors that any worker measured at the step. The same kind returns the same object."""
        at = self._at(step)
        if at is None:
            return frozenset()
        kinds = at[1]
        found = self._tensors.get(kinds)
        if found is None:
            known = (tensors for tensors, kind in self._kinds.items() if kinds & int(kind))
            beyond = self._beyond if kinds & int(_OVERFLOW) else frozenset[str]()
            found = self._tensors[kinds] = beyond.union(*known)
        return found

    def _at(self, step: int) -> tuple[int, int] | None:
        """Return mode and kinds of a step; None without a row."""
        if self._open.count and step >= self._open.steps[0]:
            return self._open.at(step)
        place = bisect_right(self._firsts, step) - 1
        return self._blocks[place].at(step) if place >= 0 else None

    def _note_process(self, worker: str, process: int, first: int, newest: int, *, is_grown: bool) -> None:
        known, end = self._processes.get(worker, (process, -1))
        if process > known:
            end = self.last_by_worker[worker]
        self._processes[worker] = max(process, known), end
        if is_grown and process >= known and first <= end:
            self.written_again.append((worker, first, min(newest, end)))

    def _new_rows(
        self, tables: Mapping[str, Sequence[RowTable]]
    ) -> Iterator[list[tuple[str, RowTable, NDArray[np.void]]]]:
        """Yield the new rows of all workers, some at once: the first time in the order of steps, as far as they are."""
        starts = {table: self._taken.get(table, 0) for some in tables.values() for table in some}
        self._taken.update({table: table.count for table in starts})
        unread = {table for table, start in starts.items() if start == 0 and table.count and table.is_in_order}
        worker_of = {table: worker for worker, some in tables.items() for table in some}
        for part in in_step_order([table for table in starts if table in unread]):
            yield [(worker_of[table], table, rows) for table, rows in part]
        for table, start in starts.items():
            if table not in unread and start < table.count:
                for rows in table.rows_from(start):
                    if len(rows):
                        yield [(worker_of[table], table, rows)]

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
        """Merge rows in, ascending by step. Most lie after all present rows."""
        first = int(new[0][0])
        if self._blocks and first <= self._blocks[-1].last:  # late rows, into packed steps
            new = self._unpacked(max(0, bisect_right(self._firsts, first) - 1), new)
        self._open.add(new)
        while self._open.count >= 2 * BLOCK_STEPS:
            block = self._open.take(BLOCK_STEPS)
            self._blocks.append(block)
            self._firsts.append(block.first)
            self._packed += BLOCK_STEPS

    def _unpacked(self, place: int, new: _Arrays) -> _Arrays:
        """Take the blocks from `place` on out, and return their steps with the new ones and those of the open block."""
        blocks, self._blocks, self._firsts = self._blocks[place:], self._blocks[:place], self._firsts[:place]
        self._packed = len(self._blocks) * BLOCK_STEPS
        opened, self._open = self._open, _OpenBlock()
        arrays = [*(block.arrays() for block in blocks), opened.arrays(), new]
        return _joined(
            *(np.concatenate([array.astype(some[0].dtype) for array in some]) for some in zip(*arrays, strict=True))
        )


@dataclass(frozen=True, eq=False)
class _Block:
    """Packed steps: what is the same in all of them is one number.

    first, last   the first and the last step
    steps   None if all steps from the first to the last are in it
    modes   a mode, or that of each step
    words   the kinds that occur
    kinds   the place of each step's kinds among them; None for a single one
    """

    first: int
    last: int
    steps: NDArray[np.int64] | None
    modes: NDArray[np.uint8]
    words: NDArray[np.uint64]
    kinds: NDArray[Any] | None

    @classmethod
    def of(cls, steps: NDArray[np.int64], modes: NDArray[np.uint8], kinds: NDArray[np.uint64]) -> _Block:
        first, last = int(steps[0]), int(steps[-1])
        words, places = np.unique(kinds, return_inverse=True)
        return cls(
            first,
            last,
            None if last - first + 1 == len(steps) else steps.copy(),
            modes[:1].copy() if (modes == modes[0]).all() else modes.copy(),
            words,
            None if len(words) == 1 else places.reshape(-1).astype(np.uint8 if len(words) < 256 else np.uint16),
        )

    def at(self, step: int) -> tuple[int, int] | None:
        """Return mode and kinds of a step; None if it is not in the block."""
        place = step - self.first
        if self.steps is not None:
            place = int(np.searchsorted(self.steps, step))
            if place == len(self.steps) or self.steps[place] != step:
                return None
        elif step > self.last:
            return None
        mode = self.modes[place] if len(self.modes) > 1 else self.modes[0]
        return int(mode), int(self.words[0 if self.kinds is None else self.kinds[place]])

    def arrays(self) -> _Arrays:
        """Return steps, modes and kinds."""
        steps = np.arange(self.first, self.last + 1, dtype=np.int64) if self.steps is None else self.steps
        modes = self.modes if len(self.modes) == len(steps) else np.repeat(self.modes, len(steps))
        kinds = np.repeat(self.words, len(steps)) if self.kinds is None else self.words[self.kinds]
        return steps, modes, kinds


class _OpenBlock:
    """The newest steps, to which more are added."""

    def __init__(self) -> None:
        self._arrays: _Arrays = (np.empty(0, np.int64), np.empty(0, np.uint8), np.empty(0, np.uint64))
        self.count = self._last_place = 0

    @property
    def first(self) -> int | None:
        return int(self._arrays[0][0]) if self.count else None

    @property
    def steps(self) -> NDArray[np.int64]:
        return self._arrays[0][: self.count]

    def arrays(self) -> _Arrays:
        return tuple(array[: self.count] for array in self._arrays)

    def newest(self, last: int) -> int | None:
        place = int(np.searchsorted(self.steps, last, side="right")) - 1
        return int(self.steps[place]) if place >= 0 else None

    def at(self, step: int) -> tuple[int, int] | None:
        """Return mode and kinds of a step; None without it. Mostly it follows the last one."""
        steps, count, place = self._arrays[0], self.count, self._last_place
        if not (place < count and steps[place] == step):
            place += 1
            if not (place < count and steps[place] == step):
                place = int(self.steps.searchsorted(step))
                if place >= count or steps[place] != step:
                    return None
            self._last_place = place
        return int(self._arrays[1][place]), int(self._arrays[2][place])

    def add(self, new: _Arrays) -> None:
        """Merge rows in, ascending by step."""
        first = int(np.searchsorted(self.steps, new[0][0]))
        if first < self.count:
            old = (array[first : self.count] for array in self._arrays)
            new = _joined(*(np.concatenate(pair) for pair in zip(old, new, strict=True)))
        count = first + len(new[0])
        if count > len(self._arrays[0]):
            room = count + count // 8
            self._arrays = tuple(np.concatenate((a[:first], np.empty(room - first, a.dtype))) for a in self._arrays)
        for array, values in zip(self._arrays, new, strict=True):
            array[first:count] = values
        self.count = count

    def take(self, count: int) -> _Block:
        """Pack the first `count` steps, and forget them here."""
        block = _Block.of(*(array[:count] for array in self._arrays))
        self._arrays = tuple(array[count : self.count].copy() for array in self._arrays)
        self.count, self._last_place = self.count - count, 0
        return block


def _between(steps: NDArray[np.int64], after: int, last: int) -> list[int]:
    first, end = np.searchsorted(steps, (after, last), side="right").tolist()
    found: list[int] = steps[first:end].tolist()
    return found


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
