"""The steps of a growing run, in order, and the complete ones. Ours: the original has no such module."""

from __future__ import annotations

import bisect
from collections.abc import Callable

from smdebug import not_offered


class Steps:
    """Ascending steps. A complete step stays complete, so each call checks only steps that came since the last one."""

    def __init__(self) -> None:
        self._ascending: list[int] = []
        self._settled = 0  # how many of the first are known to be complete

    def add(self, step: int) -> None:
        """Add a step, unless it exists."""
        place = bisect.bisect_left(self._ascending, step)
        if place < len(self._ascending) and self._ascending[place] == step:
            return
        self._ascending.insert(place, step)
        self._settled = min(self._settled, place)

    def all(self) -> list[int]:
        return self._ascending.copy()

    def last(self) -> int:
        return self._ascending[-1]

    def from_on(self, step: int) -> int | None:
        """Return the step itself if it exists, else the next; None if neither does."""
        place = bisect.bisect_left(self._ascending, step)
        return self._ascending[place] if place < len(self._ascending) else None

    def complete(self, is_complete: Callable[[int], bool]) -> list[int]:
        """Return the complete steps. Once `is_complete` is True for a step, it must stay so."""
        while self._settled < len(self._ascending) and is_complete(self._ascending[self._settled]):
            self._settled += 1
        found = self._ascending[: self._settled]
        found.extend(filter(is_complete, self._ascending[self._settled :]))
        return found


__getattr__ = not_offered.attribute_of(__name__)
