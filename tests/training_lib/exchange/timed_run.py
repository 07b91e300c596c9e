"""A run with timed steps, samples of the machine, and one finding."""

from __future__ import annotations

from pathlib import Path

from trackside.contracts.run.recorded_names import (
    BACKWARD_SECONDS,
    DATA_SECONDS,
    EVALUATION_SECONDS,
    OPTIMIZER_SECONDS,
    STEP_SECONDS,
)
from trackside.contracts.run_layout import RunLocation
from trackside.speed.machine.system_files import SystemFiles
from trackside.speed.machine.system_metrics import Metric
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import WALL_TIME, end_run, write_collections, write_statistics

SECONDS = 0.5  # of a step; one ends every second
FIRST_END = WALL_TIME + 1
DATA, BACKWARD, OPTIMIZER = 0.1, 0.15, 0.05


def write_timed_run(folder: Path, *, steps: int, workers: int = 1, evaluated: int | None = None) -> str:
    """Write the run, and return its location.

    Args:
        folder: Its folder.
        steps: Its number of steps; those from 1 on are timed.
        workers: Its number of workers.
        evaluated: A step with an evaluation of 0.1 s.
    """
    run = RunLocation(str(folder))
    write_collections(LocalStore(run.tensors))
    timed = {
        STEP_SECONDS: SECONDS,
        DATA_SECONDS: DATA,
        BACKWARD_SECONDS: BACKWARD,
        OPTIMIZER_SECONDS: OPTIMIZER,
    }
    each = [f"worker_{rank}" for rank in range(workers)]
    recorded = {
        name: {"mean": {step: dict.fromkeys(each, seconds) for step in range(1, steps)}}
        for name, seconds in timed.items()
    }
    if evaluated is not None:
        recorded[EVALUATION_SECONDS] = {"mean": {evaluated: dict.fromkeys(each, 0.1)}}
    write_statistics(LocalStore(run.statistics), recorded)
    files = SystemFiles(run.profiles, node="algo-1")
    for second in range(steps):
        files.add([Metric("cpu", "cpu0", "CPUUtilization", 10.0 + second)], wall_time=WALL_TIME + second)
    files.close()
    end_run(LocalStore(run.tensors))
    return run.uri
