"""The always-on statistics beside the saved tensors: looked at once somebody asks, and merged with what was saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from trackside.contracts.run_layout import SegmentName
from trackside.trial.recorded_steps import RecordedSteps
from trackside.trial.saved_step import SavedStep
from trackside.trial.window import Column

_LAST_STEP = 2**63 - 1


class StatisticsSource(Protocol):
    """What `trial.recorded_statistics.RecordedStatistics` offers."""

    @property
    def tensors(self) -> frozenset[str]:
        """Names of the tensors that any statistic is recorded of."""

    def refresh(self, *, newest: Sequence[SegmentName] | None = None) -> bool:
        """Reads what is new, `newest` saying where that is; True if there was anything."""

    @property
    def steps(self) -> RecordedSteps:
        """The steps of which there are rows."""

    def statistics_of(self, tensor: str) -> frozenset[str]:
        """Names of the statistics recorded of a tensor."""

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """One column per worker, ascending by step."""


class Recorded:
    """The statistics that a run records at every step. Nothing is asked of the store before the first question.

    `source` is None for a run that has no place for them.
    """

    def __init__(self, source: StatisticsSource | None) -> None:
        self._source = source
        self._is_asked = False
        self._known: Mapping[str, frozenset[str]] = {}
        self._columns: dict[tuple[str, str, str | None], Mapping[str, Column]] = {}
        self.version = 0  # of the rows
        self.names_version = 0  # of what is recorded of which tensor

    @property
    def tensors(self) -> Mapping[str, frozenset[str]]:
        """The recorded statistics by tensor."""
        if not self._is_asked:
            self._is_asked = True
            self._look()
        return self._known

    @property
    def has_any(self) -> bool:
        """True if there are rows, as far as anybody has asked."""
        return bool(self._known)

    @property
    def steps(self) -> RecordedSteps | None:
        """The steps of which there are rows; None where there are none so far."""
        return self._source.steps if self._source is not None and self.tensors else None

    @property
    def workers(self) -> frozenset[str]:
        """The workers that recorded something, as far as anybody has asked."""
        return frozenset(self._source.steps.last_by_worker) if self._source is not None and self._known else frozenset()

    def refresh(self, *, newest: Sequence[SegmentName] | None = None) -> None:
        """Looks for what is new, if anybody ever asked. `newest`: the newest segments, where watermarks name them; None
        where they have to be searched for. Errors: the store's."""
        if self._is_asked:
            self._look(newest)

    def columns(self, tensor: str, statistic: str, mode: str | None) -> Mapping[str, Column]:
        """The whole column of each worker, by worker."""
        key = (tensor, statistic, mode)
        columns = self._columns.get(key)
        if columns is None:
            found = self._source.columns(tensor, statistic, last_step=_LAST_STEP, mode=mode) if self._source else ()
            columns = self._columns[key] = {column.worker: column for column in found}
        return columns

    def holds(self, tensor: str, statistic: str, saved: SavedStep) -> bool:
        """True if the statistic is recorded of this step and worker."""
        column = self.columns(tensor, statistic, saved.mode).get(saved.worker)
        if column is None:
            return False
        place = int(column.steps.searchsorted(saved.step))
        return place < len(column.steps) and column.steps[place] == saved.step

    def _look(self, newest: Sequence[SegmentName] | None = None) -> None:
        if self._source is None or not self._source.refresh(newest=newest):
            return
        self.version += 1
        self._columns.clear()
        known = {tensor: self._source.statistics_of(tensor) for tensor in self._source.tensors}
        if known != self._known:
            self._known = known
            self.names_version += 1


def merged(recorded: Mapping[str, Column], others: Mapping[str, Column]) -> Iterator[Column]:
    """A column per worker, by worker: recorded numbers first, others where a step has none of those."""
    for worker in sorted({*recorded, *others}):
        first, second = recorded.get(worker), others.get(worker)
        if first is None or second is None:
            yield from (column for column in (first, second) if column is not None)
            continue
        is_lacking = ~np.isin(second.steps, first.steps)
        if not is_lacking.any():
            yield first
            continue
        steps = np.concatenate((first.steps, second.steps[is_lacking]))
        values = np.concatenate((first.values, second.values[is_lacking]))
        order = np.argsort(steps, kind="stable")
        steps, values = steps[order], values[order]
        steps.flags.writeable = values.flags.writeable = False
        yield Column(first.tensor, worker, steps, values)
