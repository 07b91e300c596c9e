"""The rows that the sampler of a DataLoader draws: the share that came before in the same pass, while most never came.

Reads the numbers of the first rows of each batch, and nothing of the data. Where a batch holds each of its rows several
times in a row, as for several answers to one prompt, the row counts once, and so does a batch that comes again at once.
"""

from __future__ import annotations

import operator
import weakref
from itertools import groupby, islice
from typing import Any

from trackside.frameworks.pytorch.ground.script_objects import attribute_of, length_of

MOST_OF_A_BATCH = 64
MOST_REMEMBERED = 1 << 16  # rows of a pass: more of them are no repetition
FEWEST = 256  # rows of a pass that is not at its end
_TIMES = 5  # that each of its rows must have been drawn by then


class DrawnRows:
    """The rows of one data set, over the newest pass and that before.

    Attributes:
        is_grouped: The newest batch held each of its rows several times in a row.
        repeated_share: Share of the rows of a pass that had been drawn in it before: of the newest whole pass, or of
            the present one once each of its rows came five times. 0 if half of the data set came, or its
            length is unknown.
    """

    def __init__(self) -> None:
        self.repeated_share = 0.0
        self.is_grouped = False
        self._group: list[int] = []  # the rows of the newest grouped batch
        self._iterator: weakref.ref[Any] | None = None
        self._fetched = 0
        self._rows: set[int] = set()
        self._is_whole = True  # all batches of the present pass were seen
        self._count = self._batches = 0
        self._whole = -1  # batches of a pass

    def draw(self, iterator: Any, rows: Any) -> None:
        """Take the rows of the next batch.

        Args:
            iterator: The iterator that has drawn them.
            rows: Their numbers, as the sampler gave them; anything but whole numbers is ignored.
        """
        fetched = iterator._num_yielded
        if self._iterator is None or self._iterator() is not iterator or fetched < self._fetched:
            self._begin()
            self._is_whole = not fetched  # and what was not drawn to its end does not count
            self._iterator = weakref.ref(iterator)
            self._whole = _batches_of(iterator)
        self._fetched = fetched
        self._batches += 1
        if len(self._rows) > MOST_REMEMBERED:
            return
        try:
            some = [*map(operator.index, islice(rows, MOST_OF_A_BATCH) if isinstance(rows, (list, tuple)) else [rows])]
        except TypeError:  # a sampler may give names, or pairs
            return
        each = _of_groups(some)
        self.is_grouped = each is not None
        if each is not None:
            some, self._group = [] if each == self._group else each, each
        self._rows.update(some)
        self._count += len(some)
        is_early = self._count >= FEWEST and self._count >= _TIMES * len(self._rows)
        if is_early or self._batches == self._whole:  # a loop that counts batches never asks for one more
            self._measure(iterator)

    def end(self, iterator: Any) -> None:
        """Measure the pass, which is at its end."""
        if self._count and self._iterator is not None and self._iterator() is iterator:
            self._measure(iterator)
        self._begin()

    def leave_out(self) -> None:
        """Forget the present pass: some of its batches were not seen, nor are its rows until the next one begins."""
        self._begin()
        self._is_whole = False

    def _begin(self) -> None:
        self._is_whole = True
        self._rows, self._count, self._batches = set(), 0, 0

    def _measure(self, iterator: Any) -> None:
        if not self._is_whole:
            return
        rows = length_of(iterator._dataset)
        is_covered = rows is None or 2 * len(self._rows) >= rows
        self.repeated_share = 0.0 if is_covered else 1 - len(self._rows) / self._count


def _of_groups(rows: list[int]) -> list[int] | None:
    """Return each row of a batch once, if it holds each equally often in a row, and more than one; else None."""
    runs = [(row, len(list(some))) for row, some in groupby(rows)]
    size = runs[0][1] if runs else 0
    *whole, last = runs or [(0, 0)]
    is_even = bool(whole) and size > 1 and last[1] <= size and all(count == size for _, count in whole)
    return [row for row, _ in runs] if is_even else None


def _batches_of(iterator: Any) -> int:
    """Return the number of batches of a pass; -1 if it is unknown."""
    found = length_of(attribute_of(iterator, "_index_sampler"))
    return -1 if found is None else found
