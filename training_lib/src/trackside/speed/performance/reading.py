"""Read the measurements of a run's speed from its stores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import RecordError
from trackside.contracts.run.recorded_names import (
    BACKWARD_SECONDS,
    BATCHES_READY,
    CAPTURE_SECONDS,
    DATA_PROCESSOR_WAIT_SECONDS,
    DATA_SECONDS,
    EVALUATION_SECONDS,
    OPTIMIZER_SECONDS,
    OVERHEAD,
    PROCESSOR_WAIT_SECONDS,
    STEP_SECONDS,
)
from trackside.contracts.run_layout import RunLocation
from trackside.records.machine.performance_facts import PerformanceFacts, performance_workers, read_performance
from trackside.speed.performance.measured import (
    CAPTURE,
    EVALUATION,
    Machine,
    Measured,
    PhaseSeconds,
    with_gradient_waits,
    with_own_seconds,
    with_sampled_phases,
)
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.facts.run_profile import RunProfile
from trackside.trial.trial import Trial, open_trial

FIRST_STEPS = 3  # left out: memory is allocated, kernels are chosen
PHASES = {
    "data": DATA_SECONDS,
    "backward": BACKWARD_SECONDS,
    "optimizer": OPTIMIZER_SECONDS,
    CAPTURE: CAPTURE_SECONDS,
    EVALUATION: EVALUATION_SECONDS,
}
_OTHERS = (OVERHEAD, PROCESSOR_WAIT_SECONDS, DATA_PROCESSOR_WAIT_SECONDS, BATCHES_READY)
_NONE = np.empty(0, np.int64)
Columns = tuple[NDArray[np.int64], NDArray[np.float64]]


def measured_workers(uri: str, trial: Trial | None = None) -> Mapping[str, Measured]:
    """Return the measurements of each worker of a run, by its name; one without numbers if nothing was measured.

    Args:
        uri: The location of the run.
        trial: The run, if it was opened before.

    Raises:
        RunNotFoundError: No run is at the location.
        StorageError: A store failed.
    """
    trial = trial or open_trial(uri)
    profiles = open_store(RunLocation(uri).profiles)
    sums: dict[str, _Sums] = {}
    for worker, numbers in step_pieces(trial):
        sums.setdefault(worker, _Sums()).add(numbers)
    workers = sorted({*sums, *performance_workers(profiles)}) or ["worker_0"]
    machine = _machine(trial.profile)
    found = {
        worker: _measured(
            sums.get(worker), facts=_facts(profiles, worker), machine=machine, captured_steps=trial.recorded_through + 1
        )
        for worker in workers
    }
    return with_gradient_waits(found)


def step_pieces(trial: Trial) -> Iterator[tuple[str, Mapping[str, Columns]]]:
    """Yield worker, and steps and numbers by name, of all that is measured of a step; a piece of the run at a time.

    The pieces of a worker follow one another.

    Args:
        trial: The run, refreshed.

    Raises:
        StorageError: A store failed.
    """
    known = trial.parts.columns.recorded_statistics()
    names = [name for name in (STEP_SECONDS, *PHASES.values(), *_OTHERS) if "mean" in known.get(name, ())]
    return trial.parts.columns.pieces(names, "mean", first=0, last=trial.recorded_through, mode=None)


class _Sums:
    """Sums over the steps from the first one that counts."""

    def __init__(self) -> None:
        self._waiting: list[Mapping[str, Columns]] = []  # while the first steps are not over
        self._first: int | None = None
        self.numbers: dict[str, tuple[float, int]] = {}  # sum and count by name

    def add(self, numbers: Mapping[str, Columns]) -> None:
        """Add a piece."""
        self._waiting.append(numbers)
        timed = np.concatenate([some[STEP_SECONDS][0] for some in self._waiting if STEP_SECONDS in some] or [_NONE])
        if self._first is None and len(timed) > FIRST_STEPS:
            self._first = int(timed[FIRST_STEPS])
        if self._first is not None:
            self._take(self._first)

    def finish(self) -> dict[str, tuple[float, int]]:
        """Return sum and count of each number."""
        timed = np.concatenate([some[STEP_SECONDS][0] for some in self._waiting if STEP_SECONDS in some] or [_NONE])
        if self._first is None and len(timed):
            self._take(int(timed[-1]))
        return self.numbers

    def _take(self, first: int) -> None:
        for some in self._waiting:
            for name, (steps, values) in some.items():
                kept = values[np.searchsorted(steps, first) :]
                total, count = self.numbers.get(name, (0.0, 0))
                self.numbers[name] = total + float(kept.sum()), count + len(kept)
        self._waiting.clear()


def _measured(sums: _Sums | None, *, facts: PerformanceFacts | None, machine: Machine, captured_steps: int) -> Measured:
    numbers = sums.finish() if sums is not None else {}
    if not numbers.get(STEP_SECONDS, (0.0, 0))[1]:
        return Measured(facts=facts, machine=machine, captured_steps=captured_steps)
    seconds, steps = numbers[STEP_SECONDS]

    def mean(name: str) -> float | None:
        total, count = numbers.get(name, (0.0, 0))
        return total / count if count else None

    phases = {phase: numbers[name] for phase, name in PHASES.items() if numbers.get(name, (0.0, 0))[1]}
    waited, in_fetches = numbers.get(PROCESSOR_WAIT_SECONDS), numbers.get(DATA_PROCESSOR_WAIT_SECONDS, (0.0, 0))
    measured = Measured(
        steps=steps,
        seconds=seconds,
        phases={phase: PhaseSeconds(*of_phase) for phase, of_phase in phases.items()},
        facts=facts,
        machine=machine,
        captured_steps=captured_steps,
        overhead=mean(OVERHEAD),
        processor_wait=waited[0] / seconds if waited is not None else None,
        batches_ready=mean(BATCHES_READY),
    )
    of_fetches = in_fetches[0] if in_fetches[1] else None
    return with_sampled_phases(with_own_seconds(measured, waited=waited[0] if waited else 0.0, in_fetches=of_fetches))


def machines_of(profiles: Store) -> dict[str, str]:
    """Return the machine of each worker that noted one.

    Args:
        profiles: The store of a run's profiles.

    Raises:
        StorageError: The store failed.
    """
    facts = {worker: _facts(profiles, worker) for worker in performance_workers(profiles)}
    return {worker: one.machine for worker, one in facts.items() if one is not None and one.machine}


def _facts(profiles: Store, worker: str) -> PerformanceFacts | None:
    try:
        return read_performance(profiles, worker)
    except RecordError:  # damaged: as if there were none
        return None


def _machine(profile: RunProfile) -> Machine:
    def values(dimension: str, name: str = "") -> NDArray[np.float64]:
        series = profile.machine(dimension, name=name, until=math.inf)
        return np.concatenate([one.values for one in series]) if series else np.empty(0)

    def of_processors(dimension: str) -> NDArray[np.float64]:
        total = values(f"{dimension}Total")
        return total if len(total) else values(dimension)

    cpus, memory = of_processors("CPUUtilization"), values("Platform", "MemoryUsedPercent")
    return Machine(
        cpu_percent=_mean(cpus),
        io_wait_percent=_mean(of_processors("I/OWaitPercentage")),
        training_cpu_percent=_mean(values("ProcessCPUUtilization")),
        memory_percent=float(memory.max()) if len(memory) else None,
        gpu_percent=_mean(values("GPUUtilization")),
        disk_wait_percent=_mean(np.where(values("ProcessesInDiskWait") > 0, 100.0, 0.0)),
        memory_series=tuple(_series(profile, "ProcessMemoryBytes")),
        samples=len(memory) or len(cpus),
    )


def _series(profile: RunProfile, dimension: str) -> list[tuple[float, float]]:
    """Return the times and values of all machines, by time."""
    found = profile.machine(dimension, name="", until=math.inf)
    return sorted((float(t), float(v)) for one in found for t, v in zip(one.times, one.values, strict=True))


def _mean(values: NDArray[np.float64]) -> float | None:
    return float(np.mean(values)) if len(values) else None
