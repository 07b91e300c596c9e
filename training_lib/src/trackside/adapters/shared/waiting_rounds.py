"""Rounds that have ended and are recorded together: a quarter of a second of them at a time.

To record one costs 150 us where the training has pushed our code out of the caches, and a fifth of that right after
another. All that is recorded of a round in which nothing is saved are its metrics, and those are kept by the library,
or here, until then: nothing is lost or thinned. A round that saves anything ends the wait, and is recorded at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from trackside.capture.ground.one_at_a_time import OneAtATime
from trackside.capture.session import RunSession
from trackside.profiling.windows import ProfilingWindows

WAIT_SECONDS = 0.25
MOST_WAITING = 256  # rounds
FLUSH_SECONDS = 1.0  # after so long a pause between two rounds those before it are recorded by the writer's thread
TURN_SECONDS = 1.0  # how long a thread waits for another that records; that takes milliseconds

Round = TypeVar("Round")


class WaitingRounds(Generic[Round]):
    """The rounds that wait. It is a part of the writer's thread; see `BackgroundPart`.

    Args:
        session: The run.
        windows: The windows of detailed profiling: they open and close right at the end of a round.
        record: Records rounds, the oldest first. Never raises.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        session: RunSession,
        windows: ProfilingWindows,
        record: Callable[[deque[Round]], None],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session, self._windows, self._record, self._monotonic = session, windows, record, monotonic
        self._rounds: deque[Round] = deque()
        self._turn = OneAtATime()
        self._number = self._until = 0  # of the next round; of the first that may not wait
        self._recorded_at = 0.0

    def take(self, ended: Round) -> bool:
        """Let a round wait. Return False, with nothing done, if it is to be recorded by itself, as it saves something.

        Args:
            ended: The round.
        """
        if self._number >= self._until or self._number + 1 >= self._windows.watched_from:
            return False
        self.add(ended)
        if self._monotonic() - self._recorded_at >= WAIT_SECONDS:
            self.flush()
        return True

    def add(self, ended: Round) -> None:
        """Let a round wait, whatever it saves."""
        self._rounds.append(ended)
        self._number += 1

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Record the rounds that wait, and yield True if the next one is to be recorded after them, within the block.

        Yield False if another thread records for long. For the thread that trains.
        """
        with self._recording() as is_ours:
            yield is_ours
        if is_ours:
            self._number = self._session.engine.step

    @property
    def due_in_seconds(self) -> float:
        """Seconds until rounds have waited for long."""
        return max(0.0, self._recorded_at + FLUSH_SECONDS - self._monotonic()) if self._rounds else FLUSH_SECONDS

    def flush_if_due(self) -> bool:
        """Record rounds that no other round has followed for long."""
        if self.due_in_seconds:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Record the rounds that wait. Does nothing in a signal's handler that interrupts that."""
        with self._recording():
            pass

    def close(self) -> None:
        """Record the rounds that wait."""
        self.flush()

    @contextmanager
    def _recording(self) -> Iterator[bool]:
        with self._turn.taken(TURN_SECONDS) as is_ours:
            if is_ours and self._rounds:
                self._record(self._rounds)
            try:
                yield is_ours
            finally:
                if is_ours:
                    self._look_ahead()

    def _look_ahead(self) -> None:
        """Note which rounds may wait: those before the next that saves anything."""
        engine = self._session.engine
        self._recorded_at = self._monotonic()
        self._until = engine.step + min(MOST_WAITING, engine.steps_to_count())
