"""The reading of a run's new files, and its complete steps: from watermarks, or by a search for runs without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trackside.contracts.run_layout import END_MARKER_KEY
from trackside.records.watermark import Watermark
from trackside.storage.store import Store
from trackside.trial.facts.model_facts import ModelFactsReader
from trackside.trial.recorded.recorded import Recorded
from trackside.trial.steps.membership import Membership
from trackside.trial.steps.step_index import StepIndex
from trackside.trial.steps.watermarks import Watermarks
from trackside.trial.tensors.tensor_names import TensorNames

_LAST_STEP = 2**63 - 1


class Completeness:
    """The state of a trial's reading.

    version  changes whenever a refresh brought a step, or completed one
    """

    def __init__(
        self,
        store: Store,
        *,
        index: StepIndex,
        membership: Membership,
        recorded: Recorded,
        facts: ModelFactsReader,
        names: TensorNames,
        watermarks: Watermarks | None,
        will_grow: bool,
    ) -> None:
        self._store, self._index, self._membership, self._recorded = store, index, membership, recorded
        self._facts, self._names, self._watermarks, self._will_grow = facts, names, watermarks, will_grow
        self._marks: Mapping[str, Watermark] = {}  # the files that they cover have been read
        self._gone: frozenset[str] = frozenset()
        self._through = -1  # the step up to which everything has been read, by the watermarks
        self._is_read_to_its_end = False
        self._newest_before = -1  # of a run without watermarks: the newest step at the last look
        self.version: tuple[int, int | None] = (0, None)

    @property
    def has_ended(self) -> bool:
        """True once the run will never write again and everything has been read."""
        return self._index.has_ended

    def refresh(self) -> None:
        """Read new data. Without any, this costs one conditional GET, or one LIST for a run without watermarks."""
        if self._is_read_to_its_end:
            self._facts.refresh()
            return
        watermarks = self._watermarks
        if watermarks is not None:
            watermarks.refresh()
        if watermarks is not None and watermarks.were_found:
            self._read_marked(watermarks)
        else:
            self._search()
        self._is_read_to_its_end = self._index.has_ended
        if self._recorded.has_any and self._recorded.steps is not None:
            again = self._recorded.steps.written_again
            while again:
                self._index.read_again(*again[-1])
                again.pop()
        version = len(self._index.arrivals) + self._index.replaced, self._index.last_complete
        if version != self.version:
            self.version = version

    def last_step(self) -> int:
        """Return the last complete step, saved or recorded; -1 for none."""
        last = self._index.last_complete
        return max(-1 if last is None else last, self.settled_step() if self._recorded.steps is not None else -1)

    def settled_step(self) -> int:
        """Return the last step at and below which nothing new will come."""
        if not self._is_growing:
            return self._newest_step()
        return self._through if self._marks else min(self._newest_step(), self._newest_before)

    def _newest_step(self) -> int:
        """Return the newest step that all workers have reached. In a run that grows no more, one worker is enough."""
        recorded = self._recorded.steps
        rows = recorded.last_by_worker.values() if recorded is not None else ()
        last = self._index.last_complete
        newest = (min if self._is_growing else max)(rows, default=-1)
        return max(-1 if last is None else last, newest)

    @property
    def _is_growing(self) -> bool:
        return self._will_grow and not self.has_ended

    def _read_marked(self, watermarks: Watermarks) -> None:
        """Read the files that the watermarks announce, and everything once the run has ended."""
        marks, known = watermarks.marks, self._marks
        has_ended = watermarks.is_end_marker_due() and self._store.exists(END_MARKER_KEY)
        # A worker that is gone may have stored more than its watermark covers; so may a process with a successor.
        is_search = has_ended or watermarks.gone != self._gone or _differ(marks, known, lambda mark: mark.started_ms)
        if marks == known and not is_search:
            return
        self._index.complete_through(self._through)  # until all of what is new has been read
        if is_search or _differ(marks, known, lambda mark: mark.saved_steps):
            self._index.refresh()
        is_search |= self._index.has_ended  # since it was asked for
        replaced = [
            worker for worker in marks if _differ({worker: marks[worker]}, known, lambda mark: mark.collections)
        ]
        for worker in replaced:
            self._membership.read_again(worker)
        if replaced or is_search:
            self._names.read_collections()
        self._recorded.refresh(newest=None if is_search else watermarks.segments)
        if is_search or _differ(marks, known, lambda mark: (mark.model_facts, mark.segments[-1:])):
            self._facts.refresh()
        self._through = watermarks.through if self._will_grow else _LAST_STEP
        self._index.complete_through(self._through)
        self._marks, self._gone = marks, watermarks.gone

    def _search(self) -> None:
        """Look for new files without watermarks.

        With the first file look for watermarks, which are stored before it.
        """
        if self._recorded.has_any:
            self._newest_before = self._newest_step()
        if self._watermarks is not None:
            self._index.complete_through(self._through)  # whether the run has watermarks is not known yet
        has_news = self._index.refresh()
        if (has_news and not self._membership.is_whole) or self._membership.worker_count is None:
            self._names.read_collections()
        if self._membership.worker_count is not None:
            self._index.expect_workers(self._membership.worker_count)
        self._recorded.refresh()
        self._facts.refresh()
        if self._watermarks is None or not (has_news or self._index.steps or self._recorded.has_any):
            return
        if self._watermarks.find():
            self._read_marked(self._watermarks)
        else:
            self._watermarks = None
            self._index.complete_through(None)


def _differ(
    marks: Mapping[str, Watermark], known: Mapping[str, Watermark], part: Callable[[Watermark], object]
) -> bool:
    return any(worker not in known or part(mark) != part(known[worker]) for worker, mark in marks.items())
