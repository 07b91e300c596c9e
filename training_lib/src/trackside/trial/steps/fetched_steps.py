"""Records of saved steps in a remote store: the second request for a small step fetches the whole step.

A set of rules needs a dozen tensors of each step, and each record by itself is a request. A user who follows one tensor
over many steps needs one record of each step, and fetches no more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from trackside.records.step_file import fetch_record
from trackside.storage.store import Store
from trackside.trial.parallel import is_remote
from trackside.trial.steps.saved_step import Layout, SavedStep

MOST_STEP_BYTES = 16 << 20  # a transfer of a fifth of a second, as long as ten requests take
MOST_STEPS = 1024  # of which it is known whether they were asked for
MOST_BYTES = 64 << 20  # of steps that were fetched whole


class FetchedSteps:
    """Fetches records, and keeps whole steps. Safe to use from several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_remote = is_remote(store)
        self._steps: OrderedDict[str, _Step] = OrderedDict()
        self._sizes: dict[Layout, int] = {}
        self._lock = threading.Lock()

    def fetch(self, saved: SavedStep, *, start: int, length: int) -> bytes:
        """Return the bytes of a record, like `fetch_record`. Errors: those of the store."""
        if not self._is_remote or self._size_of(saved.layout) > MOST_STEP_BYTES:
            return fetch_record(self._store, saved.event_key, start=start, length=length)
        step = self._step(saved.event_key)
        with step.lock:  # who asks for the same step at the same time shares one answer
            if step.data is None and step.is_requested:
                step.data = self._store.get(saved.event_key, length=self._size_of(saved.layout))
                self._make_room(saved.event_key)
            step.is_requested = True
            if step.data is not None:
                return step.data[start : start + length]
        return fetch_record(self._store, saved.event_key, start=start, length=length)

    def forget(self, event_key: str) -> None:
        """Drop a step that has been written again, so that the next request fetches it anew."""
        with self._lock:
            self._steps.pop(event_key, None)

    def _step(self, key: str) -> _Step:
        with self._lock:
            step = self._steps.get(key)
            if step is None:
                step = self._steps[key] = _Step()
            self._steps.move_to_end(key)
            if len(self._steps) > MOST_STEPS:
                self._steps.popitem(last=False)
            return step

    def _make_room(self, newest: str) -> None:
        """Drop the least recently used steps until the rest fits into `MOST_BYTES`."""
        with self._lock:
            held = sum(len(step.data) for step in self._steps.values() if step.data is not None)
            for key in list(self._steps):
                if held <= MOST_BYTES or key == newest:
                    return
                held -= len(self._steps.pop(key).data or b"")

    def _size_of(self, layout: Layout) -> int:
        """Return the number of bytes up to the end of a step's last record."""
        size = self._sizes.get(layout)
        if size is None:
            size = self._sizes[layout] = max((start + length for start, length in layout.records.values()), default=0)
        return size


class _Step:
    """One event file: whether a record of it was requested, and its bytes if it was fetched whole."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.is_requested = False
        self.data: bytes | None = None
