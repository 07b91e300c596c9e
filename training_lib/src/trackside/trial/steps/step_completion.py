"""Completion of saved steps: how far all workers have come, and the steps that still wait for one."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence

# How many newer steps a step waits for a missing worker, as in the original (SMDEBUG_INCOMPLETE_STEP_WAIT_WINDOW).
INCOMPLETE_STEP_WINDOW = 1000


class StepCompletion:
    """The last complete step of a growing index. Steps below it are as complete as they will ever be.

    Args:
        steps: Every known step, ascending; it grows.
        files: The workers that saved each step; it grows.
        window: Newer steps after which a step no longer waits for a missing worker; None: `INCOMPLETE_STEP_WINDOW`.

    Attributes:
        last: The last complete step; None before the first.
        worker_count: The number of workers; None if it is not known yet.
    """

    def __init__(
        self, steps: Sequence[int], files: Mapping[int, Collection[str]], *, window: int | None = None
    ) -> None:
        self._steps, self._files = steps, files
        self._window = INCOMPLETE_STEP_WINDOW if window is None else window
        self._lacking: set[int] = set()
        self._through: int | None = None
        self.last: int | None = None
        self.worker_count: int | None = None

    @property
    def first_lacking(self) -> int | None:
        """The first step that waits for a worker; None if no step does."""
        return min(self._lacking, default=None)

    def set_through(self, step: int | None) -> bool:
        """Set the step up to which all is stored by the watermarks. Return True if it is another one."""
        is_new = step != self._through
        self._through = step
        return is_new

    def expect_workers(self, count: int) -> bool:
        """Set the number of workers. Return True if it is another one."""
        if count == self.worker_count:
            return False
        self.worker_count = count
        self._lacking = {step for step in self._steps[-self._window :] if self._lacks(step)}
        return True

    def look_for_missing_workers(self, new: Iterable[int]) -> None:
        """Note which of the new steps, and of those that waited, lack a worker."""
        window = self._steps[-self._window :]
        waiting = {step for step in self._lacking.union(new) if self._lacks(step)}
        self._lacking = {step for step in waiting if step >= window[0]} if window else set()

    def advance(self, *, has_ended: bool) -> None:
        """Advance `last`."""
        if not self._steps:
            return
        start = 0 if self.last is None else bisect.bisect_right(self._steps, self.last)
        open_steps = self._steps[start:]
        if has_ended:
            done = len(open_steps)
        elif self._through is not None:
            done = bisect.bisect_right(open_steps, self._through)
        elif self.worker_count is None:  # no collections file yet: the newest step may still grow
            done = len(open_steps) - 1
        else:
            done = next((i + 1 for i in reversed(range(len(open_steps))) if not self._lacks(open_steps[i])), 0)
            if len(open_steps) - done > self._window:  # a worker is gone: wait no longer for the older half
                done = len(open_steps) - self._window // 2
        if done > 0:
            self.last = open_steps[done - 1]

    def _lacks(self, step: int) -> bool:
        return self.worker_count is None or len(self._files[step]) < self.worker_count
