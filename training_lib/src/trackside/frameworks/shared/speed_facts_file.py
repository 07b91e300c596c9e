"""The file of facts about a training's speed, stored now and then by the thread that writes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from trackside.contracts.run_layout import performance_key
from trackside.records.machine.performance_facts import PerformanceFacts, encode_performance
from trackside.storage.store import Store

FIRST_FLUSH_SECONDS, FLUSH_SECONDS = 2.0, 15.0


class SpeedFactsFile:
    """The file of one worker; see `BackgroundPart`. An inheriting class gathers the facts.

    Args:
        open_store: Opens the store of the run's profiles.
        worker: Name of the worker.
        monotonic: Returns seconds.
    """

    def __init__(
        self, open_store: Callable[[], Store], *, worker: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_store, self._worker, self._monotonic = open_store, worker, monotonic
        self._store: Store | None = None
        self._stored = PerformanceFacts()
        self._due_at: float | None = None  # from the writer's first look on: a run in S3 may take seconds to begin

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the next flush; see `BackgroundPart`."""
        now = self._monotonic()
        if self._due_at is None:
            self._due_at = now + FIRST_FLUSH_SECONDS
        return max(0.0, self._due_at - now)

    def flush_if_due(self) -> bool:
        """Store new facts, if it is time; see `BackgroundPart`. An outage passes, or `close` meets it."""
        if self.due_in_seconds:
            return False
        with contextlib.suppress(OSError):
            self.flush()
        return True

    def flush(self) -> None:
        """Store new facts; see `BackgroundPart`."""
        self._due_at = self._monotonic() + FLUSH_SECONDS
        facts = self._facts()
        if facts != self._stored:
            if self._store is None:
                self._store = self._open_store()
            self._store.put(performance_key(self._worker), encode_performance(facts))
            self._stored = facts

    def _facts(self) -> PerformanceFacts:
        """Return the facts as they are now."""
        raise NotImplementedError
