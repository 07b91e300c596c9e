"""Read the measurements of a run's speed from its stores."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError, RecordError, TensorNotSavedError
from trackside.contracts.recorded_names import (
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
from trackside.performance.measured import (
    CAPTURE,
    EVALUATION,
    Machine,
    Measured,
    PhaseSeconds,
    with_forward,
    with_gradient_waits,
    with_own_seconds,
)
from trackside.records.performance_facts import PerformanceFacts, performance_workers, read_performance
from trackside.storage.open_store import open_store
from trackside.storage.store import Store
from trackside.trial.run_profile import RunProfile
from trackside.trial.trial import Trial, open_trial

FIRST_STEPS = 3  # left out: memory is allocated, kernels are chosen
_NUMBERS = {
    "data": DATA_SECONDS,
    "backward": BACKWARD_SECONDS,
    "optimizer": OPTIMIZER_SECONDS,
    CAPTURE: CAPTURE_SECONDS,
    EVALUATION: EVALUATION_SECONDS,
}
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
    steps, of_phases = phase_columns(trial)
    workers = sorted({*steps, *performance_workers(profiles)}) or ["worker_0"]
    overhead, waits = number_columns(trial, OVERHEAD), number_columns(trial, PROCESSOR_WAIT_SECONDS)
    in_fetches = number_columns(trial, DATA_PROCESSOR_WAIT_SECONDS)
    ready = number_columns(trial, BATCHES_READY)
    captured = trial.recorded_through + 1
    machine = _machine(trial.profile)
    found = {
        worker: _measured(
            steps.get(worker),
            {phase: columns[worker] for phase, columns in of_phases.items() if worker in columns},
            facts=_facts(profiles, worker),
            machine=machine,
            captured_steps=captured,
            overhead=overhead.get(worker),
            waits=waits.get(worker),
            in_fetches=in_fetches.get(worker),
            ready=ready.get(worker),
        )
        for worker in workers
    }
    return with_gradient_waits(found)


def phase_columns(trial: Trial) -> tuple[dict[str, Columns], dict[str, dict[str, Columns]]]:
    """Return steps and their seconds by worker; and those of each phase, by phase and worker.

    Args:
        trial: The run, refreshed.

    Raises:
        StorageError: A store failed.
    """
    return number_columns(trial, STEP_SECONDS), {phase: number_columns(trial, name) for phase, name in _NUMBERS.items()}


def _measured(
    step_seconds: Columns | None,
    phases: Mapping[str, Columns],
    *,
    facts: PerformanceFacts | None,
    machine: Machine,
    captured_steps: int,
    overhead: Columns | None,
    waits: Columns | None,
    in_fetches: Columns | None,
    ready: Columns | None,
) -> Measured:
    if step_seconds is None:
        return Measured(facts=facts, machine=machine, captured_steps=captured_steps)
    steps = step_seconds[0]
    first = steps[min(FIRST_STEPS, len(steps) - 1)]

    def sum_of(columns: Columns | None) -> float | None:
        """Return the seconds from the first measured step on; None without such a step."""
        values = np.empty(0) if columns is None else columns[1][columns[0] >= first]
        return float(values.sum()) if len(values) else None

    found = {
        phase: PhaseSeconds(total, int((columns[0] >= first).sum()))
        for phase, columns in phases.items()
        if (total := sum_of(columns)) is not None
    }
    waited, total = sum_of(waits), sum_of(step_seconds) or 0.0
    measured = Measured(
        steps=int((steps >= first).sum()),
        seconds=total,
        phases=found,
        facts=facts,
        machine=machine,
        captured_steps=captured_steps,
        overhead=None if overhead is None else _mean(overhead[1][overhead[0] >= first].tolist()),
        processor_wait=None if waited is None else waited / total,
        batches_ready=None if ready is None else _mean(ready[1][ready[0] >= first]),
    )
    return with_forward(with_own_seconds(measured, waited=waited or 0.0, in_fetches=sum_of(in_fetches)))


def number_columns(trial: Trial, name: str) -> dict[str, Columns]:
    """Return steps and values of a recorded number by worker; none if no step has it.

    Args:
        trial: The run, refreshed.
        name: Name of the number.

    Raises:
        StorageError: A store failed.
    """
    try:
        columns = trial.tensor(name).columns("mean")
    except (TensorNotSavedError, ConfigurationError):  # no step had that number
        return {}
    return {column.worker: (column.steps, column.values) for column in columns}


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
