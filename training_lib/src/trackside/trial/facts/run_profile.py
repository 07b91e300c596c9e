"""The measurements of a run's speed beside its steps: metrics of the machines over time, and facts of each worker.

Nothing is read before the first request. Files are read once, and one that grows from where it was read before.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cached_property import cached_property
from trackside.contracts.errors import KeyNotFoundError, RecordError, StorageUnavailableError
from trackside.contracts.run_layout import OPEN_SUFFIX, SYSTEM_PREFIX
from trackside.records.machine.machine_samples import SUFFIX, without_exports
from trackside.records.machine.machine_samples_reader import MachineSamplesReader
from trackside.records.machine.performance_facts import PerformanceFacts, performance_workers, read_performance
from trackside.records.machine.system_metrics_file import MOST_BYTES
from trackside.records.machine.system_series import SystemSeries, decode_system_series
from trackside.storage.store import Store
from trackside.trial.window import MachineSeries

LOCAL_PAUSE_SECONDS, REMOTE_PAUSE_SECONDS = 1.0, 30.0  # between two looks: a request each time
ARRIVAL_SECONDS = 2.0  # until a sample lies in its file: a step sees the samples that are older
_CORES = "cpu"  # the type of metrics of single cores
_OF_A_CORE = (b'"Dimension":"CPUUtilization"', b'"Dimension":"I/OWaitPercentage"')
_OF_ALL_CORES = b'"Dimension":"CPUUtilizationTotal"'

_StepTimes = tuple[NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True)
class MachineMetric:
    """One metric of a machine over time, oldest first.

    Attributes:
        kind: Its type: `gpu`.
        dimension: Its dimension: `GPUUtilization`.
        name: Its device: `gpu0`.
        node: Name of the machine: `algo-1`.
        times: Seconds since the epoch, float64 of shape (n,), ascending.
        values: float64 of shape (n,).
    """

    kind: str
    dimension: str
    name: str
    node: str
    times: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass
class _Samples:
    """One number of one device over time, as it is read."""

    kind: str
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    taken: int = -1
    arrays: tuple[NDArray[np.float64], NDArray[np.float64]] = field(default=(np.empty(0), np.empty(0)))

    def in_order(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return times and values, by time."""
        if self.taken != len(self.times):
            times, values = np.array(self.times), np.array(self.values)
            if (np.diff(times) < 0).any():
                order = np.argsort(times, kind="stable")
                times, values = times[order], values[order]
            times.flags.writeable = values.flags.writeable = False
            self.arrays, self.taken = (times, values), len(times)
        return self.arrays


@dataclass
class _File:
    offset: int = 0
    is_settled: bool = False
    reader: MachineSamplesReader | None = None  # of a compact file, which is read piece by piece


