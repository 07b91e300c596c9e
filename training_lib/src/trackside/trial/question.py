"""What a rule asks again at every step, with everything looked up that does not change from one step to the next."""

from __future__ import annotations

from typing import Protocol

from trackside.trial.recorded import Recorded, merged
from trackside.trial.tensors import Follower, Reading
from trackside.trial.window import Column

_LAST_STEP = 2**63 - 1
_NO_STEP = -(2**63)


class Question(Protocol):
    """One statistic of one tensor in one mode, or in every mode."""

    def columns(self, last_step: int) -> tuple[Column, ...]:
        """One column per worker, by name of the worker, over the steps up to `last_step`. Errors: the store's."""

    def columns_beyond(self, last_step: int) -> tuple[Column, ...]:
        """The same, where they may hold later steps too. Columns that share their steps share the array."""

    def is_read(self, last_step: int) -> bool:
        """True if it can be answered without reading a step."""


class SavedQuestion:
    """Answered from what was saved: reductions and whole tensors."""

    def __init__(self, reading: Reading, follower: Follower, statistic: str, place: int, mode: str | None) -> None:
        self._reading, self._follower, self._statistic = reading, follower, statistic
        self._place, self._mode = place, mode

    def columns(self, last_step: int) -> tuple[Column, ...]:
        """As `Question`."""
        self.read_on(last_step)
        return self._follower.columns(self._place, last_step=last_step, mode=self._mode)

    def columns_beyond(self, last_step: int) -> tuple[Column, ...]:
        """As `Question`."""
        self.read_on(last_step)
        return self.so_far()

    def is_read(self, last_step: int) -> bool:
        """As `Question`."""
        return not self._reading.lags(self._follower, last_step)

    def read_on(self, last_step: int) -> int:
        """Reads what there is up to that step. Says how many rows there are now."""
        follower = self._follower
        follower.is_asked = True
        if self._reading.lags(follower, last_step):
            self._reading.catch_up(follower, self._statistic, last_step)
        return follower.rows

    def so_far(self) -> tuple[Column, ...]:
        """The columns over all that has been read."""
        return self._follower.columns(self._place, last_step=_LAST_STEP, mode=self._mode)


class RecordedQuestion:
    """Answered from the recorded statistics, and from what was saved at steps that have none."""

    def __init__(
        self, recorded: Recorded, saved: SavedQuestion | None, *, tensor: str, statistic: str, mode: str | None
    ) -> None:
        self._recorded, self._saved = recorded, saved
        self._asked = (tensor, statistic, mode)
        self._merged: tuple[Column, ...] = ()
        self._merged_from = (-1, -1)
        self._answer: tuple[int, tuple[Column, ...]] = (_NO_STEP, ())  # rules ask the same at the same step

    def columns(self, last_step: int) -> tuple[Column, ...]:
        """As `Question`."""
        whole = self.columns_beyond(last_step)
        if last_step != self._answer[0]:
            self._answer = last_step, tuple([upto for c in whole if (upto := _upto(c, last_step)) is not None])
        return self._answer[1]

    def columns_beyond(self, last_step: int) -> tuple[Column, ...]:
        """As `Question`."""
        version = self._recorded.version, self._saved.read_on(last_step) if self._saved else 0
        if version != self._merged_from:
            others = {column.worker: column for column in self._saved.so_far()} if self._saved and version[1] else {}
            self._merged = tuple(merged(self._recorded.columns(*self._asked), others))
            self._merged_from, self._answer = version, (_NO_STEP, ())
        return self._merged

    def is_read(self, last_step: int) -> bool:
        """As `Question`."""
        return self._saved is None or self._saved.is_read(last_step)


def _upto(column: Column, last_step: int) -> Column | None:
    count = int(column.steps.searchsorted(last_step, side="right"))
    if count == len(column.steps):
        return column
    return Column(column.tensor, column.worker, column.steps[:count], column.values[:count]) if count else None
