"""The Wilson interval of a share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

_Thing = TypeVar("_Thing")


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """NaN of none."""
        return self.count / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true share lies with 95 % confidence (Wilson 1927). Runs of one program are not independent, so
        that in truth it is somewhat wider.
        """
        if not self.of:
            return 0.0, 1.0
        z2 = 1.959964**2
        middle = (self.value + z2 / (2 * self.of)) / (1 + z2 / self.of)
        half = math.sqrt(self.value * (1 - self.value) * z2 / self.of + z2**2 / (4 * self.of**2)) / (1 + z2 / self.of)
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        if not self.of:
            return "-"
        low, high = self.interval
        return f"{self.count}/{self.of} = {self.value:.1%} ({low:.1%} to {high:.1%})"


def share(things: Sequence[_Thing], holds: Callable[[_Thing], object]) -> Share:
    """Return the share of things for which something holds."""
    return Share(sum(bool(holds(each)) for each in things), len(things))
