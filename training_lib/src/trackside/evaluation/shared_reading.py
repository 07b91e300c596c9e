"""One trial read by the evaluator and by rules in threads of their own: one at a time, and each gets its turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.model_facts import ModelFacts
from trackside.trial.trial import Trial
from trackside.trial.window import Column, Panel, StepValues, TensorSource

T = TypeVar("T")

_TURN_SECONDS = 0.005  # of the evaluator, before it makes room
_ROOM_SECONDS = 0.0005  # long enough for a thread that waits for the lock to wake up with it


class Turns:
    """Whose turn it is to read the run. The evaluator holds `lock` while it judges, rules in threads for each read."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._waiting: set[int] = set()
        self._make_room_at = 0.0

    def read(self, ask: Callable[[], T]) -> T:
        """Reads from a rule's thread."""
        if self.lock.acquire(blocking=False):
            try:
                return ask()
            finally:
                self.lock.release()
        thread = threading.get_ident()
        self._waiting.add(thread)
        try:
            with self.lock:
                self._waiting.discard(thread)
                return ask()
        finally:
            self._waiting.discard(thread)

    def make_room(self) -> None:
        """Between two steps of the evaluator, which holds the lock once: a lock is not fair by itself."""
        if self._waiting and time.monotonic() >= self._make_room_at:
            with self.let_go():
                time.sleep(_ROOM_SECONDS)

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Meanwhile others may read. For the evaluator, which holds the lock once."""
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()
            self._make_room_at = time.monotonic() + _TURN_SECONDS


class SharedSource:
    """What a window reads from, for a rule in a thread of its own. `reading` is entered for as long as it reads."""

    def __init__(self, source: TensorSource, turns: Turns, reading: AbstractContextManager[None]) -> None:
        self._source, self._turns, self._reading = source, turns, reading

    @property
    def uri(self) -> str:
        """Where the run's tensors lie, for a rule that reads by itself; "" if there is no such place."""
        return self._source.uri if isinstance(self._source, Trial) else ""

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """As `TensorSource`."""
        return self._read(lambda: self._source.tensor_names(collection=collection, last_step=last_step))

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """As `TensorSource`."""
        return self._read(lambda: self._source.columns(tensor, statistic, last_step=last_step, mode=mode))

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """As `TensorSource`."""
        return self._read(lambda: self._source.at_step(tensors, statistic, step=step, mode=mode))

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """As `TensorSource`."""
        return self._read(lambda: self._source.newest(tensors, statistic, last=last, last_step=last_step, mode=mode))

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """As `TensorSource`. Whole tensors may take seconds, and a trial fetches them from several threads anyway."""
        with self._reading:
            return self._source.value(tensor, step=step, worker=worker)

    def facts_at(self, step: int) -> ModelFacts | None:
        """As `TensorSource`."""
        return self._read(lambda: self._source.facts_at(step))

    def _read(self, ask: Callable[[], T]) -> T:
        with self._reading:
            return self._turns.read(ask)
