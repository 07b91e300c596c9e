"""The axis of a chart in wall time: the moment of each step, in few places."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_EVEN, _PAUSES = 120, 40  # steps in even distances, and the longest steps, whose beginning and end are both kept


@dataclass(frozen=True, eq=False)
class WallTime:
    """Steps and their moments, both ascending. Between two of them time runs evenly.

    steps    float64 of shape (n,), n >= 2
    seconds  since the first of them, of shape (n,)
    """

    steps: NDArray[np.float64]
    seconds: NDArray[np.float64]

    @classmethod
    def of(
        cls, moments: Iterable[tuple[NDArray[np.int64], NDArray[np.float64]]], shown: tuple[int, int]
    ) -> WallTime | None:
        """Return the axis over the steps from `shown[0]` to `shown[1]`; None if their moments are not known.

        Args:
            moments: Steps and their ends in seconds, a piece at a time; the pieces follow one another.
            shown: First and last step.
        """
        even = np.unique(np.linspace(*shown, _EVEN).astype(np.int64))
        kept: list[NDArray[np.float64]] = []  # steps and times, of shape (2, n)
        pauses = np.empty((5, 0))  # length, step and time before, step and time after
        before = np.empty((2, 0))
        for steps, times in moments:
            inside = slice(*np.searchsorted(steps, (shown[0], shown[1] + 1)))
            points = np.concatenate([before, [steps[inside].astype(np.float64), times[inside]]], axis=1)
            if points.shape[1] == before.shape[1]:
                continue
            points[1] = np.maximum.accumulate(points[1])
            kept += [points[:, :1]] if not kept else []
            ahead = even[(even > points[0, 0]) & (even <= points[0, -1])]
            kept.append(points[:, np.unique(np.searchsorted(points[0], ahead))])
            lengths = np.diff(points[1])
            longest = np.argsort(lengths)[-_PAUSES:]
            found = np.concatenate([lengths[None, longest], points[:, longest], points[:, longest + 1]])
            pauses = np.concatenate([pauses, found], axis=1)
            pauses = pauses[:, np.argsort(pauses[0])[-_PAUSES:]]
            before = points[:, -1:]
        points = np.concatenate([*kept, before, pauses[1:3], pauses[3:5]], axis=1)
        chosen, places = np.unique(points[0], return_index=True)
        seconds = points[1, places]
        if len(chosen) < 2 or not seconds[-1] > seconds[0]:
            return None
        return cls(chosen, seconds - seconds[0])

    def share(self, step: float) -> float:
        """Return the place of a step on the axis, from 0 to 1."""
        return float(np.interp(step, self.steps, self.seconds)) / float(self.seconds[-1])

    def columns(self, edges: NDArray[np.int64], count: int) -> NDArray[np.intp]:
        """Return the column of steps that is to be seen in each of `count` columns of equal time."""
        moments = (np.arange(count) + 0.5) / count * self.seconds[-1]
        at = np.searchsorted(edges, np.interp(moments, self.seconds, self.steps), side="right") - 1
        found: NDArray[np.intp] = np.clip(at, 0, len(edges) - 2)
        return found

    def labels(self) -> tuple[str, str, str]:
        """Return the moments of the beginning, the middle and the end in words."""
        return "0 s", duration_text(float(self.seconds[-1]) / 2), duration_text(float(self.seconds[-1]))

    def to_json(self) -> str:
        """Return steps and shares of the axis, for the script."""
        shares = self.seconds / self.seconds[-1]
        return json.dumps([[int(step), round(float(share), 5)] for step, share in zip(self.steps, shares, strict=True)])


def duration_text(seconds: float) -> str:
    """Return a time since the start in words."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
