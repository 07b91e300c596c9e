"""A question that a rule repeats at every step, with the lookups done once."""

from __future__ import annotations

from typing import Protocol

from trackside.trial.recorded.recorded import Recorded, merged
from trackside.trial.tensors.tensors import Follower, Reading
from trackside.trial.window import Column

_LAST_STEP = 2**63 - 1
_NO_STEP = -(2**63)


class Question(Protocol):
    """One statistic of one tensor in one mode, or in every mode."""

    def columns(self, last_step: int) -> tuple[Column, ...]:
        """Return one column per worker, by worker name, over the steps up to `last_step`. Errors: the store's."""

    def columns_beyond(self, last_step: int) -> tuple[Column, ...]:
        """Return `columns`, which may hold later steps too. Columns with the same steps share the array."""

    def is_read(self, last_step: int) -> bool:
        """Return True if the answer needs no further step to be read."""


class SavedQuestion:
    """A question answered from saved reductions and whole tensors."""

    def __init__(self, reading: Reading, follower: Follower, statistic: str, place: int, mode: str | None) -> None:
        self._reading, self._follower, self._statistic = reading, follower, statistic
        self._place, self._mode = place, mode

    def columns(self, last_step: int) -> tuple[Column, ...]:
        """Implement `Question.columns`."""
        follower = self._follower  # `read_on`, without a call: a rule comes here for each tensor at each step
        self._reading.request(follower)
        if self._reading.lags(follower, last_step):
            self._reading.catch_up(follower, self._statistic, last_step)
        return follower.columns(self._place, last_step, self._mode)

    def columns_beyond(self, last_step: int) -> tuple[Column, ...]:
        """Implement `Question.columns_beyond`."""
        self.read_on(last_step)
        return self.so_far()

    def is_read(self, last_step: int) -> bool:
        """Implement `Question.is_read`."""
        return not self._reading.lags(self._follower, last_step)

    def read_on(self, last_step: int) -> int:
        """Read the steps up to `last_step`. Return the number of rows read so far."""
        follower = self._follower
        self._reading.request(follower)
        if self._reading.lags(follower, last_step):
            self._reading.catch_up(follower, self._statistic, last_step)
        return follower.rows

    def so_far(self) -> tuple[Column, ...]:
        """Return the columns over all steps read so far."""
        return self._follower.columns(self._place, _LAST_STEP, self._mode)


class RecordedQuestion:
    """A question answered from recorded statistics, and from saved tensors at steps without them."""

    def __init__(
        self, recorded: Recorded, saved: SavedQuestion | None, *, tensor: str, statistic: str, mode: str | None
    ) -> None:
        self._recorded, self._saved = recorded, saved
        self._arguments = (tensor, statistic, mode)
        self._merged: tuple[Column, ...] = ()
        self._merged_from = (-1, -1)
        self._answer: tuple[int, tuple[Column, ...]] = (_NO_STEP, ())  # rules ask the same at the same step

    def columns(self, last_step: int) -> tuple[Column, ...]:
        """Implement `Question.columns`."""
        if last_step == self._answer[0] and self._recorded.version == self._merged_from[0] and self.is_read(last_step):
            return self._answer[1]
        whole = self.columns_beyond(last_step)
        if last_step != self._answer[0]:
            self._answer = last_step, tuple([upto for c in whole if (upto := _upto(c, last_step)) is not None])
        return self._answer[1]

    def columns_beyond(self, last_step: int) -> tuple[Column, ...]:
        """Implement `Question.columns_beyond`."""
        version = self._recorded.version, self._saved.read_on(last_step) if self._saved else 0
        if version != self._merged_from:
            others = {column.worker: column for column in self._saved.so_far()} if self._saved and version[1] else {}
            self._merged = tuple(merged(self._recorded.columns(*self._arguments), others))
            self._merged_from, self._answer = version, (_NO_STEP, ())
        return self._merged

    def is_read(self, last_step: int) -> bool:
        """Implement `Question.is_read`."""
        return self._saved is None or self._saved.is_read(last_step)

    def is_recorded_alone(self, last_step: int) -> bool:
        """Return True if no saved tensor adds a number up to `last_step`."""
        return self._saved is None or self._saved.read_on(last_step) == 0


def _upto(column: Column, last_step: int) -> Column | None:
    count = int(column.steps.searchsorted(last_step, side="right"))
    if count == len(column.steps):
        return column
    return Column(column.tensor, column.worker, column.steps[:count], column.values[:count]) if count else None
