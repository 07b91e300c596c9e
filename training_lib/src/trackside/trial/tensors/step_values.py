"""One statistic of many tensors at one step, looked up in all of their columns at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.trial.window import MOST_IN_PANEL, Column, Panel, StepValues

STEPS_AT_ONCE = 256  # in one table: what lies far ahead is not read for the sake of a step
MOST_TABLES = 64

ColumnsOf = Callable[[str, str, str | None, int], Sequence[Column]]


class StepTables:
    """The tables of a trial, made on request.

    columns_of  (tensor, statistic, mode, last_step) -> whole columns, with all steps up to `last_step` at least
    last_step   returns the last complete step
    """

    def __init__(self, columns_of: ColumnsOf, *, last_step: Callable[[], int]) -> None:
        self._columns_of, self._last_step = columns_of, last_step
        self._tables: dict[tuple[tuple[str, ...], str, str | None], StepTable] = {}
        self._moment: object = None

    def at(
        self, tensors: tuple[str, ...], statistic: str, mode: str | None, *, step: int, moment: object
    ) -> StepValues:
        """Return the values for `Window.at_step`. `moment` changes whenever the trial has read new data."""
        return self._table(tensors, statistic, mode, step=step, moment=moment).at(step)

    def newest(
        self, tensors: tuple[str, ...], statistic: str, mode: str | None, *, last: int, last_step: int, moment: object
    ) -> tuple[Panel, ...]:
        """Return the panels for `Window.newest`. `moment` changes whenever the trial has read new data."""
        return self._table(tensors, statistic, mode, step=last_step, moment=moment).newest(last, last_step)

    def _table(
        self, tensors: tuple[str, ...], statistic: str, mode: str | None, *, step: int, moment: object
    ) -> StepTable:
        if moment != self._moment:
            self._tables, self._moment = {}, moment
        key = (tensors, statistic, mode)
        table = self._tables.get(key)
        if table is None or not table.first_step <= step <= table.last_step:
            if len(self._tables) >= MOST_TABLES:
                self._tables.clear()
            last_step = max(step, min(self._last_step(), step + STEPS_AT_ONCE - 1))
            columns = {tensor: self._columns_of(tensor, statistic, mode, last_step) for tensor in tensors}
            table = self._tables[key] = StepTable(columns, first_step=step, last_step=last_step)
        return table


class StepTable:
    """The values of many columns at the steps from `first_step` to `last_step`, a row for each step.

    Columns that were measured at the same steps share a matrix. `columns` are those of each tensor over all steps read,
    and may go beyond `last_step`.
    """

    def __init__(self, columns: Mapping[str, Sequence[Column]], *, first_step: int, last_step: int) -> None:
        self.first_step, self.last_step = first_step, last_step
        self._names = tuple(columns)
        firsts = {name: min((int(c.steps[0]) for c in some), default=last_step + 1) for name, some in columns.items()}
        self._unknown = tuple([name for name, first in firsts.items() if first > last_step])
        self._late = {name: first for name, first in firsts.items() if first_step < first <= last_step}
        groups = _by_steps(column for some in columns.values() for column in some)
        parts = (_Part(group, first_step=first_step, last_step=last_step) for group in groups)
        self._parts = tuple(parts)

    def newest(self, last: int, last_step: int) -> tuple[Panel, ...]:
        """Return the newest values of the columns with any up to `last_step`, which is one of the table's steps."""
        return tuple([panel for part in self._parts if (panel := part.newest(last, last_step)) is not None])

    def at(self, step: int) -> StepValues:
        """Return the values at a step between the first and the last."""
        unknown = self._unknown
        if self._late and (late := {name for name, first in self._late.items() if first > step}):
            late.update(unknown)
            unknown = tuple([name for name in self._names if name in late])
        found = [(part, part.values[:, row]) for part in self._parts if (row := part.rows.get(step)) is not None]
        if len(found) == 1:
            part, values = found[0]
            return StepValues(part.tensors, part.workers, values, unknown)
        return StepValues(
            tuple([name for part, _ in found for name in part.tensors]),
            tuple([worker for part, _ in found for worker in part.workers]),
            np.concatenate([values for _, values in found]) if found else np.empty(0),
            unknown,
        )


class _Part:
    """Columns with the same steps.

    values  those at the table's steps and at some before, shape (columns, steps)
    rows    step -> its place in `values`
    """

    def __init__(self, columns: Sequence[Column], *, first_step: int, last_step: int) -> None:
        self.tensors = tuple([column.tensor for column in columns])
        self.workers = tuple([column.worker for column in columns])
        steps = columns[0].steps
        end = int(steps.searchsorted(last_step, side="right"))
        self._begin = max(0, int(steps.searchsorted(first_step)) - MOST_IN_PANEL)
        self._steps = steps[self._begin : end]
        self.rows = {step: row for row, step in enumerate(self._steps.tolist())}
        self.values: NDArray[np.float64] = np.array([column.values[self._begin : end] for column in columns])
        self._oldest = np.array([column.values[: min(end, MOST_IN_PANEL)] for column in columns])
        self.values.flags.writeable = self._oldest.flags.writeable = False

    def newest(self, last: int, last_step: int) -> Panel | None:
        """Return the newest values up to `last_step`; None without any."""
        end = int(self._steps.searchsorted(last_step, side="right"))
        if not end:
            return None
        count = self._begin + end
        newest = self.values[:, max(0, end - last) : end]
        return Panel(self.tensors, self.workers, count, self._oldest[:, :count], newest)


def _by_steps(columns: Iterable[Column]) -> list[list[Column]]:
    """Return the columns, grouped by equal steps."""
    groups: dict[tuple[int, int, int], list[list[Column]]] = {}
    for column in columns:
        steps = column.steps
        alike = groups.setdefault((len(steps), int(steps[0]), int(steps[-1])), [])
        group = next((one for one in alike if one[0].steps is steps or np.array_equal(one[0].steps, steps)), None)
        if group is None:
            alike.append([column])
        else:
            group.append(column)
    return [group for alike in groups.values() for group in alike]
