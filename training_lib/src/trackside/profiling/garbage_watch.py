"""The time that Python's collections of all objects take of a training's steps.

Only collections of the oldest generation are timed: they visit every object of the process, and take up to seconds.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import get_ident
from typing import Any

from trackside.profiling.phase_clock import PhaseClock
from trackside.thread_stacks import line_of

FIRST_STEP = 3  # before it, modules are imported and memory is allocated
OLDEST = 2
MOST_FRAMES = 50


@dataclass(frozen=True)
class Collections:
    """The collections so far.

    Attributes:
        count: Number of collections.
        seconds: Seconds of all together.
        longest_seconds: Seconds of the longest.
        steps: Number of steps in which they were counted.
        file: The innermost file of the user's in the longest; "" for none.
        line: The line in it.
        function: The function in it.
    """

    count: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0
    steps: int = 0
    file: str = ""
    line: int = 0
    function: str = ""


class GarbageWatch:
    """Times collections on the thread of a clock.

    Args:
        clock: The clock of the training.
        is_user_file: Returns True for a file of the user's.
        read: Returns seconds.
    """

    def __init__(
        self,
        clock: PhaseClock,
        *,
        is_user_file: Callable[[str], bool],
        read: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock, self._is_user_file, self._read = clock, is_user_file, read
        self._began = 0.0
        self._newest = Collections()

    def start(self) -> None:
        """Start to time collections."""
        gc.callbacks.append(self._collect)

    def stop(self) -> None:
        """End it. A second call does nothing."""
        if self._collect in gc.callbacks:
            gc.callbacks.remove(self._collect)

    def so_far(self) -> Collections | None:
        """Return the collections so far; None before the first one."""
        steps = self._clock.steps - FIRST_STEP
        return replace(self._newest, steps=steps) if self._newest.count and steps > 0 else None

    def _collect(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != OLDEST:
            return
        if phase == "start":
            is_ours = self._clock.steps >= FIRST_STEP and get_ident() == self._clock.thread
            self._began = self._read() if is_ours else 0.0
        elif self._began:
            seconds, self._began = self._read() - self._began, 0.0
            before = self._newest
            place = (before.file, before.line, before.function)
            longest = max(before.longest_seconds, seconds)
            if longest == seconds:
                place = self._place()
            self._newest = Collections(before.count + 1, before.seconds + seconds, longest, 0, *place)

    def _place(self) -> tuple[str, int, str]:
        frame = sys._getframe(2)
        for _ in range(MOST_FRAMES):
            if self._is_user_file(frame.f_code.co_filename):
                return frame.f_code.co_filename, line_of(frame), frame.f_code.co_name
            if frame.f_back is None:
                break
            frame = frame.f_back
        return "", 0, ""
