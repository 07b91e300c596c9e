"""The numbers of training steps among steps with evaluations, as runs of consecutive numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class StepNumbers:
    """The number of each training step. Memory: some bytes for each run of consecutive ones."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.int64]] = []  # (first step, its number, steps) of each run, of shape (3, n)

    def __bool__(self) -> bool:
        return bool(self._parts)

    @classmethod
    def at(cls, steps: NDArray[np.int64]) -> StepNumbers:
        """Return these steps, ascending, each with its own number."""
        found = cls()
        found.add(steps, steps)
        return found

    def __contains__(self, step: int) -> bool:
        return any(part[0, 0] <= step and _is_within(part, step) for part in self._parts)

    def add(self, steps: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Add steps, ascending and after all present ones, with their numbers. Both are of shape (n,)."""
        if not len(steps):
            return
        follows = (np.diff(steps) == 1) & (np.diff(numbers) == 1)
        starts = np.flatnonzero(np.append(True, ~follows))
        new = np.stack([steps[starts], numbers[starts], np.diff(np.append(starts, len(steps)))])
        if self._parts:
            last = self._parts[-1][:, -1]
            if new[0, 0] == last[0] + last[2] and new[1, 0] == last[1] + last[2]:
                last[2] += new[2, 0]
                new = new[:, 1:]
        if new.shape[1]:
            self._parts.append(new)

    def of(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each step; of a step between training steps that of the one before.

        A step before all of them keeps its own. The same array is returned if all do.
        """
        if not self._parts:
            return steps
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts, axis=1)]
        firsts, numbers, counts = self._parts[0]
        if len(firsts) == 1 and firsts[0] == numbers[0]:  # mostly: each step is a training step
            last = firsts[0] + counts[0] - 1
            is_beyond = bool(len(steps)) and int(steps.max()) > last
            return np.minimum(steps, last) if is_beyond else steps
        places = np.searchsorted(firsts, steps, side="right") - 1
        # By earlier steps only: the answer is the same whenever one looks.
        beyond = np.minimum(steps - firsts[places], counts[places] - 1)
        found: NDArray[np.int64] = np.where(places >= 0, numbers[places] + beyond, steps)
        return found


def _is_within(part: NDArray[np.int64], step: int) -> bool:
    place = int(np.searchsorted(part[0], step, side="right")) - 1
    return bool(step - part[0, place] < part[2, place])
