"""Rests of the watch: training steps between two recorded ones of which nothing is recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Rests:
    """The rests of one worker up to a step.

    A run of quick steps is watched in bursts of a few steps. Two steps are neighbours if no rest lies between them:
    the training had no step that is not recorded. Numbers of steps alone do not show it, for steps of a validation have
    numbers, too, and are always recorded.

    after   the first recorded step after each rest, of the training or of a validation; int64 of shape (n,), ascending
    counts  the training steps at rest right before it; int64 of shape (n,)
    """

    after: NDArray[np.int64]
    counts: NDArray[np.int64]

    def before(self, steps: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the number of rests before each step: the same for all steps of a burst.

        Args:
            steps: Recorded steps, shape (n,).
        """
        found: NDArray[np.intp] = np.searchsorted(self.after, steps, side="right")
        return found

    def places(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of training steps, watched or at rest, before each of these.

        Args:
            steps: The steps of a number that every watched training step has, ascending, shape (n,).
        """
        rested = np.append(0, np.cumsum(self.counts))[self.before(steps)]
        found: NDArray[np.int64] = np.arange(len(steps)) + rested - (rested[0] if len(steps) else 0)
        return found

    def between(self, first: int, last: int) -> int:
        """Return the number of steps at rest after a step, up to another.

        Args:
            first: A recorded step.
            last: A later one.
        """
        begin, end = np.searchsorted(self.after, (first, last), side="right")
        return int(self.counts[begin:end].sum())

    def evenly(self, steps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these steps to keep, so that no part of the run has many more of them than another.

        The first steps of a run are all recorded, and so are those of a closer look. Where quarters and halves of a run
        are compared, they would count for hundreds of bursts. Every stretch as long as the longest rest keeps as many
        steps, from its end, as a burst has. All are kept in a run without a rest.

        Args:
            steps: Recorded steps, ascending, shape (n,).
        """
        bursts = self.before(steps)
        if not len(steps) or bursts[0] == bursts[-1]:
            return np.ones(len(steps), np.bool_)
        length = int(self.counts.max()) + 1
        sizes = np.bincount(bursts)[bursts[0] + 1 :]
        most = int(np.median(sizes[sizes > 0]))
        stretches = (steps[-1] - steps) // length
        places = np.arange(len(steps))
        newest = np.searchsorted(-stretches, -stretches, side="right") - 1 - places  # steps after it, in its stretch
        found: NDArray[np.bool_] = newest < most
        return found


NO_RESTS = Rests(np.empty(0, np.int64), np.empty(0, np.int64))


def longest_of(rests: Iterable[Rests], first: int, last: int) -> int:
    """Return the most steps at rest between two steps, of any worker.

    Args:
        rests: The rests of the workers.
        first: A recorded step.
        last: A later one.
    """
    return max((each.between(first, last) for each in rests), default=0)
