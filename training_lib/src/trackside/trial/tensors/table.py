"""All statistics of one tensor over its steps, in growing arrays."""

from __future__ import annotations

import bisect
from array import array

import numpy as np
from numpy.typing import NDArray

from trackside.trial.tensors.statistics import OF_SINGLES, Values, widened
from trackside.trial.window import Column

_FIRST_ROWS = 16
_OF_SINGLES = tuple(OF_SINGLES.values())
_ARE_THE_VALUES = frozenset(place for place, name in enumerate(OF_SINGLES) if OF_SINGLES[name] is np.asarray)


class Table:
    """All statistics of one tensor of one worker in one mode: a row for each step, ascending.

    While every value has one element, only the value is kept; the statistics follow from it. Columns are read-only
    views that later rows do not change.
    """

    def __init__(self, tensor: str, worker: str) -> None:
        self.tensor, self.worker = tensor, worker
        self._count = 0
        # An `array` beside its view as NumPy's: single items of it are read several times faster.
        self._steps = array("q")
        self._step_array: NDArray[np.int64] = np.empty(0, np.int64)
        self._numbers: Values = np.empty((1, 0))  # (1 or statistics, room for rows)
        self._shown: list[Values] = []  # the same, row by row, read-only
        self._derived: dict[int, tuple[Values, int]] = {}  # by place: of how many rows, and the statistic
        self._make_room(_FIRST_ROWS)

    def __len__(self) -> int:
        return self._count

    def append(self, step: int, summary: float | Values) -> None:
        """Add one step with the result of `summarise`."""
        count, is_single = self._count, isinstance(summary, float)
        fits = count < len(self._steps) and is_single == (len(self._numbers) == 1)
        if not fits or (count and step < self._steps[count - 1]):
            self.extend(np.array([step]), np.array(summary, np.float64).reshape(-1, 1))
            return
        self._steps[count] = step
        self._numbers[:, count] = summary
        self._count = count + 1

    def extend(self, steps: NDArray[np.int64], numbers: Values) -> None:
        """Add ascending steps with the result of `summarise_many`: at the end, or in between for a late worker."""
        if not len(steps):
            return
        if not self._count:
            self._numbers = np.empty((len(numbers), self._numbers.shape[1]))
        elif len(numbers) < len(self._numbers):
            numbers = widened(numbers)
        elif len(numbers) > len(self._numbers):
            self._numbers, self._derived = widened(self._numbers), {}
        if self._count and steps[0] < self._steps[self._count - 1]:
            self._merge(steps, numbers)
            return
        end = self._count + len(steps)
        if end > len(self._steps):
            self._make_room(max(end, self._count * 3 // 2))
        self._step_array[self._count : end] = steps
        self._numbers[:, self._count : end] = numbers
        self._show(end)

    def column(self, place: int, last_step: int) -> Column | None:
        """Return the statistic at `place` of `STATISTICS` over the steps up to `last_step`; None without any step."""
        count = self._count
        if not count:
            return None
        if self._steps[count - 1] > last_step:
            count = bisect.bisect_right(self._steps, last_step, 0, count)
            if not count:
                return None
        is_kept = len(self._shown) > 1 or place in _ARE_THE_VALUES
        values = self._shown[place if len(self._shown) > 1 else 0] if is_kept else self._derive(place)
        return Column(self.tensor, self.worker, self._shown_steps[:count], values[:count])

    def _derive(self, place: int) -> Values:
        """Return a statistic of tensors of one element, read-only, for at least `_count` rows."""
        values, done = self._derived.get(place, (None, 0))
        if values is None or len(values) != len(self._steps):
            values, done = np.empty(len(self._steps)), 0
        if done < self._count:
            values.flags.writeable = True
            values[done : self._count] = _OF_SINGLES[place](self._numbers[0, done : self._count])
            values.flags.writeable = False
            self._derived[place] = values, self._count
        return values

    def _merge(self, steps: NDArray[np.int64], numbers: Values) -> None:
        """Sort rows into new arrays. Columns that were handed out keep the old arrays."""
        all_steps = np.concatenate((self._step_array[: self._count], steps))
        order = np.argsort(all_steps, kind="stable")
        all_numbers = np.concatenate((self._numbers[:, : self._count], numbers), axis=1)[:, order]
        self._count, self._derived = 0, {}
        self._make_room(len(order))
        self._step_array[:] = all_steps[order]
        self._numbers[:] = all_numbers
        self._show(len(order))

    def _make_room(self, rows: int) -> None:
        steps, numbers = array("q", bytes(8 * rows)), np.empty((len(self._numbers), rows))
        step_array = np.frombuffer(steps, np.int64)
        if self._count:
            step_array[: self._count] = self._step_array[: self._count]
            numbers[:, : self._count] = self._numbers[:, : self._count]
        self._steps, self._step_array, self._numbers = steps, step_array, numbers
        self._show(self._count)

    def _show(self, count: int) -> None:
        self._count = count
        self._shown_steps, numbers = self._step_array.view(), self._numbers.view()
        self._shown_steps.flags.writeable = numbers.flags.writeable = False
        self._shown = list(numbers)
