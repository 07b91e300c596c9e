"""The axis of a chart in wall time: the moment of each step, in few places."""

from __future__ import annotations

import json
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
    def of(cls, steps: NDArray[np.int64], times: NDArray[np.float64], shown: tuple[int, int]) -> WallTime | None:
        """Return the axis over the steps from `shown[0]` to `shown[1]`; None if their moments are not known."""
        first, end = np.searchsorted(steps, (shown[0], shown[1] + 1))
        steps, times = steps[first:end], np.maximum.accumulate(times[first:end])
        if len(steps) < 2 or not times[-1] > times[0]:
            return None
        longest = np.argsort(np.diff(times))[-_PAUSES:]
        even = np.linspace(0, len(steps) - 1, min(len(steps), _EVEN)).astype(int)
        kept = np.unique(np.concatenate([even, longest, longest + 1]))
        return cls(steps[kept].astype(np.float64), times[kept] - times[0])

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
