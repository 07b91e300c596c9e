"""The saved steps of a run, by worker: found by listing, read once, never again."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from trackside.contracts.errors import RecordError
from trackside.contracts.run_layout import INDEX_PREFIX, index_prefix, parse_index_key
from trackside.storage.store import Store
from trackside.trial.index_files import FoundStep, IndexFiles
from trackside.trial.membership import Membership
from trackside.trial.packed_index import PackedWorker
from trackside.trial.saved_step import Layout, SavedStep

# How many newer steps a step waits for a missing worker, as in the original (SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW).
INCOMPLETE_STEP_WINDOW = 1000

_LAST_SORTED_STEP = 10**12 - 1  # keys of larger ones do not sort as their numbers
_AFTER_INDEX = INDEX_PREFIX[:-1] + chr(ord("/") + 1)  # sorts behind every key of the index, before the packed index


class StepIndex:
    """The index of a growing run. `refresh` costs one LIST and one GET per new index file, whatever came before.

    The first one reads the packed index, where there is one, and lists smdebug's index only behind what that is known
    to hold; so does a later one that finds many new steps. Whatever a packed index lacks is read from smdebug's.

    Steps outside [first_step, end_step) are passed over unread. A step waits for a missing worker until `window` newer
    ones are there (default `INCOMPLETE_STEP_WINDOW`). `membership` says which workers the run has; one that is given is
    refreshed, and need not be read by anybody else.
    """

    def __init__(
        self,
        store: Store,
        *,
        report: Callable[[RecordError], None],
        first_step: int = 0,
        end_step: int | None = None,
        window: int | None = None,
        membership: Membership | None = None,
    ) -> None:
        self._index_files = IndexFiles(store, report=report)
        self._report = report
        self._first_step, self._end_step = first_step, end_step
        self._window = INCOMPLETE_STEP_WINDOW if window is None else window
        self._membership = membership or Membership(store, report=lambda _: None)  # whose own reader reports
        self.steps: list[int] = []  # every step known, ascending
        self.arrivals: list[SavedStep] = []  # in the order found; ascending but for late workers
        self.late_until = 0  # arrivals before this index may be older than those before them
        self.first_steps: dict[str, int] = {}  # of every name that was saved, the first step at which it was
        self.first_steps_version = 0
        self.first_by_worker: dict[str, int] = {}  # the first step of each worker
        self.has_ended = False
        self.last_complete: int | None = None
        self._files: dict[int, dict[str, SavedStep | None]] = {}
        self._first_by_layout: dict[Layout, int] = {}
        self._first_key = f"{index_prefix(first_step)}{first_step:012d}" if first_step else INDEX_PREFIX
        self._last_key = ""  # nothing has been listed yet
        self._lacking: set[int] = set()
        self._worker_count: int | None = None
        self._read_again: set[tuple[int, str]] = set()
        self._through: int | None = None

    @property
    def names(self) -> Collection[str]:
        """Every name that was saved, those of reductions included."""
        return self.first_steps.keys()

    @property
    def workers(self) -> Collection[str]:
        """Every worker that saved anything."""
        return self.first_by_worker.keys()

    def complete_through(self, step: int | None) -> None:
        """Say which steps are complete, where watermarks tell: all up to `step`, and none after it before the end.

        None where there are no watermarks.
        """
        if step != self._through:
            self._through = step
            self._complete()

    def refresh(self) -> bool:
        """Finds what is new; True if anything was. After the end of the run it asks nothing.

        Errors: those of the store; then nothing has changed.
        """
        if self.has_ended:
            return False
        if self._last_key:
            found, ended, is_all = *self._scan(self._start_after()), False
        else:
            found, ended, is_all = self._open()
        if ended and not is_all:  # a step may have been written between the listing of its folder and the marker's
            found_last, _ = self._scan(self._start_after())
            found = found or found_last
        self.has_ended = ended
        if found or ended:
            self._complete()
        return found or ended

    def expect_workers(self, count: int) -> None:
        """A step is complete once that many workers have saved it."""
        if count == self._worker_count:
            return
        self._worker_count = count
        self._lacking = {step for step in self.steps[-self._window :] if self._lacks(step)}
        self._complete()

    def reread(self, step: int, worker: str) -> SavedStep | None:
        """What smdebug's index says of a step now, where that is something else than what is known of it; else None.

        For a reader who has met a record that is not where it should be: the step was written again, after this index
        or the packed one was read. Once for each step and worker. Tensors may have come or gone. Errors: those of the
        store.
        """
        known = self._files.get(step, {}).get(worker)
        if known is None or (step, worker) in self._read_again:
            return None
        saved = self._index_files.read_one(step, worker)
        self._read_again.add((step, worker))
        if isinstance(saved, RecordError):
            self._report(saved)
            return None
        if saved is None or saved == known:
            return None
        self._files[step][worker] = saved
        self.arrivals[_place_of(known, self.arrivals, self.late_until)] = saved
        self._learn_names(saved)
        return saved

    def saved(self, step: int) -> Mapping[str, SavedStep]:
        """What each worker saved at `step`, as far as its index can be read."""
        return {worker: saved for worker, saved in self._files.get(step, {}).items() if saved is not None}

    def saved_by(self, step: int, worker: str) -> SavedStep | None:
        """What one worker saved at `step`; None if that is nothing, or its index cannot be read."""
        files = self._files.get(step)
        return files.get(worker) if files is not None else None

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

    def _open(self) -> tuple[bool, bool, bool]:
        """The first scan, after the packed index: what `_scan` says, and whether nothing can have come meanwhile."""
        listed = self._index_files.listed(_AFTER_INDEX)
        packed = self._index_files.packed(listed.packed)
        found, ended = self._scan(self._behind(packed), packed)
        return found, ended, ended and listed.has_ended

    def _scan(self, start_after: str, packed: Sequence[PackedWorker] | None = None) -> tuple[bool, bool]:
        """Adds what is packed and what smdebug's index has behind a key: (whether that was anything, the end)."""
        listed = self._index_files.listed(start_after)
        new = [(key, *found) for key in listed.index if (found := parse_index_key(key)) and self._wants(*found)]
        if packed is None:
            packed = self._index_files.packed_again(listed.packed, [(step, worker) for _, step, worker in new])
        unpacked = [saved for each in packed for saved in self._index_files.unpacked(each, is_wanted=self._wants)]
        known = {(saved.step, saved.worker) for saved in unpacked}
        if known:
            new = [(key, step, worker) for key, step, worker in new if (step, worker) not in known]
        found_now = [*((saved.step, saved.worker, saved) for saved in unpacked), *self._index_files.read(new)]
        self._add(found_now)  # all requests have been answered: from here on nothing fails
        self._last_key = max((self._last_key, start_after, *listed.index[-1:]))
        if found_now:
            self._look_for_missing_workers({step for step, _, _ in found_now})
        return bool(found_now), listed.has_ended

    def _start_after(self) -> str:
        if not self._lacking:
            return self._last_key
        # From the last step before it: another worker may still bring a step in between.
        place = bisect.bisect_left(self.steps, min(self._lacking)) - 1
        return _before_step(self.steps[place]) if place >= 0 else self._first_key

    def _behind(self, packed: Sequence[PackedWorker]) -> str:
        """The key behind which steps may lie that are not packed."""
        if not packed:
            return self._first_key
        if not self._membership.is_whole:
            self._membership.refresh()
        if self._worker_count is None:
            self._worker_count = self._membership.worker_count
        packed_workers = {each.worker for each in packed}
        is_whole = self._membership.is_whole and packed_workers >= self._membership.workers
        last = min(-1 if each.covered_step is None else each.covered_step for each in packed)
        if not is_whole or len(packed_workers) < (self._worker_count or 0) or not 0 <= last <= _LAST_SORTED_STEP:
            return self._first_key
        return max(self._first_key, _before_step(last))

    def _wants(self, step: int, worker: str) -> bool:
        is_within = step >= self._first_step and (self._end_step is None or step < self._end_step)
        return is_within and worker not in self._files.get(step, ())

    def _add(self, found: list[FoundStep]) -> None:
        found.sort(key=lambda each: each[:2])
        last = self.steps[-1] if self.steps else -1
        is_late = bool(found) and found[0][0] < last
        for step, worker, saved in found:
            files = self._files.get(step)
            if files is None:
                files = self._files[step] = {}
                if step > last:
                    self.steps.append(step)
                    last = step
                else:
                    bisect.insort(self.steps, step)
            self.first_by_worker[worker] = min(step, self.first_by_worker.get(worker, step))
            if isinstance(saved, RecordError):  # the worker has come this far, though what it says cannot be read
                files[worker] = None
                self._report(saved)
                continue
            files[worker] = saved
            self.arrivals.append(saved)
            self._learn_names(saved)
        if is_late:
            self.late_until = len(self.arrivals)

    def _learn_names(self, saved: SavedStep) -> None:
        step, layout = saved.step, saved.layout
        if self._first_by_layout.get(layout, step + 1) <= step:
            return
        self._first_by_layout[layout] = step
        earlier = {name: step for name in layout.records if self.first_steps.get(name, step + 1) > step}
        if earlier:
            self.first_steps.update(earlier)
            self.first_steps_version += 1

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
        elif self._through is not None:
            done = bisect.bisect_right(open_steps, self._through)
        elif self._worker_count is None:  # no collections file yet: the newest step may still grow
            done = len(open_steps) - 1
        else:
            done = next((i + 1 for i in reversed(range(len(open_steps))) if not self._lacks(open_steps[i])), 0)
            if len(open_steps) - done > self._window:  # a worker is gone: wait no longer for the older half
                done = len(open_steps) - self._window // 2
        if done > 0:
            self.last_complete = open_steps[done - 1]


def _before_step(step: int) -> str:
    """A key that sorts before every index of the step, and after those of steps before it."""
    return f"{index_prefix(step)}{step:012d}"


def _place_of(saved: SavedStep, arrivals: Sequence[SavedStep], late_until: int) -> int:
    """Return the place of a step in `arrivals`, which ascend from `late_until` on."""
    place = bisect.bisect_left(arrivals, saved.step, lo=late_until, key=lambda each: each.step)
    try:
        return arrivals.index(saved, place)
    except ValueError:
        return arrivals.index(saved)