class RunProfile:
    """The measurements of one run; see `ProfileSource`. Safe to use from several threads.

    Args:
        open_store: Opens the run's profiles, at the first request; None for a run without a place for them.
        step_times: Returns the training steps of each worker, and the end of each.
        has_cores: True to read the metrics of single cores of our own files too.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        open_store: Callable[[], Store | None],
        step_times: Callable[[], Mapping[str, _StepTimes]],
        *,
        has_cores: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._has_cores = has_cores
        self._open_store, self._step_times, self._monotonic = open_store, step_times, monotonic
        self._lock = threading.Lock()
        self._files: dict[str, _File] = {}
        self._samples: dict[str, dict[tuple[str, str], _Samples]] = {}  # by dimension, then node and device
        self._newest = -math.inf
        self._read_at = self._facts_at = -math.inf
        self._facts: Mapping[str, PerformanceFacts] = {}

    def machine(self, dimension: str, *, name: str, until: float) -> tuple[MachineSeries, ...]:
        """Implement `ProfileSource.machine`."""
        with self._lock:
            if self._newest < until and self._is_due(self._read_at):
                self._read_at = self._monotonic()
                self._read()
            found = []
            for (node, device), samples in sorted(self._samples.get(dimension, {}).items()):
                if name in {"", device}:
                    times, values = samples.in_order()
                    count = int(np.searchsorted(times, until, side="right"))
                    if count:
                        found.append(MachineSeries(node, device, times[:count], values[:count]))
            return tuple(found)

    def all_metrics(self) -> tuple[MachineMetric, ...]:
        """Return all metrics, by dimension, machine and device."""
        with self._lock:
            self._read()
            return tuple(
                MachineMetric(samples.kind, dimension, device, node, *samples.in_order())
                for dimension, devices in sorted(self._samples.items())
                for (node, device), samples in sorted(devices.items())
            )

    def facts(self) -> Mapping[str, PerformanceFacts]:
        """Implement `ProfileSource.facts`."""
        with self._lock:
            if self._is_due(self._facts_at) and self._store is not None:
                self._facts_at = self._monotonic()
                self._facts = _facts(self._store)
            return self._facts

    def ended_at(self, step: int) -> float:
        """Implement `ProfileSource.ended_at`."""
        by_worker = self._step_times()
        if not by_worker:  # a run without recorded steps: everything that has arrived
            return math.inf
        ends = [float(times[k - 1]) for steps, times in by_worker.values() if (k := bisect_right(steps, step))]
        return max(ends, default=-math.inf) - ARRIVAL_SECONDS

    def step_at(self, moment: float) -> int:
        """Implement `ProfileSource.step_at`."""
        found = [steps[k - 1] for steps, times in self._step_times().values() if (k := bisect_right(times, moment))]
        return int(max(found, default=0))

    def first_end(self) -> float | None:
        """Implement `ProfileSource.first_end`."""
        return min((float(times[0]) for _, times in self._step_times().values() if len(times)), default=None)

    @cached_property
    def _store(self) -> Store | None:
        return self._open_store()

    def _is_due(self, before: float) -> bool:
        store = self._store
        pause = REMOTE_PAUSE_SECONDS if store is not None and "://" in store.uri else LOCAL_PAUSE_SECONDS
        return self._monotonic() - before >= pause

    def _read(self) -> None:
        if self._store is None:
            return
        try:
            for key in sorted(without_exports(self._store.list(SYSTEM_PREFIX))):
                file = self._files.setdefault(key.removesuffix(OPEN_SUFFIX), _File())
                if not file.is_settled and key.removesuffix(OPEN_SUFFIX).endswith((".json", SUFFIX)):
                    self._read_on(self._store, key, file)
        except StorageUnavailableError:  # the next look reads on
            return

    def _read_on(self, store: Store, key: str, file: _File) -> None:
        is_open = key.endswith(OPEN_SUFFIX)
        try:
            data = store.get(key, start=file.offset, length=MOST_BYTES)
        except KeyNotFoundError:  # it was given its final name since
            return
        is_compact = key.removesuffix(OPEN_SUFFIX).endswith(SUFFIX)
        data = data[: data.rfind(b"\n") + 1] if is_open and not is_compact else data
        file.offset, file.is_settled = file.offset + len(data), not is_open
        try:
            for found in self._compact(file, data, key) if is_compact else self._lines(data, key):
                of = self._samples.setdefault(found.dimension, {})
                samples = of.setdefault((found.node, found.name), _Samples(found.kind))
                samples.times.frombytes(found.times.tobytes())
                samples.values.frombytes(found.values.tobytes())
                self._newest = max(self._newest, float(found.times.max()))
        except RecordError:  # a damaged file counts as far as it can be read
            file.is_settled = True

    def _lines(self, data: bytes, key: str) -> Iterator[SystemSeries]:
        return decode_system_series(data if self._has_cores else _without_cores(data), key=key)

    def _compact(self, file: _File, data: bytes, key: str) -> Iterator[SystemSeries]:
        file.reader = file.reader or MachineSamplesReader(key)
        found = file.reader.feed(data)
        return found if self._has_cores else (each for each in found if each.kind != _CORES)


def _without_cores(data: bytes) -> bytes:
    """Return a file of ours without the lines about single cores: rules judge the machine, which has lines of its own.

    On a large machine they are nine of ten lines.
    """
    if _OF_ALL_CORES not in data:
        return data
    return b"\n".join([line for line in data.split(b"\n") if not any(mark in line for mark in _OF_A_CORE)])


def _facts(store: Store) -> Mapping[str, PerformanceFacts]:
    found = {}
    try:
        for worker in performance_workers(store):
            try:
                facts = read_performance(store, worker)
            except RecordError:  # damaged: as if it had stored none
                continue
            if facts is not None:
                found[worker] = facts
    except StorageUnavailableError:
        return found
    return found
