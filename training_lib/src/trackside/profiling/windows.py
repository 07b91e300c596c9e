"""Windows of detailed profiling: at which step a profiler begins, and at which it ends.

The writer thread opens a window and takes the profiles that have ended (`window_part.py`). The training thread
begins and ends them, between two steps: a profiler sees the thread that begins it.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trackside.contracts.run.profiling_request import MOST_SECONDS, Window

Write = Callable[[Path], None]


class Recording(Protocol):
    """A profiler that is at work."""

    def stop(self) -> Write | None:
        """End it. Return the function that writes its files into a folder; None if it lost its data."""


Begin = Callable[[], Recording | None]  # None: another profiler is at work, and goes first


@dataclass(frozen=True)
class Finished:
    """A profile that has ended. Steps are counted by this process, moments in seconds since the epoch.

    Attributes:
        kind: Name of its window.
        first_step: Its first step.
        last_step: Its last step.
        started_at: The moment before its first step.
        ended_at: The moment after its last step.
        write: Writes its files into a folder.
    """

    kind: str
    first_step: int
    last_step: int
    started_at: float
    ended_at: float
    write: Write


class ProfilingWindow:
    """One kind of profile, and its window.

    Args:
        kind: Its name.
        begin: Begins a profile.
        is_by_step: True for a profile of each step; False for one of all.
        wall_clock: Returns seconds since the epoch.
    """

    def __init__(
        self, kind: str, begin: Begin, *, is_by_step: bool = False, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self.kind, self._begin, self._is_by_step, self._clock = kind, begin, is_by_step, wall_clock
        self._window: Window | None = None
        self._recording: Recording | None = None
        self._began_step, self._began_at = 0, 0.0  # of the recording
        self._ends_step, self._ends_at = math.inf, math.inf  # of the window, as far as they are known
        self._is_met = False  # a step has met the window, whether or not its profiler was refused

    def replace(self, window: Window | None) -> None:
        """Set the window, once the one before has ended. None: nothing is profiled."""
        self._window = window
        self._ends_step = self._ends_at = math.inf
        self._is_met = False
        if window is not None and window.first_step is not None:
            self._ends_step = window.first_step + window.steps
        if window is not None and window.starts_at and window.seconds is not None:
            self._ends_at = window.starts_at + window.seconds

    @property
    def is_recording(self) -> bool:
        """True between the start of a profile and its end."""
        return self._recording is not None

    def step_began(self, step: int, *, is_alone: bool = True) -> Finished | None:
        """Begin and end what is due before a step. Return the profile that has ended, if any.

        Args:
            step: The step that begins, counted by this process.
            is_alone: No other profile is open. A window of the next steps waits for that: one would slow the other.
        """
        if self._window is None:
            return None
        now = self._clock()
        is_over = step >= self._ends_step or now >= self._ends_at
        finished = self.end(step) if is_over or self._is_by_step else None
        if is_over:
            self.replace(None)
        elif self._recording is None and self._is_due(self._window, step, now) and (is_alone or self._is_set):
            self._record(self._window, step, now)
        return finished

    def end(self, step: int) -> Finished | None:
        """End the profile that is open, before a step. Return it, if it holds a whole step."""
        recording, self._recording = self._recording, None
        write = recording.stop() if recording is not None else None
        if write is None or step <= self._began_step:
            return None
        return Finished(self.kind, self._began_step, step - 1, self._began_at, self._clock(), write)

    @property
    def watched_from(self) -> float:
        """The step at the end of which `step_began` has to be called first; infinite: at none."""
        if self._window is None:
            return math.inf
        return 0 if self._recording is not None else (self._window.first_step or 0) - 1

    @property
    def _is_set(self) -> bool:
        window = self._window
        return window is not None and (window.first_step, window.starts_at) != (None, None)

    @staticmethod
    def _is_due(window: Window, step: int, now: float) -> bool:
        return now >= window.starts_at if window.starts_at is not None else step >= (window.first_step or 0)

    def _record(self, window: Window, step: int, now: float) -> None:
        if not self._is_met:
            self._is_met = True
            if window.seconds is None:
                self._ends_step = min(self._ends_step, step + window.steps)
            self._ends_at = min(self._ends_at, now + (MOST_SECONDS if window.seconds is None else window.seconds))
        self._recording = self._begin()
        self._began_step, self._began_at = step, self._clock()


class ProfilingWindows:
    """The windows of one training: a source (see `frameworks/shared/adapter.py`) that costs nothing while none is open.

    Attributes:
        watched_from: The step at the end of which `step_began` has to be called first; infinite: at none.
        finished: Profiles that wait for the writer.
        step_began: Handles the start of a step, on the training thread; see `Source`.
        end: Ends what is open, on the training thread, with the training.
        opened: Called on the writer thread once a window was replaced.

    Args:
        windows: One for each kind.
        protect: Makes a function harmless for the script.
    """

    def __init__(
        self,
        *windows: ProfilingWindow,
        protect: Callable[[Callable[..., None]], Callable[..., None]] = lambda function: function,
    ) -> None:
        self.watched_from: float = math.inf
        self.finished: deque[Finished] = deque()
        self._windows = windows
        self._wanted: deque[tuple[str, Window | None]] = deque()
        self._step = 0
        self.step_began = protect(self._step_began)
        self.end = protect(self._end)
        self.opened: Callable[[], object] = lambda: None

    def open(self, kind: str, window: Window | None) -> None:
        """Replace a window. Called on the writer thread.

        Args:
            kind: Its name.
            window: The new one; None for none.
        """
        self._wanted.append((kind, window))
        self.watched_from = 0
        self.opened()

    def _step_began(self, step: int) -> None:
        """Begin and end what is due before a step."""
        self._step = step
        if step < self.watched_from:
            return
        self.watched_from = math.inf  # a window that opens from here on sets it again
        while self._wanted:
            kind, window = self._wanted.popleft()
            for one in self._windows:
                if one.kind == kind:
                    self._keep(one.end(step))
                    one.replace(window)
        for one in self._windows:
            is_alone = not any(other.is_recording for other in self._windows if other is not one)
            self._keep(one.step_began(step, is_alone=is_alone))
        self.watched_from = min(self.watched_from, *(one.watched_from for one in self._windows))
        if self._wanted:
            self.watched_from = 0

    def _end(self) -> None:
        """End what is open, with the training."""
        for one in self._windows:
            self._keep(one.end(self._step))
            one.replace(None)

    def _keep(self, finished: Finished | None) -> None:
        if finished is not None:
            self.finished.append(finished)
