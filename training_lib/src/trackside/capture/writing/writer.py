"""One long-lived thread that writes the copies of the training thread; bounded in bytes, never in its way.

The training thread copies and queues. Encoding, checksums and storage happen here. When the queue is full a step waits
for a bounded time and is then dropped whole. When storage fails the step is lost, one warning is logged, and later
steps are tried again sparsely.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trackside.capture.ground.guard import Guard
from trackside.capture.steps.step_tensors import StepTensors
from trackside.capture.writing.background_parts import BackgroundParts
from trackside.capture.writing.enduring_target import EnduringTarget
from trackside.capture.writing.writer_parts import BackgroundPart, Target

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
    """A thread that stores the steps taken on the training thread.

    Attributes:
        background: Its other tasks.
    """

    def __init__(
        self,
        target: Target,
        *,
        guard: Guard,
        background: Sequence[BackgroundPart] = (),
        limits: WriterLimits = WriterLimits(),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target = EnduringTarget(
            target,
            guard=guard,
            first_retry_seconds=limits.first_retry_seconds,
            last_retry_seconds=limits.last_retry_seconds,
            monotonic=monotonic,
        )
        self._guard, self._monotonic = guard, monotonic
        self.background = BackgroundParts(background, guard=guard)
        self._limits = limits
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

    @property
    def saved_steps(self) -> int:
        """Number of stored steps."""
        return self._target.saved_steps

    @property
    def lost_steps(self) -> int:
        """Number of steps that are not stored and never will be."""
        return self._target.lost_steps

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
        if step.lost:
            self._target.lose("memory", step, step.lost)
            return False
        with self._lock:
            has_room = self._has_room(step)
            if not has_room and not self._is_stuck:
                has_room = self._progress.wait_for(lambda: self._has_room(step), self._limits.block_seconds)
            if self._has_ended:  # a thread that trains on while the process ends around it
                reason = "its run is closed"
                self._target.note_lost(step, reason)
                self._guard.warn_once("closed", "step %d could not be saved: %s.", step.step, reason)
                return False
            if not has_room:
                self._is_stuck = True
                self._target.lose("queue", step, "storage is slower than what is to be saved")
                return False
            self._queue.append(step)
            self._unstored.append(step.step)
            self._pending_bytes += step.size_bytes
            self._pending_steps += 1
            if len(self._queue) == 1:  # else the thread is not waiting for the first
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

    def close(self, timeout_seconds: float, *, is_interrupted: bool = False, is_removed: bool = False) -> bool:
        """Store the rest and the end of the run, and log the number of lost steps. Return False if that took too long.

        `is_interrupted` is True if the process was asked to stop, and may be started again; `is_removed` if the run was
        removed, so that the other work is not done any more. When all is stored in time, the thread is gone. From then
        on no array is freed: freeing a tensor's array releases the interpreter lock for a moment, and if the
        interpreter has ended meanwhile, C++ aborts the whole process (SIGABRT).
        """
        with self._lock:
            if is_removed:
                self.background = BackgroundParts((), guard=self._guard)
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

    def await_steps(self, timeout_seconds: float) -> None:
        """Wait until every queued step has been stored or lost. After a wait in vain none follows before progress."""
        with self._lock:
            if self._is_stuck or not self._pending_steps:
                return
            self._flushes += 1
            self._work.notify()
            self._hurry.notify()
            in_time = self._progress.wait_for(lambda: not self._pending_steps or self._has_ended, timeout_seconds)
            self._flushes -= 1
            self._is_stuck = not in_time

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
        is_empty = self._pending_steps == 0 and (self._background_done >= wanted or not self.background)
        return is_empty or self._has_ended

    def _must_hurry(self) -> bool:
        return self._is_closing or self._flushes > 0 or 2 * self._pending_bytes >= self._limits.memory_bytes

    def _run(self) -> None:
        try:
            while self._save_next():
                pass
            self.background.close(is_outage_known=self._target.is_failing)
            self._target.finish(is_interrupted=self._is_interrupted)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not print a traceback into training
            self._guard.switch_off("writing", error)
        finally:
            with self._lock:
                self._has_ended = True
                self._progress.notify_all()

    def _save_next(self) -> bool:
        """Store the next few steps, and hold none of them afterwards. Return False at the end."""
        steps = self._next()
        whole = [step.with_late() for step in steps]
        done = saved = 0
        background_at = self.background.due_at(self._monotonic())
        try:
            for stored, is_here in zip(whole, self._target.arrived(whole), strict=True):
                if is_here:
                    self._target.save(stored)
                saved += 1
                if self._monotonic() >= background_at:
                    self._done(steps[done:saved])
                    done = saved
                    self.background.flush_if_due(is_outage_known=self._target.is_failing)
                    background_at = self.background.due_at(self._monotonic())
        finally:
            self._done(steps[done:saved])
        return bool(steps)

    def _next(self) -> list[StepTensors]:
        """Return the next step, or the next few if they are small; none at the end."""
        while True:
            with self._lock:
                if not self._queue:
                    self._work.wait_for(self._has_work, self.background.due_in_seconds())
                    if self._queue:
                        self._hurry.wait_for(self._must_hurry, self._limits.gather_seconds)
                if self._queue:
                    return self._first_in_queue()
                if self._is_closing:
                    return []
                wanted, is_requested = self._background_wanted, self._is_background_requested()
            tend = self.background.flush if is_requested else self.background.flush_if_due
            tend(is_outage_known=self._target.is_failing)
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

    def _done(self, steps: Sequence[StepTensors]) -> None:
        if not steps:
            return
        with self._lock:
            for step in steps:
                self._pending_bytes -= step.size_bytes
                self._unstored.popleft()
            self._pending_steps -= len(steps)
            self._is_stuck = False
            if self._is_closing:
                self._stored_late += steps
            self._progress.notify_all()
