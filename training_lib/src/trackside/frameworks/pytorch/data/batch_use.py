"""Batches that no backward pass used, as of a loop that skips a batch with a loss that is not finite.

It shows when the next batch is drawn: no backward pass has ended since the one before. A loop that draws some batches
ahead does so at the beginning of a pass over the data, where nothing counts. A loop that draws several batches for each
backward pass, or uses no backward pass at all, skips nothing: all but a few batches must have had one pass or more.
"""

from __future__ import annotations

FEWEST_USED = 8  # batches with a backward pass, before any other counts
USED_FOR_EACH = 8  # and for each that had none, but for those without an end


class BatchUse:
    """The use of the training batches of one data set."""

    def __init__(self) -> None:
        self._passes: int | None = None  # of the process, at the newest draw; None if not known
        self._has_begun = False  # a batch of this pass over the data was used
        self._used = self._idle = self._in_a_row = 0

    def drawn(self, passes: int, *, is_first: bool) -> int:
        """Return the number of batches in a row that were not used, up to the one before this; 0 if it was.

        Args:
            passes: Backward passes of the process so far.
            is_first: True for the first batch of a pass over the data.
        """
        before, self._passes = self._passes, passes
        if before is None:
            return 0
        if passes > before:
            self._used, self._in_a_row, self._has_begun = self._used + 1, 0, not is_first
            return 0
        if is_first and self._in_a_row < FEWEST_USED:
            self._has_begun = False
        if not self._has_begun:
            return 0
        self._in_a_row += 1
        if self._in_a_row <= FEWEST_USED:  # a longer row is one event, which may have no end
            self._idle += 1
        is_known = self._used >= FEWEST_USED and self._used >= USED_FOR_EACH * (self._idle - self._in_a_row)
        return self._in_a_row if is_known else 0

    def forget(self) -> None:
        """Forget the newest batch: what came of it is not known."""
        self._passes = None
