"""A simulated clock: what happens at which moment, in order; and processes that wait on it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator

# A process yields how many seconds it waits.
Process = Generator[float, None, None]


class Clock:
    """Time begins at `now` seconds since the epoch and passes only in `run`."""

    def __init__(self, now: float) -> None:
        self.now = now
        self._order = itertools.count()  # of two things at one moment the one that was planned first
        self._planned: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._planned, (self.now + max(seconds, 0.0), next(self._order), act))

    def start(self, process: Process) -> None:
        """Runs it at once, up to its first wait."""
        try:
            seconds = next(process)
        except StopIteration:
            return
        self.after(seconds, lambda: self.start(process))

    def run(self, *, until: float) -> None:
        """Lets time pass until nothing is planned any more, or until that moment."""
        while self._planned and self._planned[0][0] <= until:
            self.now, _, act = heapq.heappop(self._planned)
            act()
        self.now = max(self.now, min(until, self.now))
