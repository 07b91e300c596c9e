"""Reading of one trial by the evaluator and by rules in threads: one at a time, none kept waiting for long."""

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

_HOLD_SECONDS = 0.005  # of the evaluator, before it lets readers in
_RELEASE_SECONDS = 0.0005  # long enough for a thread that waits for the lock to wake up with it


class RunLock:
    """The lock on a run, shared fairly.

    The evaluator holds `lock` while it judges, a rule's thread during each read.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._waiting: set[int] = set()
        self._let_readers_in_at = 0.0

    def read(self, read_now: Callable[[], T]) -> T:
        """Call `read_now` with the lock held, from a rule's thread, and return its result."""
        if self.lock.acquire(blocking=False):
            try:
                return read_now()
            finally:
                self.lock.release()
        thread = threading.get_ident()
        self._waiting.add(thread)
        try:
            with self.lock:
                self._waiting.discard(thread)
                return read_now()
        finally:
            self._waiting.discard(thread)

    def let_readers_in(self) -> None:
        """Let waiting threads read, between two steps of the evaluator, which holds the lock once.

        Locks are not fair.
        """
        if self._waiting and time.monotonic() >= self._let_readers_in_at:
            with self.released():
                time.sleep(_RELEASE_SECONDS)

    @contextmanager
    def released(self) -> Iterator[None]:
        """Release the lock within the block. For the evaluator, which holds it once."""
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()
            self._let_readers_in_at = time.monotonic() + _HOLD_SECONDS


class SharedSource:
    """A window's source for a rule in a thread of its own.

    source    the source to read
    run_lock  the lock on the run
    reading   entered during each read, to measure its time
    """

    def __init__(self, source: TensorSource, run_lock: RunLock, reading: AbstractContextManager[None]) -> None:
        self._source, self._run_lock, self._reading = source, run_lock, reading

    @property
    def uri(self) -> str:
        """Location of the run's tensors, for a rule that reads by itself; "" if the source is no trial."""
        return self._source.uri if isinstance(self._source, Trial) else ""

    def tensor_names(self, *, collection: str, last_step: int | None = None) -> tuple[str, ...]:
        """Implement `TensorSource.tensor_names`."""
        return self._read(lambda: self._source.tensor_names(collection=collection, last_step=last_step))

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Implement `TensorSource.columns`."""
        return self._read(lambda: self._source.columns(tensor, statistic, last_step=last_step, mode=mode))

    def at_step(self, tensors: Sequence[str], statistic: str, *, step: int, mode: str | None) -> StepValues:
        """Implement `TensorSource.at_step`."""
        return self._read(lambda: self._source.at_step(tensors, statistic, step=step, mode=mode))

    def newest(
        self, tensors: Sequence[str], statistic: str, *, last: int, last_step: int, mode: str | None
    ) -> tuple[Panel, ...]:
        """Implement `TensorSource.newest`."""
        return self._read(lambda: self._source.newest(tensors, statistic, last=last, last_step=last_step, mode=mode))

    def value(self, tensor: str, *, step: int, worker: str) -> NDArray[np.generic]:
        """Implement `TensorSource.value`, without the lock.

        A whole tensor may take seconds, and a trial can fetch tensors from several threads.
        """
        with self._reading:
            return self._source.value(tensor, step=step, worker=worker)

    def facts_at(self, step: int) -> ModelFacts | None:
        """Implement `TensorSource.facts_at`."""
        return self._read(lambda: self._source.facts_at(step))

    def _read(self, read_now: Callable[[], T]) -> T:
        with self._reading:
            return self._run_lock.read(read_now)
