"""Tasks of the writer's thread between steps: logs and watermarks that are flushed now and then."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

from trackside.capture.ground.guard import Guard, describe
from trackside.capture.writing.writer_parts import BackgroundPart


class BackgroundParts:
    """The background parts of one writer. One that is broken is dropped without the others and the steps."""

    def __init__(self, parts: Sequence[BackgroundPart], *, guard: Guard) -> None:
        self._parts = tuple(parts)
        self._guard = guard
        # Seconds until what is under way began, and how to read those since; replaced as a whole, for other threads.
        self._spent: tuple[float, Callable[[], float] | None] = 0.0, None

    def __bool__(self) -> bool:
        """False if no part is left."""
        return bool(self._parts)

    def processor_seconds(self) -> float:
        """Return the processor time that the parts have taken so far. Any thread may ask.

        What is under way counts too, where the system tells the time of another thread.
        """
        seconds, since = self._spent
        return seconds + since() if since is not None else seconds

    def due_in_seconds(self) -> float | None:
        """Return the time until the first part is due; None without any part."""
        return min((part.due_in_seconds for part in self._parts), default=None)

    def due_at(self, now: float) -> float:
        """Return the moment at which the first part is due, by the clock that shows `now`; infinite without any."""
        return now + min((part.due_in_seconds for part in self._parts), default=math.inf)

    def flush_if_due(self, *, is_outage_known: bool) -> None:
        """Flush the parts that are due. With `is_outage_known`, a failure of the store is logged already."""
        self._tend(lambda part: part.flush_if_due(), is_outage_known)

    def flush(self, *, is_outage_known: bool) -> None:
        """Flush all parts. `is_outage_known`: as for `flush_if_due`."""
        self._tend(lambda part: part.flush(), is_outage_known)

    def close(self, *, is_outage_known: bool) -> None:
        """Close all parts. `is_outage_known`: as for `flush_if_due`."""
        self._tend(lambda part: part.close(), is_outage_known)

    def _tend(self, tend: Callable[[BackgroundPart], object], is_outage_known: bool) -> None:
        """Run each background part.

        One that cannot store tries again; one that fails otherwise is dropped without the steps.
        """
        clock = _clock_of_this_thread()
        seconds, started = self._spent[0], clock()
        if clock is not time.thread_time:
            self._spent = seconds, lambda: clock() - started
        try:
            self._tend_each(tend, is_outage_known)
        finally:
            self._spent = seconds + clock() - started, None

    def _tend_each(self, tend: Callable[[BackgroundPart], object], is_outage_known: bool) -> None:
        for part in self._parts:
            try:
                tend(part)
            except OSError as error:
                if is_outage_known:  # the outage of the steps, which is logged
                    continue
                message = "%s cannot store its data: %s. Training goes on; it is tried again now and then."
                # Not in the class of the steps' failures: a lost step is logged all the same.
                self._guard.warn_once(
                    f"background/{type(error).__name__}", message, type(part).__name__, describe(error)
                )
            except Exception as error:  # noqa: BLE001 - what is broken is switched off, and nothing else
                self._parts = tuple(other for other in self._parts if other is not part)
                self._guard.warn_once("background", "%s is switched off: %s.", type(part).__name__, describe(error))


def _clock_of_this_thread() -> Callable[[], float]:
    """Return a clock of this thread's processor time: one that other threads may read, where the system has that."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.thread_time
    number = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(number)
