"""The files of a run that capture writes: steps, collections, the end marker. Runs on the writer thread."""

from __future__ import annotations

from collections.abc import Callable

from trackside.capture.collection import Membership
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
    step and is written again whenever a step brought a new tensor name.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        request: CaptureRequest,
        worker: str,
        num_workers: int,
        ends_run: bool,
    ) -> None:
        self._open_store = open_store
        self._request = request
        self._worker = worker
        self._num_workers = num_workers
        self._ends_run = ends_run
        self._membership = Membership(request)
        self._store: Store | None = None
        self._names: set[str] = set()
        self._names_stored: frozenset[str] | None = None

    def save(self, step: StepTensors) -> None:
        """Stores one step, then the collections file if names are new. Errors: `OSError`, `ConfigurationError`."""
        store = self._opened()
        files = encode_step(
            step.tensors,
            step=step.step,
            mode=step.mode,
            mode_step=step.mode_step,
            worker=self._worker,
            wall_time=step.wall_time,
        )
        write_step(store, files)
        self._names.update(name for name, _ in step.tensors)
        self._store_collections(store)

    def finish(self) -> None:
        """Stores the collections file if it is still due, and the end marker if this worker ends the run."""
        store = self._opened()
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
