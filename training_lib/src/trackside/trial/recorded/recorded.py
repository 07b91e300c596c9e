"""The always-on statistics beside the saved tensors: read from the first request on, and merged with saved ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.run_layout import SegmentName
from trackside.trial.recorded.recorded_steps import RecordedSteps
from trackside.trial.recorded.statistic_rows import Piece
from trackside.trial.steps.saved_step import SavedStep
from trackside.trial.steps.step_numbers import StepNumbers
from trackside.trial.window import Column

KEPT_BYTES = 4 << 20  # of columns, where `trim` is called
LONG_STEPS = 1 << 18  # from which on the columns of a run are not read as a whole, only to look for a step
_LAST_STEP = 2**63 - 1


class StatisticsSource(Protocol):
    """The interface of `trial.recorded_statistics.RecordedStatistics`."""

    @property
    def tensors(self) -> frozenset[str]:
        """Names of the tensors with any recorded statistic."""

    def refresh(self, *, newest: Sequence[SegmentName] | None = None) -> bool:
        """Read new rows; `newest` names the newest segments. Return True if any row was new."""

    @property
    def steps(self) -> RecordedSteps:
        """The steps with rows."""

    def statistics_of(self, tensor: str) -> frozenset[str]:
        """Return the names of the statistics recorded of a tensor."""

    def columns(self, tensor: str, statistic: str, *, last_step: int, mode: str | None) -> tuple[Column, ...]:
        """Return one column per worker, ascending by step."""

    def pieces(
        self, wanted: Sequence[tuple[str, str]], *, first: int, last: int, mode: str | None
    ) -> tuple[Iterator[Piece], list[tuple[str, str]]]:
        """Return recorded numbers a piece at a time, and those to be read as whole columns."""

    def trim(self, most_bytes: int) -> bool:
        """Drop kept columns if they take more than this. Return True if they were dropped."""

    def moments(self, worker: str) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Yield training steps of a worker, and the end of each in seconds since the epoch, a piece at a time."""

    def training_steps(self) -> StepNumbers:
        """Return the number of each training step of any worker."""


class Recorded:
    """The statistics that a run records at every step. The store is not read before the first request.

    source         None for a run without a place for statistics
    version        changes with the rows
    names_version  changes with the set of recorded statistics of any tensor
    """

    def __init__(self, source: StatisticsSource | None) -> None:
        self._source = source
        self._is_requested = False
        self._known: Mapping[str, frozenset[str]] = {}
        self._columns: dict[tuple[str, str, str | None], Mapping[str, Column]] = {}
        self._training: tuple[int, StepNumbers] | None = None  # of a version
        self._around: dict[tuple[str, str, str | None], tuple[int, int, int, dict[str, StepNumbers]]] = {}
        self.version = 0  # of the rows
        self.names_version = 0  # of what is recorded of which tensor

    @property
    def tensors(self) -> Mapping[str, frozenset[str]]:
        """The recorded statistics by tensor."""
        if not self._is_requested:
            self._is_requested = True
            self._look()
        return self._known

    @property
    def has_any(self) -> bool:
        """True if rows were found. False before the first request."""
        return bool(self._known)

    @property
    def steps(self) -> RecordedSteps | None:
        """The steps with rows; None while the run has none."""
        return self._source.steps if self._source is not None and self.tensors else None

    @property
    def workers(self) -> frozenset[str]:
        """The workers with rows. Empty before the first request."""
        return frozenset(self._source.steps.last_by_worker) if self._source is not None and self._known else frozenset()

    def refresh(self, *, newest: Sequence[SegmentName] | None = None) -> None:
        """Read new rows, unless nothing was requested yet.

        `newest` names the newest segments, from the watermarks; None makes it search for them. Errors: the store's.
        """
        if self._is_requested:
            self._look(newest)

    def columns(self, tensor: str, statistic: str, mode: str | None) -> Mapping[str, Column]:
        """Return the whole column of each worker, by worker."""
        key = (tensor, statistic, mode)
        columns = self._columns.get(key)
        if columns is None:
            found = self._source.columns(tensor, statistic, last_step=_LAST_STEP, mode=mode) if self._source else ()
            columns = self._columns[key] = {column.worker: column for column in found}
        return columns

    def pieces(
        self, tensors: Sequence[str], statistic: str, *, first: int, last: int, mode: str | None
    ) -> tuple[Iterator[Piece], list[str]]:
        """Return the recorded numbers of a range of steps a piece at a time, and the tensors to be read whole.

        No piece is kept.
        """
        if self._source is None:
            return iter(()), []
        wanted = [(name, statistic) for name in tensors]
        pieces, whole = self._source.pieces(wanted, first=first, last=last, mode=mode)
        return pieces, [tensor for tensor, _ in whole]

    def trim(self) -> bool:
        """Drop the columns that are kept if they take much memory. Return True if they were dropped."""
        if self._source is None or not self._source.trim(KEPT_BYTES):
            return False
        self._columns.clear()
        return True

    def moments(self, worker: str) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Yield the training steps of a worker, and the end of each in seconds since the epoch, a piece at a time.

        The pieces follow one another: a run of a million steps is never in memory as a whole.
        """
        if self._source is not None and self.tensors:
            yield from self._source.moments(worker)

    def training_steps(self, steps: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number among training steps of each step; of a step between them that of the training step before.

        A step without such a number keeps its own, as in a run without recorded statistics.
        """
        steps = np.asarray(steps, np.int64)
        if self._source is None or not self.tensors:
            return steps
        if self._training is None or self._training[0] != self.version:
            self._training = self.version, self._source.training_steps()
        return self._training[1].of(steps)

    def holds(self, tensor: str, statistic: str, saved: SavedStep) -> bool:
        """Return True if the statistic is recorded of this step and worker."""
        if self.steps is not None and len(self.steps) > LONG_STEPS:
            return self._holds_of_many(tensor, statistic, saved)
        column = self.columns(tensor, statistic, saved.mode).get(saved.worker)
        if column is None:
            return False
        place = int(column.steps.searchsorted(saved.step))
        return place < len(column.steps) and column.steps[place] == saved.step

    def _holds_of_many(self, tensor: str, statistic: str, saved: SavedStep) -> bool:
        """Return `holds`, without a column of a long run: by the steps around the saved one, which are asked next."""
        key = (tensor, statistic, saved.mode)
        version, first, last, steps = self._around.get(key, (-1, 0, -1, {}))
        if version != self.version or not first <= saved.step <= last:
            first, last, steps = saved.step, saved.step + LONG_STEPS // 4, {}
            pieces, whole = self.pieces([tensor], statistic, first=first, last=last, mode=saved.mode)
            if whole:
                steps = {worker: StepNumbers.at(c.steps) for worker, c in self.columns(*key).items()}
                first, last = 0, _LAST_STEP
            for worker, numbers in pieces:
                for at, _ in numbers.values():
                    steps.setdefault(worker, StepNumbers()).add(at, at)
            self._around[key] = self.version, first, last, steps
        return saved.worker in steps and saved.step in steps[saved.worker]

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
    """Yield a column per worker, by worker: recorded numbers first, others at steps without those."""
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
