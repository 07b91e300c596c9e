"""Which steps of a run are saved, by whom, and where each tensor lies: found by listing, read once, never again."""

from __future__ import annotations

import bisect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from trackside.contracts.errors import KeyNotFoundError, RecordError
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    INDEX_PREFIX,
    index_prefix,
    parse_index_key,
)
from trackside.records.index_file import IndexEntry, ShapeEntry, decode_index
from trackside.storage.store import Store

# How many newer steps a step waits for a missing worker, as in the original (SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW).
INCOMPLETE_STEP_WINDOW = 1000
REMOTE_READS_AT_ONCE = 16
MOST_RECORD_BYTES = 1 << 34

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the tensors lie in an event file: name -> (start, length) in bytes. Steps that are alike share one.

    `shapes` are those that were saved by themselves, by tensor.
    """

    records: Mapping[str, tuple[int, int]]
    shapes: Mapping[str, ShapeEntry] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedStep:
    """What one worker saved at one step. `mode_step` counts the steps of that mode alone."""

    step: int
    worker: str
    mode: str
    event_key: str
    layout: Layout
    mode_step: int = 0


class StepIndex:
    """The index of a growing run. `refresh` costs one LIST and one GET per new index file, whatever came before.

    Steps outside [first_step, end_step) are passed over unread. A step waits for a missing worker until `window` newer
    ones are there (default `INCOMPLETE_STEP_WINDOW`).
    """

    def __init__(
        self,
        store: Store,
        *,
        report: Callable[[RecordError], None],
        first_step: int = 0,
        end_step: int | None = None,
        window: int | None = None,
    ) -> None:
        self._store = store
        self._report = report
        self._first_step, self._end_step = first_step, end_step
        self._window = INCOMPLETE_STEP_WINDOW if window is None else window
        self.steps: list[int] = []  # every step known, ascending
        self.arrivals: list[SavedStep] = []  # in the order found; ascending but for late workers
        self.late_until = 0  # arrivals before this index may be older than those before them
        self.names: set[str] = set()
        self.workers: set[str] = set()
        self.has_ended = False
        self.last_complete: int | None = None
        self._files: dict[int, dict[str, SavedStep | None]] = {}
        self._layouts: dict[tuple[tuple[IndexEntry, ...], tuple[ShapeEntry, ...]], Layout] = {}
        self._first_key = f"{index_prefix(first_step)}{first_step:012d}" if first_step else INDEX_PREFIX
        self._last_key = self._first_key
        self._lacking: set[int] = set()
        self._worker_count: int | None = None

    def refresh(self) -> bool:
        """Finds what is new; True if anything was. After the end of the run it asks nothing."""
        if self.has_ended:
            return False
        found, ended = self._scan()
        if ended:  # a step may have been written between the listing of its folder and that of the marker
            found_last, _ = self._scan()
            found = found or found_last
        self.has_ended = ended
        self._complete()
        return found or ended

    def expect_workers(self, count: int) -> None:
        """A step is complete once that many workers have saved it."""
        self._worker_count = count
        self._lacking = {step for step in self.steps[-self._window :] if self._lacks(step)}
        self._complete()

    def saved(self, step: int) -> Mapping[str, SavedStep]:
        """What each worker saved at `step`, as far as its index can be read."""
        return {worker: saved for worker, saved in self._files.get(step, {}).items() if saved is not None}

    def workers_at(self, step: int) -> frozenset[str]:
        """The workers that have saved `step`, with those whose index cannot be read."""
        return frozenset(self._files.get(step, ()))

    def has_unreadable_index(self, step: int) -> bool:
        """True if a worker's index of this step is there and cannot be read."""
        return None in self._files.get(step, {}).values()

    def complete_steps(self, *, after: int | None = None) -> Sequence[int]:
        """Complete steps above `after`, ascending."""
        if self.last_complete is None:
            return ()
        first = 0 if after is None else bisect.bisect_right(self.steps, after)
        return self.steps[first : bisect.bisect_right(self.steps, self.last_complete)]

    def _scan(self) -> tuple[bool, bool]:
        keys, ended = self._list()
        new = [(key, *found) for key in keys if (found := parse_index_key(key)) and self._wants(*found)]
        contents = in_parallel(self._store, self._read, [key for key, _, _ in new])
        newest_before = self.steps[-1] if self.steps else -1
        for (key, step, worker), content in zip(new, contents, strict=True):
            if content is not None:
                self._add(key, step, worker, content)
        if any(step < newest_before for _, step, _ in new):
            self.late_until = len(self.arrivals)
        self._last_key = max((self._last_key, *keys[-1:]))
        self._look_for_missing_workers({step for _, step, _ in new})
        return bool(new), ended

    def _list(self) -> tuple[list[str], bool]:
        """Index keys from the first step that still waits for a worker, and whether the run has ended: one LIST.

        The end marker sorts after the index, so the same listing shows it. Only where other things lie between the
        two (the original's `tensorboard/`) a second question is needed.
        """
        keys: list[str] = []
        for key in self._store.list("", start_after=self._start_after()):
            if not key.startswith(INDEX_PREFIX):
                return keys, key == END_MARKER_KEY or (key < END_MARKER_KEY and self._store.exists(END_MARKER_KEY))
            keys.append(key)
        return keys, False

    def _start_after(self) -> str:
        if not self._lacking:
            return self._last_key
        # From the last step before it: another worker may still bring a step in between.
        place = bisect.bisect_left(self.steps, min(self._lacking)) - 1
        return f"{index_prefix(self.steps[place])}{self.steps[place]:012d}" if place >= 0 else self._first_key

    def _wants(self, step: int, worker: str) -> bool:
        is_within = step >= self._first_step and (self._end_step is None or step < self._end_step)
        return is_within and worker not in self._files.get(step, ())

    def _read(self, key: str) -> bytes | None:
        try:
            return self._store.get(key)
        except KeyNotFoundError:  # removed since it was listed
            return None

    def _add(self, key: str, step: int, worker: str, content: bytes) -> None:
        if step not in self._files:
            self._files[step] = {}
            bisect.insort(self.steps, step)
        self.workers.add(worker)
        try:
            saved = self._decode(key, step, worker, content)
        except RecordError as error:  # the worker has come this far, though what it says cannot be read
            self._files[step][worker] = None
            self._report(error)
            return
        self._files[step][worker] = saved
        self.arrivals.append(saved)

    def _decode(self, key: str, step: int, worker: str, content: bytes) -> SavedStep:
        index = decode_index(content, key=key)
        for entry in index.entries:
            if not 0 < entry.length <= MOST_RECORD_BYTES:
                what = f"says that {entry.name!r} is {entry.length} bytes from byte {entry.start} on."
                raise RecordError(key, 0, what)
        layout = self._layouts.get((index.entries, index.shapes))
        if layout is None:
            records = {sys.intern(entry.name): (entry.start, entry.length) for entry in index.entries}
            shapes = {sys.intern(shape.name): shape for shape in index.shapes}
            layout = self._layouts[index.entries, index.shapes] = Layout(records, shapes)
            self.names.update(records)
        return SavedStep(step, worker, index.mode, index.event_key or "", layout, index.mode_step)

    def _lacks(self, step: int) -> bool:
        return self._worker_count is None or len(self._files[step]) < self._worker_count

    def _look_for_missing_workers(self, new: Iterable[int]) -> None:
        window = self.steps[-self._window :]
        waiting = {step for step in self._lacking.union(new) if self._lacks(step)}
        self._lacking = {step for step in waiting if step >= window[0]} if window else set()

    def _complete(self) -> None:
        """Moves `last_complete` on. Steps below a complete one are as complete as they will ever be."""
        if not self.steps:
            return
        start = 0 if self.last_complete is None else bisect.bisect_right(self.steps, self.last_complete)
        open_steps = self.steps[start:]
        if self.has_ended:
            done = len(open_steps)
        elif self._worker_count is None:  # no collections file yet: the newest step may still grow
            done = len(open_steps) - 1
        else:
            done = next((i + 1 for i in reversed(range(len(open_steps))) if not self._lacks(open_steps[i])), 0)
            if len(open_steps) - done > self._window:  # a worker is gone: wait no longer for the older half
                done = len(open_steps) - self._window // 2
        if done > 0:
            self.last_complete = open_steps[done - 1]


def in_parallel(store: Store, read: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`read` of each item, in order; at the same time where each read waits for a network."""
    if len(items) < 2 or "://" not in store.uri:
        return [read(item) for item in items]
    with ThreadPoolExecutor(min(REMOTE_READS_AT_ONCE, len(items))) as pool:
        return list(pool.map(read, items))
