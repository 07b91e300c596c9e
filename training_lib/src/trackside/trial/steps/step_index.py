"""The saved steps of a run, by worker: found by listing, read once, never again."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Mapping, Sequence

from trackside.contracts.errors import RecordError
from trackside.contracts.run_layout import INDEX_PREFIX, index_prefix, parse_index_key
from trackside.storage.store import Store
from trackside.trial.steps.index_files import FoundStep, IndexFiles
from trackside.trial.steps.membership import Membership
from trackside.trial.steps.packed_index import PackedWorker
from trackside.trial.steps.saved_step import Layout, SavedStep
from trackside.trial.steps.step_completion import StepCompletion

_LAST_SORTED_STEP = 10**12 - 1  # keys of larger ones do not sort as their numbers
_AFTER_INDEX = INDEX_PREFIX[:-1] + chr(ord("/") + 1)  # sorts behind every key of the index, before the packed index


class StepIndex:
    """The index of a growing run. A `refresh` costs one LIST and one GET per new index file, whatever came before.

    The first refresh reads the packed index, if any, and lists smdebug's index only after the steps that the packed
    index is known to hold; so does a later refresh that finds many new steps. Steps missing from a packed index are
    read from smdebug's.

    report      called with each damaged file
    first_step  steps before it are ignored unread
    end_step    this step and later ones are ignored unread; None: no end
    window      newer steps after which a step no longer waits for a missing worker; None: that of `StepCompletion`
    membership  the run's workers; refreshed here if given
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
        self._membership = membership or Membership(store, report=lambda _: None)  # its own reader reports damage
        self.steps: list[int] = []  # every step known, ascending
        self.arrivals: list[SavedStep] = []  # in the order found; ascending but for late workers
        self.late_until = 0  # arrivals before this index may be older than those before them
        self.first_steps: dict[str, int] = {}  # of every name that was saved, the first step at which it was
        self.first_steps_version = 0
        self.first_by_worker: dict[str, int] = {}  # the first step of each worker
        self.has_ended = False
        self.replaced = 0  # steps whose index was read again and is another one
        self._files: dict[int, dict[str, SavedStep | None]] = {}
        self._completion = StepCompletion(self.steps, self._files, window=window)
        self._first_by_layout: dict[Layout, int] = {}
        self._first_key = f"{index_prefix(first_step)}{first_step:012d}" if first_step else INDEX_PREFIX
        self._last_key = ""  # nothing has been listed yet
        self._read_again: set[tuple[int, str]] = set()

    @property
    def names(self) -> Collection[str]:
        """Every saved name, including names of reductions."""
        return self.first_steps.keys()

    @property
    def last_complete(self) -> int | None:
        """The last complete step; None before the first."""
        return self._completion.last

    @property
    def workers(self) -> Collection[str]:
        """Every worker that saved anything."""
        return self.first_by_worker.keys()

    def complete_through(self, step: int | None) -> None:
        """Set the complete steps by the watermarks: all up to `step`, and none after it before the end.

        None for a run without watermarks.
        """
        if self._completion.set_through(step):
            self._completion.advance(has_ended=self.has_ended)

    def refresh(self) -> bool:
        """Read new steps. Return True if anything was new. After the end of the run it reads nothing.

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
            self._completion.advance(has_ended=self.has_ended)
        return found or ended

    def expect_workers(self, count: int) -> None:
        """Set the number of workers: a step is complete once that many have saved it."""
        if self._completion.expect_workers(count):
            self._completion.advance(has_ended=self.has_ended)

    def reread(self, step: int, worker: str) -> SavedStep | None:
        """Read smdebug's index of a step again. Return it if it differs from the known one, else None.

        For a reader with a record that is not at its place: the step was written again, after this index or the packed
        one was read. Done once for each step and worker. Tensors may have come or gone. Errors: those of the store.
        """
        if (step, worker) in self._read_again:
            return None
        newer = self._renewed(step, worker)
        self._read_again.add((step, worker))
        return newer

    def read_again(self, worker: str, first: int, last: int) -> None:
        """Read smdebug's index of a worker's known steps again, from `first` to `last`: a later process wrote them.

        Errors: those of the store.
        """
        for step in self.steps[bisect.bisect_left(self.steps, first) : bisect.bisect_right(self.steps, last)]:
            self.replaced += self._renewed(step, worker) is not None

    def _renewed(self, step: int, worker: str) -> SavedStep | None:
        known = self._files.get(step, {}).get(worker)
        if known is None:
            return None
        saved = self._index_files.read_one(step, worker)
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
        """Return the saved step of each worker at `step`, without unreadable ones."""
        return {worker: saved for worker, saved in self._files.get(step, {}).items() if saved is not None}

    def saved_by(self, step: int, worker: str) -> SavedStep | None:
        """Return one worker's saved step; None if it saved nothing or its index cannot be read."""
        files = self._files.get(step)
        return files.get(worker) if files is not None else None

    def is_saved(self, step: int) -> bool:
        """Return True if a worker saved `step`, even with an unreadable index."""
        return bool(self._files.get(step))

    def workers_at(self, step: int) -> frozenset[str]:
        """Return the workers that saved `step`, including ones with an unreadable index."""
        return frozenset(self._files.get(step, ()))

    def has_unreadable_index(self, step: int) -> bool:
        """Return True if a worker's index of this step exists but cannot be read."""
        return None in self._files.get(step, {}).values()

    def complete_steps(self, *, after: int | None = None) -> Sequence[int]:
        """Return the complete steps above `after`, ascending."""
        if self.last_complete is None:
            return ()
        first = 0 if after is None else bisect.bisect_right(self.steps, after)
        return self.steps[first : bisect.bisect_right(self.steps, self.last_complete)]

    def _open(self) -> tuple[bool, bool, bool]:
        """Read the packed index, then scan for the first time.

        Return the result of `_scan`, and True if nothing can have come meanwhile.
        """
        listed = self._index_files.listed(_AFTER_INDEX)
        packed = self._index_files.packed(listed.packed)
        found, ended = self._scan(self._behind(packed), packed)
        return found, ended, ended and listed.has_ended

    def _scan(self, start_after: str, packed: Sequence[PackedWorker] | None = None) -> tuple[bool, bool]:
        """Add the packed steps, and the steps of smdebug's index after a key.

        Return (anything was new, the run has ended).
        """
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
            self._completion.look_for_missing_workers({step for step, _, _ in found_now})
        return bool(found_now), listed.has_ended

    def _start_after(self) -> str:
        lacking = self._completion.first_lacking
        if lacking is None:
            return self._last_key
        # From the last step before it: another worker may still bring a step in between.
        place = bisect.bisect_left(self.steps, lacking) - 1
        return _before_step(self.steps[place]) if place >= 0 else self._first_key

    def _behind(self, packed: Sequence[PackedWorker]) -> str:
        """Return the key after which steps may lie that are not packed."""
        if not packed:
            return self._first_key
        if not self._membership.is_whole:
            self._membership.refresh()
        if self._completion.worker_count is None:
            self._completion.worker_count = self._membership.worker_count
        packed_workers = {each.worker for each in packed}
        is_whole = self._membership.is_whole and packed_workers >= self._membership.workers
        is_whole = is_whole and len(packed_workers) >= (self._completion.worker_count or 0)
        last = min(-1 if each.covered_step is None else each.covered_step for each in packed)
        if not is_whole or not 0 <= last <= _LAST_SORTED_STEP:
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
            if isinstance(saved, RecordError):  # the worker has reached this step, with an unreadable index
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


def _before_step(step: int) -> str:
    """Return a key that sorts before every index of the step, and after those of earlier steps."""
    return f"{index_prefix(step)}{step:012d}"


def _place_of(saved: SavedStep, arrivals: Sequence[SavedStep], late_until: int) -> int:
    """Return the place of a step in `arrivals`, which ascend from `late_until` on."""
    place = bisect.bisect_left(arrivals, saved.step, lo=late_until, key=lambda each: each.step)
    try:
        return arrivals.index(saved, place)
    except ValueError:
        return arrivals.index(saved)
