"""The files of a run that capture writes: steps, collections, the end marker. Runs on the writer thread."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from trackside.capture.collection import Membership
from trackside.capture.packed_index import PackedIndexWriter
from trackside.capture.writer import StepTensors
from trackside.contracts import run_layout
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.records.collections_file import CollectionRecord, encode_collections
from trackside.records.step_file import encode_step, write_step
from trackside.storage.store import Store


class RunFiles:
    """Writes one worker's part of a run in smdebug's layout.

    The store is opened with the first step, on the thread that writes. The collections file follows the first stored
    step and is written again whenever a step brought a new tensor name. A packed index grows beside smdebug's.

    While a local run of one worker is being written, `claim.smd` lies in it: it tells the original smdebug, should it
    be loaded too, to keep its hands off. One that is already there never stops us: smdebug's own would be gone with its
    process, but for one that was killed, and nobody can tell that from one that lives.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        request: CaptureRequest,
        worker: str,
        num_workers: int,
        ends_run: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open_store = open_store
        self._request = request
        self._worker = worker
        self._num_workers = num_workers
        self._ends_run = ends_run
        self._membership = Membership(request)
        self._packed_index = PackedIndexWriter(worker, clock=clock)
        self._store: Store | None = None
        self._has_claimed = False
        self._names: set[str] = set()
        self._names_stored: frozenset[str] | None = None

    def save(self, step: StepTensors) -> None:
        """Stores one step, then the collections file if names are new. Errors: `OSError`, `ConfigurationError`."""
        store = self._opened()
        self._claim(store)
        files = encode_step(
            step.tensors,
            step=step.step,
            mode=step.mode,
            mode_step=step.mode_step,
            worker=self._worker,
            wall_time=step.wall_time,
        )
        self._packed_index.before_step(store, step.step)
        try:
            write_step(store, files)
        except OSError:
            self._packed_index.step_failed()
            raise
        self._packed_index.after_step(store, step, files)
        self._names.update(name for name, _ in step.tensors)
        self._store_collections(store)

    def finish(self) -> None:
        """Stores the collections file and the packed index if they are still due, and takes back the claim.

        Stores the end marker if this worker ends the run.
        """
        store = self._opened()
        if self._has_claimed:
            with contextlib.suppress(OSError):  # it says nothing about the run itself
                store.delete(run_layout.CLAIM_KEY)
        self._packed_index.finish(store)
        self._store_collections(store)
        if self._ends_run:
            store.put(run_layout.END_MARKER_KEY, b"")

    def _opened(self) -> Store:
        if self._store is None:
            store = self._open_store()
            if store.exists(run_layout.END_MARKER_KEY):
                raise ConfigurationError([_ended(store.uri)], subject="The run")
            self._store = store
        return self._store

    def _claim(self, store: Store) -> None:
        is_local = "://" not in store.uri
        if self._has_claimed or self._num_workers > 1 or not is_local:
            return
        with contextlib.suppress(OSError):  # the step is worth more; the next one tries again
            store.put(run_layout.CLAIM_KEY, b"")
            self._has_claimed = True

    def _store_collections(self, store: Store) -> None:
        names = frozenset(self._names)
        if names == self._names_stored:
            return
        store.put(run_layout.collections_key(self._worker), self._collections(names))
        self._names_stored = names

    def _collections(self, names: frozenset[str]) -> bytes:
        records = [
            CollectionRecord(
                name=name,
                include_regex=regexes,
                tensor_names=tuple(sorted(n for n in names if name in self._membership.of(n))),
                schedules={"TRAIN": asked.schedule} if (asked := self._request.collection(name)) else None,
            )
            for name, regexes in self._membership.regexes.items()
        ]
        return encode_collections(records, num_workers=self._num_workers)


def _ended(uri: str) -> Problem:
    return Problem(
        where=uri,
        what="holds a run that has ended.",
        fix=f"Name a new location, or remove {run_layout.END_MARKER_KEY} to add to this run.",
    )
