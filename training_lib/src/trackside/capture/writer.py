"""One long-lived thread that writes what the training thread has copied; bounded in bytes, never in its way.

The training thread copies and queues. Encoding, checksums and storage happen here. When the queue is full a step
waits for a bounded time and is then dropped whole. When storage fails the step is lost, it is said once, and later
steps are tried again sparsely.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from trackside.capture.guard import Guard, describe


@dataclass(frozen=True)
class StepTensors:
    """Everything that one step saves. The arrays are our own copies."""

    step: int
    mode: str
    mode_step: int
    wall_time: float  # seconds since the epoch
    tensors: tuple[tuple[str, np.ndarray], ...]

    @property
    def size_bytes(self) -> int:
        """What the step holds of the memory budget."""
        return sum(array.nbytes for _, array in self.tensors)


class Target(Protocol):
    """Where steps go. Called on the writer thread only."""

    def save(self, step: StepTensors) -> None:
        """Stores one step whole. Errors: `OSError` for an outage, after which a later step may succeed."""

    def finish(self) -> None:
        """Stores what belongs at the end of the run. Errors: as `save`."""


@dataclass(frozen=True)
class WriterLimits:
    """The bounds that training can rely on."""

    memory_bytes: int = 256 * 2**20  # steps waiting; a single larger step passes when nothing else waits
    block_seconds: float = 1.0  # how long a full queue may hold up training before a step is dropped
    first_retry_seconds: float = 1.0  # after a failure of the store; doubles with each further one
    last_retry_seconds: float = 60.0
    gather_seconds: float = 0.05  # a thread that wakes up for every step costs a fast training more than its writing


class Writer:
    """Takes steps on the training thread, stores them on its own."""

    def __init__(
        self,
        target: Target,
        *,
        guard: Guard,
        limits: WriterLimits = WriterLimits(),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._guard = guard
        self._limits = limits
        self._monotonic = monotonic
        # Re-entrant, for a signal handler may flush while the interrupted main thread is in `submit`.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)  # the writer waits for the first step of a batch
        self._hurry = threading.Condition(self._lock)  # the writer gathers, unless there is reason to hurry
        self._progress = threading.Condition(self._lock)  # others wait for the writer
        self._queue: deque[StepTensors] = deque()
        self._pending_bytes = 0
        self._pending_steps = 0
        self._is_stuck = False
        self._is_closing = False
        self._flushes = 0
        self._has_ended = False
        self._retry_at = 0.0
        self._retry_seconds = 0.0
        self.saved_steps = 0
        self.lost_steps = 0

    @property
    def is_failing(self) -> bool:
        """True from a failure of the store until the next success."""
        return self._retry_seconds > 0

    def start(self) -> None:
        """Starts the thread; it never keeps the process alive."""
        threading.Thread(target=self._run, name="trackside-writer", daemon=True).start()

    def submit(self, step: StepTensors) -> bool:
        """Queues a step; waits at most `block_seconds` for room, then drops it and says so. True if it was taken.

        Once a step was dropped, none waits again before the writer has come forward: a hanging store costs training
        one wait, not one a step.
        """
        with self._lock:
            if not self._has_room(step) and not self._is_stuck:
                self._progress.wait_for(lambda: self._has_room(step), self._limits.block_seconds)
            if self._has_ended or not self._has_room(step):
                self._is_stuck = True
                self._lose("queue", step, "storage is slower than what is to be saved")
                return False
            self._queue.append(step)
            self._pending_bytes += step.size_bytes
            self._pending_steps += 1
            self._work.notify()
            if self._must_hurry():
                self._hurry.notify()
            return True

    def flush(self, timeout_seconds: float) -> bool:
        """Waits until all that was queued has been stored or lost. False if that took too long."""
        with self._lock:
            self._flushes += 1
            self._hurry.notify()
            in_time = self._progress.wait_for(lambda: self._pending_steps == 0 or self._has_ended, timeout_seconds)
            self._flushes -= 1
            return in_time

    def close(self, timeout_seconds: float) -> bool:
        """Stores the rest and the end of the run, and says how many steps were lost. False if that took too long."""
        with self._lock:
            self._is_closing = True
            self._work.notify()
            self._hurry.notify()
            in_time = self._progress.wait_for(lambda: self._has_ended, timeout_seconds)
            lost = self.lost_steps + self._pending_steps
            total = lost + self.saved_steps
        if lost:
            self._guard.say_once("lost", "%d of %d steps could not be saved.", lost, total)
        return in_time

    def _has_room(self, step: StepTensors) -> bool:
        free = self._limits.memory_bytes - self._pending_bytes
        return self._has_ended or self._pending_steps == 0 or step.size_bytes <= free

    def _must_hurry(self) -> bool:
        return self._is_closing or self._flushes > 0 or 2 * self._pending_bytes >= self._limits.memory_bytes

    def _lose(self, failure_class: str, step: StepTensors, why: str) -> None:
        with self._lock:
            self.lost_steps += 1
        self._guard.say_once(
            failure_class,
            "step %d could not be saved: %s. Training goes on; later steps are tried again now and then.",
            step.step,
            why,
        )

    def _run(self) -> None:
        try:
            while (step := self._next()) is not None:
                self._save(step)
                self._done(step)
            self._finish()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not print a traceback into training
            self._guard.switch_off("writing", error)
        finally:
            with self._lock:
                self._has_ended = True
                self._progress.notify_all()

    def _next(self) -> StepTensors | None:
        with self._lock:
            if not self._queue:
                self._work.wait_for(lambda: self._queue or self._is_closing)
                self._hurry.wait_for(self._must_hurry, self._limits.gather_seconds)
            return self._queue.popleft() if self._queue else None

    def _done(self, step: StepTensors) -> None:
        with self._lock:
            self._pending_bytes -= step.size_bytes
            self._pending_steps -= 1
            self._is_stuck = False
            self._progress.notify_all()

    def _save(self, step: StepTensors) -> None:
        if self.is_failing and self._monotonic() < self._retry_at:
            with self._lock:
                self.lost_steps += 1
            return
        try:
            self._target.save(step)
        except OSError as error:
            self._lose(f"store/{type(error).__name__}", step, describe(error))
            longest = self._limits.last_retry_seconds
            self._retry_seconds = min(self._retry_seconds * 2 or self._limits.first_retry_seconds, longest)
            self._retry_at = self._monotonic() + self._retry_seconds
            return
        self.saved_steps += 1
        if self.is_failing:
            self._retry_seconds = 0.0
            self._guard.say_once("recovered", "saving works again from step %d on.", step.step)

    def _finish(self) -> None:
        try:
            self._target.finish()
        except OSError as error:
            if not self.is_failing:
                self._guard.say_once("finish", "the end of the run could not be stored: %s.", describe(error))
