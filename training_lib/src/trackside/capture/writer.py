"""One long-lived thread that writes the copies of the training thread; bounded in bytes, never in its way.

The training thread copies and queues. Encoding, checksums and storage happen here. When the queue is full a step waits
for a bounded time and is then dropped whole. When storage fails the step is lost, one warning is logged, and later
steps are tried again sparsely.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from trackside.capture.arrival import Arrival
from trackside.capture.guard import Guard, describe
from trackside.capture.reduced_tensors import ReducedTensors


@dataclass(frozen=True)
class StepTensors:
    """All data that one step saves. The arrays are our own copies.

    - `due`: collections that are due; they decide whether tensors are saved whole or reduced
    - `collections`: collections of single tensors beside those that follow from their names
    - `reduced`: reductions of tensors that are not among `tensors`
    - `arrivals`: moments at which the arrays hold their values
    """

    step: int
    mode: str
    mode_step: int
    wall_time: float  # seconds since the epoch
    tensors: tuple[tuple[str, np.ndarray], ...]
    due: frozenset[str] = frozenset()
    collections: Mapping[str, frozenset[str]] = field(default_factory=dict)
    reduced: tuple[ReducedTensors, ...] = ()
    arrivals: tuple[Arrival, ...] = ()

    def wait(self) -> None:
        """Wait until all values have arrived. Errors: as `Arrival`."""
        for arrival in self.arrivals:
            arrival.wait()

    @cached_property
    def size_bytes(self) -> int:
        """Memory of the step, in bytes, that counts against the budget."""
        reduced = sum(part.nbytes for part in self.reduced)
        return reduced + sum(array.nbytes for _, array in self.tensors)


class Target(Protocol):
    """A receiver of steps that stores them. Called on the writer thread only."""

    def save(self, step: StepTensors) -> None:
        """Store one step whole. Errors: `OSError` for an outage, after which a later step may succeed."""

    def lost(self, step: int, reason: str) -> None:
        """Note that nothing of a step will be stored. Called on any thread; never raises, never waits."""

    def finish(self, *, is_interrupted: bool) -> None:
        """Store the data that ends the run, or ends a process that was asked to stop. Errors: as `save`."""


@runtime_checkable
class PreparingTarget(Target, Protocol):
    """A target that can do some of the work for several steps at once."""

    def prepare(self, steps: Sequence[StepTensors]) -> None:
        """Prepare the steps that `save` is called with next, in this order.

        Errors: none of the store; `save` raises them.
        """


class BackgroundPart(Protocol):
    """A task of the writer thread between steps, such as a log that is flushed now and then. For no other thread."""

    @property
    def due_in_seconds(self) -> float:
        """Seconds that the thread may sleep before it should call `flush_if_due`."""

    def flush_if_due(self) -> bool:
        """Store the waiting data, if it is time. Return True if it did.

        Errors: `OSError` for an outage; a later call tries again.
        """

    def flush(self) -> None:
        """Store the waiting data. Errors: as `flush_if_due`."""

    def close(self) -> None:
        """Store the rest. Errors: as `flush_if_due`."""


_ENDING_SECONDS = 2.0  # for a thread that has nothing more to do than to end
_MOST_TOGETHER = 64  # steps
_MOST_BYTES_TOGETHER = 64 << 10


@dataclass(frozen=True)
class WriterLimits:
    """The bounds that training can rely on."""

    memory_bytes: int = 256 * 2**20  # steps waiting; a single larger step passes when nothing else waits
    block_seconds: float = 1.0  # how long a full queue may hold up training before a step is dropped
    first_retry_seconds: float = 1.0  # after a failure of the store; doubles with each further one
    last_retry_seconds: float = 60.0
    gather_seconds: float = 0.05  # a thread that wakes up for every step costs a fast training more than its writing


class Writer:
    """A thread that stores the steps taken on the training thread."""

    def __init__(
        self,
        target: Target,
        *,
        guard: Guard,
        background: Sequence[BackgroundPart] = (),
        limits: WriterLimits = WriterLimits(),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = target
        self._preparing = target if isinstance(target, PreparingTarget) else None
        self._guard = guard
        self._background = tuple(background)
        self._limits = limits
        self._monotonic = monotonic
        # Re-entrant, for a signal handler may flush while the interrupted main thread is in `submit`.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)  # the writer waits for the first step of a batch
        self._hurry = threading.Condition(self._lock)  # the writer gathers, unless there is reason to hurry
        self._progress = threading.Condition(self._lock)  # others wait for the writer
        self._queue: deque[StepTensors] = deque()
        self._unstored: deque[int] = deque()  # the steps of the queue, and of those that are being stored
        self._pending_bytes = 0
        self._pending_steps = 0
        self._is_stuck = False
        self._is_closing = self._is_interrupted = False
        self._flushes = 0
        self._background_wanted = self._background_done = 0  # requested and completed flushes of the background
        self._has_ended = False
        self._thread: threading.Thread | None = None
        self._stored_late: list[StepTensors] = []  # while the writer is being closed
        self._retry_at = 0.0
        self._retry_seconds = 0.0
        self._failure = ""
        self.saved_steps = 0
        self.lost_steps = 0

    @property
    def is_failing(self) -> bool:
        """True from a failure of the store until the next success."""
        return self._retry_seconds > 0

    def unstored_from(self) -> int | None:
        """Return the first taken step that is neither stored nor lost; None if no step waits."""
        with self._lock:
            return min(self._unstored, default=None)

    def start(self) -> None:
        """Start the thread. It never keeps the process alive."""
        self._thread = threading.Thread(target=self._run, name="trackside-writer", daemon=True)
        self._thread.start()

    def submit(self, step: StepTensors) -> bool:
        """Queue a step. Wait at most `block_seconds` for room, then drop it and log that. Return True if it was taken.

        After a dropped step, no step waits again until the writer has made progress: a hanging store costs training one
        wait, not one a step.
        """
        with self._lock:
            if not self._has_room(step) and not self._is_stuck:
                self._progress.wait_for(lambda: self._has_room(step), self._limits.block_seconds)
            if self._has_ended:  # a thread that trains on while the process ends around it
                reason = "its run is closed"
                self._note_lost(step, reason)
                self._guard.warn_once("closed", "step %d could not be saved: %s.", step.step, reason)
                return False
            if not self._has_room(step):
                self._is_stuck = True
                self._lose("queue", step, "storage is slower than what is to be saved")
                return False
            self._queue.append(step)
            self._unstored.append(step.step)
            self._pending_bytes += step.size_bytes
            self._pending_steps += 1
            self._work.notify()
            if self._must_hurry():
                self._hurry.notify()
            return True

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything queued has been stored or lost. Return False if that took too long."""
        with self._lock:
            self._flushes += 1
            self._background_wanted += 1
            wanted = self._background_wanted
            self._work.notify()
            self._hurry.notify()
            in_time = self._progress.wait_for(lambda: self._is_flushed(wanted), timeout_seconds)
            self._flushes -= 1
            return in_time

    def close(self, timeout_seconds: float, *, is_interrupted: bool = False) -> bool:
        """Store the rest and the end of the run, and log the number of lost steps. Return False if that took too long.

        `is_interrupted` is True if the process was asked to stop, and may be started again. When all is stored in time,
        the thread is gone. From then on no array is freed: freeing a tensor's array releases the interpreter lock for a
        moment, and if the interpreter has ended meanwhile, C++ aborts the whole process (SIGABRT).
        """
        with self._lock:
            self._is_interrupted = is_interrupted
            self._is_closing = True
            self._work.notify()
            self._hurry.notify()
            in_time = self._progress.wait_for(lambda: self._has_ended, timeout_seconds)
            lost = self.lost_steps + self._pending_steps
            total = lost + self.saved_steps
        if in_time:
            self._await_thread()
        if lost:
            self._guard.warn_once("lost", "%d of %d steps could not be saved.", lost, total)
        return in_time

    def _await_thread(self) -> None:
        """Wait for the thread to end, so that its frames free their objects before the interpreter may end."""
        thread = self._thread
        if thread is not None:
            thread.join(_ENDING_SECONDS)
        if thread is None or not thread.is_alive():
            self._stored_late.clear()

    def _has_room(self, step: StepTensors) -> bool:
        free = self._limits.memory_bytes - self._pending_bytes
        return self._has_ended or self._pending_steps == 0 or step.size_bytes <= free

    def _is_flushed(self, wanted: int) -> bool:
        is_empty = self._pending_steps == 0 and (self._background_done >= wanted or not self._background)
        return is_empty or self._has_ended

    def _must_hurry(self) -> bool:
        return self._is_closing or self._flushes > 0 or 2 * self._pending_bytes >= self._limits.memory_bytes

    def _lose(self, failure_class: str, step: StepTensors, reason: str) -> None:
        self._note_lost(step, reason)
        self._guard.warn_once(
            failure_class,
            "step %d could not be saved: %s. Training goes on; later steps are tried again now and then.",
            step.step,
            reason,
        )

    def _note_lost(self, step: StepTensors, reason: str) -> None:
        with self._lock:
            self.lost_steps += 1
        self._target.lost(step.step, reason)

    def _run(self) -> None:
        try:
            while self._save_next():
                pass
            self._tend_background(lambda part: part.close())
            self._finish()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not print a traceback into training
            self._guard.switch_off("writing", error)
        finally:
            with self._lock:
                self._has_ended = True
                self._progress.notify_all()

    def _save_next(self) -> bool:
        """Store the next few steps, and hold none of them afterwards. Return False at the end."""
        steps = self._next()
        arrived = [self._has_arrived(step) for step in steps]
        if self._preparing and len(steps) > 1 and all(arrived) and not self.is_failing:
            self._preparing.prepare(steps)
        for step, is_here in zip(steps, arrived, strict=True):
            if is_here:
                self._save(step)
            self._done(step)
            self._tend_background(lambda part: part.flush_if_due())
        return bool(steps)

    def _has_arrived(self, step: StepTensors) -> bool:
        """Wait for the values of the step. Return False if they never arrive because the device has failed."""
        try:
            step.wait()
        except Exception as error:  # noqa: BLE001 - the training meets that failure itself
            self._lose("device", step, f"its values did not come from the device: {describe(error)}")
            return False
        return True

    def _next(self) -> list[StepTensors]:
        """Return the next step, or the next few if they are small; none at the end."""
        while True:
            with self._lock:
                if not self._queue:
                    self._work.wait_for(self._has_work, self._background_due_in_seconds())
                    if self._queue:
                        self._hurry.wait_for(self._must_hurry, self._limits.gather_seconds)
                if self._queue:
                    return self._first_in_queue()
                if self._is_closing:
                    return []
                wanted, is_requested = self._background_wanted, self._is_background_requested()
            self._tend_background((lambda part: part.flush()) if is_requested else (lambda part: part.flush_if_due()))
            with self._lock:
                self._background_done = wanted
                self._progress.notify_all()

    def _first_in_queue(self) -> list[StepTensors]:
        steps = [self._queue.popleft()]
        # None of these is let go before the last is stored, so together they must be next to nothing.
        room = _MOST_BYTES_TOGETHER - steps[0].size_bytes
        while self._queue and len(steps) < _MOST_TOGETHER and (room := room - self._queue[0].size_bytes) >= 0:
            steps.append(self._queue.popleft())
        return steps

    def _has_work(self) -> bool:
        return bool(self._queue) or self._is_closing or self._is_background_requested()

    def _is_background_requested(self) -> bool:
        return self._background_wanted > self._background_done

    def _background_due_in_seconds(self) -> float | None:
        return min((part.due_in_seconds for part in self._background), default=None)

    def _tend_background(self, tend: Callable[[BackgroundPart], object]) -> None:
        """Run each background part.

        One that cannot store tries again; one that fails otherwise is dropped without the steps.
        """
        for part in self._background:
            try:
                tend(part)
            except OSError as error:
                if self.is_failing:  # the outage of the steps, which is logged
                    continue
                message = "%s cannot store its data: %s. Training goes on; it is tried again now and then."
                # Not in the class of the steps' failures: a lost step is logged all the same.
                self._guard.warn_once(
                    f"background/{type(error).__name__}", message, type(part).__name__, describe(error)
                )
            except Exception as error:  # noqa: BLE001 - what is broken is switched off, and nothing else
                self._background = tuple(other for other in self._background if other is not part)
                self._guard.warn_once("background", "%s is switched off: %s.", type(part).__name__, describe(error))

    def _done(self, step: StepTensors) -> None:
        with self._lock:
            self._pending_bytes -= step.size_bytes
            self._pending_steps -= 1
            self._unstored.popleft()
            self._is_stuck = False
            if self._is_closing:
                self._stored_late.append(step)
            self._progress.notify_all()

    def _save(self, step: StepTensors) -> None:
        if self.is_failing and self._monotonic() < self._retry_at:
            self._note_lost(step, self._failure)
            return
        try:
            self._target.save(step)
        except OSError as error:
            self._failure = describe(error)
            self._lose(f"store/{type(error).__name__}", step, self._failure)
            longest = self._limits.last_retry_seconds
            self._retry_seconds = min(self._retry_seconds * 2 or self._limits.first_retry_seconds, longest)
            self._retry_at = self._monotonic() + self._retry_seconds
            return
        self.saved_steps += 1
        if self.is_failing:
            self._retry_seconds = 0.0
            self._guard.warn_once("recovered", "saving works again from step %d on.", step.step)

    def _finish(self) -> None:
        try:
            self._target.finish(is_interrupted=self._is_interrupted)
        except OSError as error:
            if not self.is_failing:
                self._guard.warn_once("finish", "the end of the run could not be stored: %s.", describe(error))
