"""The profile of a run for users: metrics of its machines and seconds of its steps as arrays, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.run.recorded_names import BATCHES_READY, PROCESSOR_WAIT_SECONDS, STEP_SECONDS
from trackside.contracts.run_layout import RunLocation
from trackside.extras import pip_install
from trackside.speed.performance.reading import PHASES, measured_workers, step_pieces
from trackside.speed.performance.timelines import PREFIX, events_of, files_between, timeline_files
from trackside.speed.performance.trace_events import TimelineEvent
from trackside.speed.performance.verdict import PerformanceVerdict, judged_workers
from trackside.storage.open_store import open_store
from trackside.trial.facts.run_profile import MachineMetric, RunProfile
from trackside.trial.trial import Trial, open_trial

_MICROSECONDS = 1e6
_NONE = (np.empty(0, np.int64), np.empty(0))


@dataclass(frozen=True)
class StepDurations:
    """The training steps of one worker, oldest first.

    Attributes:
        worker: The worker.
        steps: Numbers of the steps, int64 of shape (n,).
        seconds: Seconds of each, from the end of the step before, with evaluations and the cost of capture.
        phases: Seconds by phase: `data`, `backward`, `optimizer`, `capture`, `evaluation`; NaN at a step without it. A
            phase that never occurred is absent.
        waits: Seconds of each step in which the training thread was ready and other work had the processor; NaN where
            they are unknown.
        batches_ready: Batches of a DataLoader's workers that were ready when the step asked for its newest; NaN without
            workers.
    """

    worker: str
    steps: NDArray[np.int64]
    seconds: NDArray[np.float64]
    phases: Mapping[str, NDArray[np.float64]]
    waits: NDArray[np.float64]
    batches_ready: NDArray[np.float64]


def open_profile(run: str) -> Profile:
    """Return the profile of a run, growing or finished.

    Args:
        run: The run's folder or `s3://` prefix.

    Raises:
        RunNotFoundError: Nothing at the location looks like a run.
        StorageError: The store cannot be read.
    """
    return Profile(run, open_trial(run))


class Profile:
    """The profile of a run, as it is when it is asked for. Nothing is read before.

    Args:
        uri: The location of the run.
        trial: The same run.
    """

    def __init__(self, uri: str, trial: Trial) -> None:
        self.uri, self._trial = uri, trial
        self._machines = RunProfile(lambda: open_store(RunLocation(uri).profiles), dict, has_cores=True)

    def metrics(self, dimension: str = "", *, name: str = "", node: str = "") -> tuple[MachineMetric, ...]:
        """Return metrics of the machines over time: one for each dimension, device and machine.

        Args:
            dimension: Only of this dimension: `GPUUtilization`; "" for all.
            name: Only of devices of this name: `gpu0`; "" for all.
            node: Only of this machine: `algo-1`; "" for all.

        Raises:
            StorageError: The store cannot be read.
        """
        wanted = {"dimension": dimension, "name": name, "node": node}
        return tuple(
            metric
            for metric in self._machines.all_metrics()
            if all(value in {"", getattr(metric, field)} for field, value in wanted.items())
        )

    def steps(self) -> tuple[StepDurations, ...]:
        """Return the durations of the training steps of each worker, by its name.

        Raises:
            StorageError: The store cannot be read.
        """
        self._trial.refresh()
        by_worker: dict[str, list[StepDurations]] = {}
        for piece in self.step_pieces():
            by_worker.setdefault(piece.worker, []).append(piece)
        return tuple(_joined(pieces) for _, pieces in sorted(by_worker.items()))

    def step_pieces(self) -> Iterator[StepDurations]:
        """Yield `steps` a piece at a time, without a refresh. The pieces of a worker follow one another.

        Raises:
            StorageError: The store cannot be read.
        """
        for worker, numbers in step_pieces(self._trial):
            if STEP_SECONDS in numbers:
                steps, seconds = numbers[STEP_SECONDS]
                phases = {phase: _at(steps, *numbers[name]) for phase, name in PHASES.items() if name in numbers}
                others = (_at(steps, *numbers.get(name, _NONE)) for name in (PROCESSOR_WAIT_SECONDS, BATCHES_READY))
                yield StepDurations(worker, steps, seconds, phases, *others)

    def verdicts(self) -> Mapping[str, PerformanceVerdict]:
        """Return the verdict on the speed of each worker, the slowest first: what `trackside profile` shows.

        Raises:
            StorageError: The store cannot be read.
        """
        self._trial.refresh()
        return dict(judged_workers(measured_workers(self.uri, self._trial)))

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return all metrics of the machines, oldest first, in the columns of the original's `PandasFrame`.

        `timestamp` is in UTC, `timestamp_us` counts microseconds from the first sample on.

        Raises:
            StorageError: The store cannot be read.
        """
        metrics = self.metrics()
        times = np.concatenate([np.empty(0), *(metric.times for metric in metrics)])
        order = np.argsort(times, kind="stable")
        lengths = [len(metric.times) for metric in metrics]

        def repeated(texts: list[str]) -> NDArray[Any]:
            return np.repeat(np.array(texts, np.str_), lengths)[order]

        microseconds = np.round(times[order] * _MICROSECONDS).astype(np.int64)
        return {
            "timestamp": microseconds.astype("datetime64[us]"),
            "timestamp_us": microseconds - (microseconds[0] if len(microseconds) else 0),
            "value": np.concatenate([np.empty(0), *(metric.values for metric in metrics)])[order],
            "system_metric": repeated([metric.name for metric in metrics]),
            "dimension": repeated([metric.dimension for metric in metrics]),
            "nodeID": repeated([metric.node for metric in metrics]),
            "type": repeated([metric.kind for metric in metrics]),
        }

    def to_pandas(self) -> Any:
        """Return `to_columns` as a pandas.DataFrame.

        Raises:
            ConfigurationError: pandas is not installed.
        """
        return pandas_module("to_pandas").DataFrame(self.to_columns())

    def events(self, *, start: float = 0.0, end: float = math.inf) -> list[TimelineEvent]:
        """Return the events of the run's timelines that overlap a range, by their start.

        They are those of SageMaker Debugger and its frameworks, and those that `trackside export --to timeline` wrote
        into the run's `profiler-output`. A damaged file is named in the log, and left out.

        Args:
            start: Seconds since the epoch.
            end: Seconds since the epoch.

        Raises:
            StorageError: The store cannot be read.
        """
        store = open_store(RunLocation(self.uri).profiles)
        first, last = start * _MICROSECONDS, end * _MICROSECONDS
        files = files_between(timeline_files(store.list(PREFIX)), first, last)
        found = events_of(store, files)
        return [event for event in found if event.start <= last and event.start + event.duration >= first]


