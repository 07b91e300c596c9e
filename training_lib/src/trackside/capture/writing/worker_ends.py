"""Notes by which the end marker of a run waits for the last steps of its other workers.

A reader takes the marker for the end of everything. One worker writes it; each other leaves a note when it has stored
all its data. The wait is bounded, because a worker may have died and no collective call is used to find out.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from trackside.capture.writing.worker_lock import WorkerLock
from trackside.contracts.run_layout import STATE_PREFIX, collections_key, worker_end_key
from trackside.storage.store import Store

WAIT_SECONDS = 20.0  # for one that has written to the run; less than what the end of the process waits for us
UNSEEN_SECONDS = 2.0  # for one of which nothing is seen: perhaps it never trains, perhaps its first step comes now
INTERRUPTED_SECONDS = 2.0  # if the process must end soon
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 1.0


class WorkerEnds:
    """The notes of a run with `count` workers, `worker_0` and so on."""

    def __init__(
        self,
        worker: str,
        count: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._worker = worker
        self._others = [other for i in range(count) if (other := f"worker_{i}") != worker]
        self._monotonic, self._sleep = monotonic, sleep

    def begin(self, store: Store) -> None:
        """Remove the note of an earlier process of this worker. Errors: `OSError` of the store."""
        if self._others:
            store.delete(worker_end_key(self._worker))

    def note(self, store: Store) -> None:
        """Store the note that this worker has stored all its data. Errors: `OSError` of the store."""
        if self._others:
            store.put(worker_end_key(self._worker), b"")

    def wait(self, store: Store, *, is_interrupted: bool) -> tuple[str, ...]:
        """Wait for the notes of all other workers. Return the workers without one. Errors: `OSError`."""
        started, pause = self._monotonic(), FIRST_PAUSE_SECONDS
        most = INTERRUPTED_SECONDS if is_interrupted else WAIT_SECONDS
        missing = self._others
        while missing:
            noted = frozenset(store.list(STATE_PREFIX))
            missing = [worker for worker in missing if worker_end_key(worker) not in noted]
            waited = self._monotonic() - started
            if not any(self._is_expected(store, worker, waited) for worker in missing) or waited >= most:
                break
            self._sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return tuple(missing)

    def _is_expected(self, store: Store, worker: str, waited_seconds: float) -> bool:
        is_alive = WorkerLock(store, worker).is_held()
        if is_alive is not None:
            return is_alive
        return waited_seconds < UNSEEN_SECONDS or store.exists(collections_key(worker))
