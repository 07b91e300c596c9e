"""Read the measurements of a run's speed from its stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, RecordError, TensorNotSavedError
from trackside.contracts.recorded_names import (
    BACKWARD_SECONDS,
    CAPTURE_SECONDS,
    DATA_SECONDS,
    EVALUATION_SECONDS,
    OPTIMIZER_SECONDS,
    OVERHEAD,
    STEP_SECONDS,
)
from trackside.contracts.run_layout import RunLocation
from trackside.performance.measured import CAPTURE, EVALUATION, Machine, Measured, PhaseSeconds, with_forward
from trackside.records.performance_facts import PerformanceFacts, performance_workers, read_performance
from trackside.records.system_metrics_file import SystemSample, read_system_metrics
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.trial import Trial, open_trial

FIRST_STEPS = 3  # left out: memory is allocated, kernels are chosen
_NUMBERS = {
    "data": DATA_SECONDS,
    "backward": BACKWARD_SECONDS,
    "optimizer": OPTIMIZER_SECONDS,
    CAPTURE: CAPTURE_SECONDS,
    EVALUATION: EVALUATION_SECONDS,
}
_Column = tuple[NDArray[np.int64], NDArray[np.float64]]


def measured_workers(uri: str) -> Mapping[str, Measured]:
    """Return the measurements of each worker of a run, by its name; one without numbers if nothing was measured.

    Raises:
        RunNotFoundError: No run is at the location.
        StorageError: A store failed.
    """
    trial = open_trial(uri)
    profiles = open_store(RunLocation(uri).profiles)
    steps = _columns(trial, STEP_SECONDS)
    workers = sorted({*steps, *performance_workers(profiles)}) or ["worker_0"]
    of_phases = {phase: _columns(trial, name) for phase, name in _NUMBERS.items()}
    overhead = _columns(trial, OVERHEAD)
    captured = trial.recorded_through + 1
    machine = _machine(read_system_metrics(profiles))
    return {
        worker: _measured(
            steps.get(worker),
            {phase: columns[worker] for phase, columns in of_phases.items() if worker in columns},
            facts=_facts(profiles, worker),
            machine=machine,
            captured_steps=captured,
            overhead=overhead.get(worker),
        )
        for worker in workers
    }


def _measured(
    step_seconds: _Column | None,
    phases: Mapping[str, _Column],
    *,
    facts: PerformanceFacts | None,
    machine: Machine,
    captured_steps: int,
    overhead: _Column | None,
) -> Measured:
    if step_seconds is None:
        return Measured(facts=facts, machine=machine, captured_steps=captured_steps)
    steps, seconds = step_seconds
    first = steps[min(FIRST_STEPS, len(steps) - 1)]
    kept = steps >= first
    found = {}
    for phase, (at, values) in phases.items():
        is_kept = at >= first
        if is_kept.any():
            found[phase] = PhaseSeconds(float(values[is_kept].sum()), int(is_kept.sum()))
    return with_forward(
        Measured(
            steps=int(kept.sum()),
            seconds=float(seconds[kept].sum()),
            phases=found,
            facts=facts,
            machine=machine,
            captured_steps=captured_steps,
            overhead=None if overhead is None else _mean(overhead[1][overhead[0] >= first].tolist()),
        )
    )


def _columns(trial: Trial, name: str) -> dict[str, _Column]:
    try:
        columns = trial.tensor(name).columns("mean")
    except (TensorNotSavedError, ConfigurationError):  # no step had that number
        return {}
    return {column.worker: (column.steps, column.values) for column in columns}


def _facts(profiles: Store, worker: str) -> PerformanceFacts | None:
    try:
        return read_performance(profiles, worker)
    except RecordError:  # damaged: as if there were none
        return None


def _machine(samples: Sequence[SystemSample]) -> Machine:
    def values(dimension: str, name: str | None = None) -> list[float]:
        return [s.value for s in samples if s.dimension == dimension and name in (None, s.name)]

    cpus, memory = values("CPUUtilizationTotal") or values("CPUUtilization"), values("Platform", "MemoryUsedPercent")
    return Machine(
        cpu_percent=_mean(cpus),
        io_wait_percent=_mean(values("I/OWaitPercentageTotal") or values("I/OWaitPercentage")),
        training_cpu_percent=_mean(values("ProcessCPUUtilization")),
        memory_percent=max(memory, default=None),
        gpu_percent=_mean(values("GPUUtilization")),
        memory_series=tuple(_series(samples, "ProcessMemoryBytes")),
        samples=len(memory) or len(cpus),
    )


def _series(samples: Sequence[SystemSample], dimension: str) -> Iterator[tuple[float, float]]:
    for sample in samples:
        if sample.dimension == dimension:
            yield sample.timestamp, sample.value


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
