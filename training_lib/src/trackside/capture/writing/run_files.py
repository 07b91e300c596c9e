"""The files of a run that capture writes: steps, collections, the end marker. Runs on the writer thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from trackside.capture.steps.collection import Membership
from trackside.capture.steps.step_engine import Position
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.collections_writer import CollectionsWriter
from trackside.capture.writing.lost_steps import LostSteps
from trackside.capture.writing.packed_index import PackedIndexWriter
from trackside.capture.writing.resumption import Agreement, Resumption
from trackside.capture.writing.step_writer import EncodedStep, StepWriter
from trackside.capture.writing.tensorboard import TensorBoardFiles
from trackside.capture.writing.watermark import WatermarkFile
from trackside.capture.writing.worker_ends import WorkerEnds
from trackside.capture.writing.worker_lock import WorkerLock
from trackside.contracts import run_layout
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.records.shards import Shard
from trackside.storage.store import AppendableStore, Store

_CLOCK_SECONDS = 0.01  # a file system's clock may be that late


class RunFiles:
    """One worker's part of a run, written in smdebug's layout.

    The store is opened with the first step, on the thread that writes. The collections file follows the first stored
    step and is written again whenever a step brings a new tensor name. A packed index grows beside smdebug's.

    While a local run of one worker is being written, it holds `claim.smd`: the original smdebug, if it is loaded too,
    then leaves the run alone. An existing claim never stops us: smdebug removes its own when its process ends, except
    after a kill, and a claim does not show which of the two holds.

    - `shards`: part of each sharded tensor that this worker saves, by name; it may grow while the run goes on
    - `position`: returns the progress of the training, for a process that resumes this run later; see `resume`
    - `restarts`: a process that is asked to stop leaves the run open, because it is expected to come back
    - `ends_elsewhere`: every process leaves the run open; its starter ends it, and may start another one in it
    - `agree`: is given a function that finds the position of earlier processes; returns the one that all workers use
    - `open_tensorboard`: opens the place of the files for TensorBoard
    - `regexes`: those of the built-in collections; None for smdebug's, as it has them for PyTorch
    - `ends`: the notes of other workers; the end marker waits for their last steps, a bounded time

    Lost steps are noted in the run. In a folder, a second process that would be the same worker at the same time is
    refused.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        request: CaptureRequest,
        worker: str,
        num_workers: int,
        ends_run: bool,
        shards: Mapping[str, Shard] | None = None,
        position: Callable[[], Position] | None = None,
        restarts: bool = False,
        ends_elsewhere: bool = False,
        agree: Agreement | None = None,
        open_tensorboard: Callable[[], Store] | None = None,
        ends: WorkerEnds | None = None,
        watermark: WatermarkFile | None = None,
        regexes: Mapping[str, str] | None = None,
        note_steps: Callable[[Iterable[tuple[int, str, int]]], object] = lambda steps: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open_store = open_store
        self._request = request
        self._worker = worker
        self._num_workers = num_workers
        self._ends_run = ends_run
        self._membership = Membership(request, regexes)
        self._packed_index = PackedIndexWriter(worker, clock=clock)
        self._steps = StepWriter(worker, self._membership)
        self._store: Store | None = None
        self._growing: AppendableStore | None = None  # the same, if its files can grow
        self._has_claimed = False
        self._collections = CollectionsWriter(
            worker, self._membership, num_workers=num_workers, shards={} if shards is None else shards
        )
        self._resumption = Resumption(
            self._opened, worker=worker, position=position, agree=agree, watermark=watermark, clock=clock
        )
        self._restarts, self._ends_elsewhere = restarts, ends_elsewhere
        self._is_removed = False
        self._stored_ahead: set[int] = set()  # numbers of steps in this process, which `save` is called with next
        self._last_saved_step: int | None = None
        folder = "" if ends_run else f"{worker}/"
        self._tensorboard = TensorBoardFiles(open_tensorboard, folder=folder) if open_tensorboard else None
        self._losses = LostSteps(worker, clock=clock)
        self._lock: WorkerLock | None = None
        self._ends = ends or WorkerEnds(worker, num_workers)
        self._watermark, self._note_steps = watermark, note_steps
        self.save_attempts = 0

    @property
    def stored_collections(self) -> int:
        """How often the collections file was stored."""
        return self._collections.times_stored

    def resume(self) -> Position:
        """Return the position at which an earlier process of this run stopped; the start if no process was before.

        Call it before any step is saved. Errors: `ConfigurationError` if the run has ended, or another process is
        writing it; `OSError`.
        """
        return self._resumption.resume()

    def open(self) -> None:
        """Open the run as this worker. Errors: as `resume`."""
        self._opened()

    def store_collections(self) -> None:
        """Store the collections file if it lacks what stored steps brought. Errors: `OSError`."""
        if self._collections.has_news or (self.save_attempts and not self._collections.times_stored):
            self._collections.store(self._opened())

    def resume_later(self) -> None:
        """Add the earlier position to step numbers here, because `resume` failed or took too long.

        The engine then counts from 0. Nothing is stored before the position is known, so that no earlier step is
        overwritten.
        """
        self._resumption.begin_later()

    def start(self) -> Position:
        """Return the position to add to the numbers of steps. Errors: as `resume`, if it is not known yet."""
        return self._resumption.start()

    def prepare(self, steps: Sequence[StepTensors]) -> None:
        """Store several steps at once as far as possible, so that `save` has less to do for each.

        `save` is then called with the same steps in this order. Errors: none of the store.
        """
        self._steps.clear()
        self._stored_ahead.clear()
        is_known = self._growing is not None and self._resumption.is_start_known
        if not is_known or self._is_removed or self._removed_at() is not None:
            return
        moved = [self._ready(step) for step in steps]
        is_begun = self._last_saved_step is not None and self._packed_index.needs_no_look(moved[0].step)
        with contextlib.suppress(OSError):  # which `save` meets again
            stored = self._steps.store_ahead(self._growing, moved, with_indexes=is_begun)  # type: ignore[arg-type] # it is known
            self._stored_ahead.update(step.step for step in steps[: len(stored)])
            self._note(self._opened(), stored)

    def save(self, step: StepTensors) -> None:
        """Store one step, then the collections file if names are new. Errors: `OSError`, `ConfigurationError`.

        A step counts as stored when its files are, even if the collections file fails.
        """
        if step.step in self._stored_ahead:
            self._stored_ahead.remove(step.step)
            return
        if self._is_removed or self._was_removed_with(step):
            return
        ahead = self._steps.pop(self._resumption.numbered(step).step) if self._resumption.is_start_known else None
        step = self._ready(step)
        store = self._opened()
        self._claim(store)
        self._packed_index.before_step(store, step.step)
        try:
            encoded = self._steps.write(store, self._growing, step, ahead)
        except OSError:
            self.save_attempts += 1
            self._packed_index.step_failed()
            raise
        self._note(store, [encoded])

    def _note(self, store: Store, stored: Sequence[EncodedStep]) -> None:
        """Note steps that are stored, and store what is due with them."""
        if not stored:
            return
        self.save_attempts += len(stored)
        for each in stored:
            self._packed_index.after_step(store, each.step, each.files)
            self._collections.note(each.step, others=self._steps.new_names(each.step))
            if self._tensorboard:
                self._tensorboard.add(each.step, each.content.histogram_names)
        self._last_saved_step = stored[-1].step.step
        self._note_steps([(each.step.step, each.step.mode, each.step.mode_step) for each in stored])
        self._losses.saved += len(stored)
        with contextlib.suppress(OSError):  # the file follows with a later step, or with the watermark
            self._collections.store(store)
        self._resumption.store_state(store, last_saved_step=self._last_saved_step)
        self._losses.report(store, first_step=self.start().step)

    def _ready(self, step: StepTensors) -> StepTensors:
        """Return the step with its numbers in the run, and with rows only where they are saved as they are."""
        step = self._resumption.numbered(step)
        if step.rows and (self._tensorboard or not self._steps.saves_rows(step)):
            return step.without_rows()
        return step

    def lost(self, step: int, reason: str) -> None:
        """Note a step that is not stored. The capture report of the run lists it."""
        self._losses.add(step, reason)

    def leave_open(self, *, is_gone: bool) -> bool:
        """Leave the run without its end: another writer of this process goes on. Safe to call from another thread.

        Store nothing more if the run was removed, and return True then. That is so if it is gone after a step of it was
        stored.
        """
        self._ends_elsewhere, self._is_removed = True, is_gone and self._last_saved_step is not None
        return self._is_removed

    def finish(self, *, is_interrupted: bool = False) -> None:
        """Store what is still due (collections file, packed index, files for TensorBoard), and remove the claim.

        Store the end marker if this worker ends the run, unless it was interrupted and is expected back.
        """
        try:
            if not self._is_removed:
                self._finish(is_interrupted)
        finally:
            if self._lock is not None:
                self._lock.release()

    def _finish(self, is_interrupted: bool) -> None:
        self.start()  # else what an earlier process has stored could be overwritten
        store = self._opened()
        if self._has_claimed:
            with contextlib.suppress(OSError):  # it has no information about the run itself
                store.delete(run_layout.CLAIM_KEY)
        self._packed_index.finish(store)
        self._collections.store(store)
        if self._tensorboard:
            self._tensorboard.store()
        self._losses.report(store, first_step=self.start().step, is_last=True)
        if self._ends_elsewhere or (is_interrupted and self._restarts):
            self._resumption.store_state(store, last_saved_step=self._last_saved_step, is_due=True)
        elif self._ends_run:
            self._ends.wait(store, is_interrupted=is_interrupted)
            store.put(run_layout.END_MARKER_KEY, b"")
        else:
            self._ends.note(store)

    def _removed_at(self) -> float | None:
        return self._lock.removed_at() if self._lock is not None else None

    def _was_removed_with(self, step: StepTensors) -> bool:
        """Return True if the run's folder was removed after this step: a reader would miss it.

        Steps are stored a little later than they end. Stored now, it would be taken for a step of the next run there.
        """
        removed_at = self._removed_at()
        if removed_at is None or self._lock is None:
            return False
        if step.wall_time <= removed_at + _CLOCK_SECONDS:
            return True
        self._lock.release()  # the training goes on, and fills the folder again
        self._lock.take()
        return False

    def _opened(self) -> Store:
        if self._store is None:
            store = self._open_store()
            if self._has_ended(store):
                raise ConfigurationError([_ended(store.uri)], subject="The run")
            self._lock = WorkerLock(store, self._worker)
            self._lock.take()
            self._ends.begin(store)
            if self._watermark is not None:
                self._watermark.announce()
            self._store = store
            self._growing = store if isinstance(store, AppendableStore) else None
        return self._store

    def _has_ended(self, store: Store) -> bool:
        """Return True if an earlier run lies here.

        In a short run the rank that ends it may finish before this one begins.
        """
        if not store.exists(run_layout.END_MARKER_KEY):
            return False
        return self._ends_run or store.exists(run_layout.collections_key(self._worker))

    def _claim(self, store: Store) -> None:
        is_local = "://" not in store.uri
        if self._has_claimed or self._num_workers > 1 or not is_local:
            return
        with contextlib.suppress(OSError):  # the step is worth more; the next one tries again
            store.put(run_layout.CLAIM_KEY, b"")
            self._has_claimed = True


class NoFiles:
    """A replacement of `RunFiles` for a worker that saves no tensors because one worker saves for all."""

    def save(self, step: StepTensors) -> None:
        """Do nothing."""

    def lost(self, step: int, reason: str) -> None:
        """Do nothing."""

    def finish(self, *, is_interrupted: bool = False) -> None:
        """Do nothing."""


def _ended(uri: str) -> Problem:
    return Problem(
        where=uri,
        what="holds a run that has ended.",
        fix=f"Name a new location, or remove {run_layout.END_MARKER_KEY} to add to this run.",
    )
