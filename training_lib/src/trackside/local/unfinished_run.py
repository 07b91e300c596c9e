"""An earlier, unfinished run in the folder that a command names: whether it is the command's own, and its reopening.

A requeued job (Slurm, a spot instance of SageMaker, a supervisor) starts the same command line again. The run goes on:
its steps are numbered on, and the verdict covers all parts.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.capture.writing.worker_lock import WorkerLock
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.run.cluster_job import SLURM, ClusterJob
from trackside.contracts.run_layout import END_MARKER_KEY, RULE_OUTPUT, TENSORS, workers_with_a_lock
from trackside.evaluation.results.reopening import reopen_verdicts
from trackside.local.process_table import started_with
from trackside.runs.run_folder import RunRecord, RunState, create_run_folder, local_runs, read_record, run_state
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store

_GOES_ON = frozenset({RunState.LOST, RunState.FAILED, RunState.INTERRUPTED})
MOST_LOOKS, LOOK_SECONDS = 60, 1.0
_NEW_ONE = "Name a new folder."


@dataclass(frozen=True)
class RunPlace:
    """The folder of a run that is about to start.

    folder   absolute
    earlier  the record of the run that goes on there; None for a new run
    """

    folder: Path
    earlier: RunRecord | None = None


def place_for(folder: Path, command: Sequence[str]) -> RunPlace:
    """Return the place of a run of this command: a new folder, or that of its own earlier, unfinished run.

    An earlier run goes on if the same command made it, if neither it nor its training lives any more, and if it has
    neither ended with code 0 nor been stopped by Trackside.

    Errors: `ConfigurationError` for a folder that holds anything else.
    """
    earlier = read_record(folder)
    if earlier is None:
        return RunPlace(create_run_folder(folder))
    if why := _why_it_is_over(folder, earlier, tuple(command)):
        raise ConfigurationError([Problem(str(folder), why, _NEW_ONE)], subject="The run folder")
    return RunPlace(folder.resolve(), earlier)


def place_of_job(
    job: ClusterJob, command: Sequence[str], runs: Path, *, sleep: Callable[[float], object] = time.sleep
) -> RunPlace | None:
    """Return the place of the run that this job began before it was requeued, or None for a new run.

    Only a job that has one run of this command goes on: of several, nobody knows which one its script begins again.
    A part that is still ending, as after a preemption, is awaited for a minute.

    Args:
        job: The job that this process belongs to.
        command: The command line.
        runs: The folder that holds runs.
        sleep: Waits so many seconds.

    Raises:
        ConfigurationError: Trackside stopped that run for an issue, or it still runs.
    """
    if not job.restarts and job.scheduler == SLURM:
        return None
    known = [(folder, read_record(folder)) for folder in local_runs(runs)]
    own = [
        folder for folder, record in known if record and record.command == tuple(command) and job.is_same(record.job)
    ]
    if len(own) != 1 or run_state(own[0]) is RunState.FINISHED:
        return None
    for _ in range(MOST_LOOKS):
        if not _is_alive(own[0]):
            break
        sleep(LOOK_SECONDS)
    return place_for(own[0], command)


def _is_alive(folder: Path) -> bool:
    is_held = run_state(folder) is RunState.RUNNING or _is_written(folder)
    return is_held or bool(started_with("TRACKSIDE_RUN", str(folder.resolve())))


def reopen(folder: Path) -> None:
    """Take back the end of a run: its end marker, and the verdicts that were given at its end. Errors: the stores'."""
    open_store(f"{folder}/{TENSORS}").delete(END_MARKER_KEY)
    reopen_verdicts(open_store(f"{folder}/{RULE_OUTPUT}"))


def _why_it_is_over(folder: Path, earlier: RunRecord, command: tuple[str, ...]) -> str:
    """Return why the run in a folder does not go on with this command, as a clause; "" if it does."""
    state = run_state(folder)
    if earlier.command != command:
        return f"holds a run of another command, `{shlex.join(earlier.command)}`."
    if state is RunState.RUNNING or _is_written(folder):
        return "holds a run of this command that is still running."
    if alive := started_with("TRACKSIDE_RUN", str(folder.resolve())):
        return f"holds a run of this command whose training still runs (process {alive[0]})."
    if state is RunState.STOPPED:
        return "holds a run of this command that Trackside stopped for an issue."
    return "" if state in _GOES_ON else "holds a run of this command that has finished."


def _is_written(folder: Path) -> bool:
    """Return True if a process writes the run, perhaps on another machine that shares the folder."""
    store = LocalStore(str(folder / TENSORS))
    return any(WorkerLock(store, worker).is_held() for worker in workers_with_a_lock(store.list()))
