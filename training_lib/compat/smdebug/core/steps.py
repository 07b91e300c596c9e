"""Steps of a growing run, in order, and which of them are complete. Ours: the original has no such module."""

from __future__ import annotations

import bisect
from collections.abc import Callable

from smdebug import not_offered


class Steps:
    """Ascending steps. What is once complete stays so: each question costs what came since the one before."""

    def __init__(self) -> None:
        self._ascending: list[int] = []
        self._settled = 0  # how many of the first are known to be complete

    def add(self, step: int) -> None:
        """Adds one; one that is there already is left as it is."""
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
        """The step itself if it is there, else the next; None if there is none."""
        place = bisect.bisect_left(self._ascending, step)
        return self._ascending[place] if place < len(self._ascending) else None

    def complete(self, is_complete: Callable[[int], bool]) -> list[int]:
        """Those for which `is_complete` says so: once that is true, it must stay so."""
        while self._settled < len(self._ascending) and is_complete(self._ascending[self._settled]):
            self._settled += 1
        found = self._ascending[: self._settled]
        found.extend(filter(is_complete, self._ascending[self._settled :]))
        return found


__getattr__ = not_offered.attribute_of(__name__)
