"""The content of a run for exports: every statistic of a tensor as columns over steps, and the time of each step."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import KeyNotFoundError, TensorNotSavedError
from trackside.contracts.run_layout import TENSORS
from trackside.records.modes import MODE_NUMBERS
from trackside.storage.store import Store
from trackside.trial.parallel import in_parallel
from trackside.trial.series import TensorSeries
from trackside.trial.trial import Trial
from trackside.trial.window import Column

T = TypeVar("T")

# Shows progress: (items, label of the work) -> the same items, one by one.
Progress = Callable[[Sequence[T], str], Iterable[T]]

_CATCH_ALL = {"all", "default"}  # collections that do not describe a tensor
_TIME_BYTES = 21  # a record's header, then the first field of its event
_TIME_FIELD = 0x09


def untracked(items: Sequence[T], label: str) -> Iterable[T]:
    """Return the items without showing progress."""
    return items


@dataclass(frozen=True, eq=False)
class StatisticTable:
    """The statistics of one tensor of one worker in one mode, at n >= 1 steps.

    tensor      the tensor
    worker      the worker
    mode        the mode
    steps       int64 of shape (n,), ascending
    mode_steps  int64 of shape (n,); -1 if unknown
    columns     statistic -> float64 of shape (n,), and a mask of the same shape: True if the step has that number
    """

    tensor: str
    worker: str
    mode: str
    steps: NDArray[np.int64]
    mode_steps: NDArray[np.int64]
    columns: Mapping[str, tuple[NDArray[np.float64], NDArray[np.bool_]]]


def statistic_tables(trial: Trial, series: TensorSeries, statistics: Iterable[str]) -> Iterator[StatisticTable]:
    """Yield a table for each mode and worker that has any of the statistics of this tensor, by mode and worker.

    Raises:
        ConfigurationError: A statistic is unknown.
        StorageError: The store failed.
    """
    wanted = tuple(statistics)
    mode_steps = {(s.step, s.worker): s.mode_step for s in trial.parts.saved.saved(series.name, series.selection)}
    for mode in MODE_NUMBERS if series.selection.mode is None else (series.selection.mode,):
        in_mode = series.in_mode(mode)
        workers: dict[str, dict[str, Column]] = {}
        for statistic in wanted:
            for column in in_mode.columns(statistic):
                workers.setdefault(column.worker, {})[statistic] = column
        for worker, columns in sorted(workers.items()):
            steps = np.unique(np.concatenate([column.steps for column in columns.values()]))
            yield StatisticTable(
                tensor=series.name,
                worker=worker,
                mode=mode,
                steps=steps,
                mode_steps=np.array([mode_steps.get((int(step), worker), -1) for step in steps], np.int64),
                columns={name: _spread(column, steps) for name, column in columns.items()},
            )


def selected(trial: Trial, tensors: Sequence[TensorSeries] | None) -> Sequence[TensorSeries]:
    """Return the tensors to export: the given ones, else all.

    Raises:
        TensorNotSavedError: No tensor is selected or saved.
    """
    found = trial.tensors() if tensors is None else tensors
    if found:
        return found
    what = "No tensor is selected" if trial.names else "No tensor was saved yet"
    raise TensorNotSavedError(f"{what} in {trial.uri}. Nothing was exported: `trackside tensors` lists what there is.")


def check_statistics(trial: Trial, tensors: Sequence[TensorSeries], statistics: Iterable[str]) -> None:
    """Raise an error for a statistic that is neither one of `STATISTICS` nor recorded by the run.

    Raises:
        ConfigurationError: A statistic is unknown.
    """
    for name in statistics:
        trial.columns(tensors[0].name, name, last_step=-1, mode=None)


def one_number_names(trial: Trial, tensors: Sequence[TensorSeries]) -> frozenset[str]:
    """Return the names of tensors with one element only: losses, metrics, learning rates."""
    heads = trial.parts.heads(tensors)
    return frozenset(name for name, head in heads.items() if math.prod(head.shape) == 1)


def first_collections(trial: Trial) -> dict[str, str]:
    """Return the collection of each tensor: the first by name that is neither `all` nor `default`."""
    found: dict[str, str] = {}
    for collection, names in trial.collections.items():
        if collection not in _CATCH_ALL:
            for name in names:
                found.setdefault(name, collection)
    return found


def run_name(uri: str) -> str:
    """Return a run's name in a form that any file system accepts: the last part of its location."""
    parts = [part for part in re.split(r"[/\\]+", uri) if part]
    if len(parts) > 1 and parts[-1] == TENSORS:
        parts.pop()
    return file_name(parts[-1] if parts else "")


def file_name(text: str) -> str:
    """Return `text` as the name of a file or folder, without any way to another folder."""
    return re.sub(r"[^-\w.=+@]", "_", text).lstrip(".") or "run"


class SaveTimes:
    """The time at which each worker saved each step, in seconds since the epoch.

    It is read from the first bytes of the event files.
    """

    def __init__(self, trial: Trial, store: Store) -> None:
        self._trial, self._store = trial, store
        self._known: dict[str, dict[int, float]] = {}
        self._first: float | None = None

    def first(self) -> float:
        """Return the time of the run's first step, 0 if unknown."""
        if self._first is None:
            keys = [
                self._trial.parts.steps.event_key(step, worker)
                for step in self._trial.steps()[:1]
                for worker in self._trial.workers
            ]
            self._first = min(filter(None, map(self._read, keys)), default=0.0)
        return self._first

    def of(self, worker: str, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return a time for each of the ascending steps.

        A step without a time has that of the nearest one before it, so that time never runs backward. Steps before the
        first one with a time have that first time.
        """
        known = self._known.setdefault(worker, {})
        new = [int(step) for step in steps if int(step) not in known]
        keys = [self._trial.parts.steps.event_key(step, worker) for step in new]
        known.update(zip(new, in_parallel(self._store, self._read, keys), strict=True))
        times = np.array([known[int(step)] for step in steps])
        has_time = times > 0
        if not has_time.any():
            return np.full(len(times), self.first())
        nearest = np.maximum.accumulate(np.where(has_time, np.arange(len(times)), -1))
        return times[np.where(nearest < 0, int(np.argmax(has_time)), nearest)]

    def at(self, worker: str, step: int) -> float:
        """Return the time at which this worker saved this step."""
        return float(self.of(worker, np.array([step]))[0])

    def _read(self, key: str) -> float:
        try:
            data = self._store.get(key, length=_TIME_BYTES) if key else b""
        except KeyNotFoundError:  # reading its tensors reports it
            return 0.0
        if len(data) < _TIME_BYTES or data[12] != _TIME_FIELD:
            return 0.0
        (seconds,) = struct.unpack_from("<d", data, 13)
        return float(seconds) if math.isfinite(seconds) else 0.0


def _spread(column: Column, steps: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, mask = np.full(len(steps), np.nan), np.zeros(len(steps), np.bool_)
    places = np.searchsorted(steps, column.steps)
    values[places], mask[places] = column.values, True
    return values, mask