def pandas_module(subject: str) -> Any:
    """Return the module pandas.

    Args:
        subject: What needs it, for the error.

    Raises:
        ConfigurationError: pandas is not installed.
    """
    try:
        return import_module("pandas")
    except ImportError as missing:
        problem = Problem("pandas", "is not installed.", f"{pip_install()} pandas")
        raise ConfigurationError([problem], subject=subject) from missing


def _joined(pieces: Sequence[StepDurations]) -> StepDurations:
    known = {name for piece in pieces for name in piece.phases}
    missing = {id(piece): np.full(len(piece.steps), np.nan) for piece in pieces}
    phases = {
        name: np.concatenate([piece.phases.get(name, missing[id(piece)]) for piece in pieces])
        for name in PHASES
        if name in known
    }
    steps, seconds, waits, ready = (
        np.concatenate([getattr(piece, name) for piece in pieces])
        for name in ("steps", "seconds", "waits", "batches_ready")
    )
    return StepDurations(pieces[0].worker, steps, seconds, phases, waits, ready)


def _at(steps: NDArray[np.int64], known: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values at these steps, NaN at a step without one."""
    if not len(known):
        return np.full(len(steps), np.nan)
    places = np.minimum(np.searchsorted(known, steps), len(known) - 1)
    found: NDArray[np.float64] = np.where(known[places] == steps, values[places], np.nan)
    return found
