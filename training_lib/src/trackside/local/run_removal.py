"""The removal of runs on this machine. A run that is still being written is never removed."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trackside.capture.writing.worker_lock import WorkerLock
from trackside.contracts.errors import ConfigurationError, Problem, StorageError
from trackside.contracts.run_layout import (
    CAPTURE_REQUEST_KEY,
    CHECK,
    RULE_OUTPUT,
    RULE_REQUEST_KEY,
    STATE_PREFIX,
    STATISTICS,
    TENSORS,
    WATERMARKS,
)
from trackside.runs.run_folder import (
    EVALUATOR_LOG,
    LOCK_FILE,
    RECORD_FILE,
    RunState,
    find_run,
    is_run_folder,
    local_runs,
    read_record,
    run_state,
)
from trackside.storage.local import LocalStore

# All that Trackside writes into a run's folder. A folder with anything else in it is more than a run.
PARTS = frozenset(
    {
        TENSORS, STATISTICS, WATERMARKS, RULE_OUTPUT, CHECK, RULE_REQUEST_KEY, CAPTURE_REQUEST_KEY, RECORD_FILE,
        LOCK_FILE, EVALUATOR_LOG,
    }
)  # fmt: skip


@dataclass(frozen=True)
class RunToRemove:
    """One run: its folder, its size on disk, and its age since its start."""

    folder: Path
    size_bytes: int
    state: RunState
    age_seconds: float


def find_removable(names: Sequence[str], *, now: float) -> tuple[RunToRemove, ...]:
    """Return the named runs, each once.

    Args:
        names: Names, folders, or `latest`.
        now: Seconds since the epoch.

    Raises:
        ConfigurationError: A name is of S3, or of a run that is being written. Lists every problem at once.
        RunNotFoundError: A name is of no run.
    """
    problems, found = [], {}
    for name in names:
        if "://" in name:
            fix = f"aws s3 rm --recursive {name}"
            problems.append(Problem(name, "is not on this machine.", fix))
            continue
        folder = Path(find_run(name)).resolve()
        if is_being_written(folder):
            problems.append(Problem(name, "is still being written.", "Stop its training first, or wait for its end."))
        if others := other_files(folder):
            what = f"holds files that are no part of a run: {', '.join(others[:3])}."
            problems.append(Problem(name, what, "Remove its debug-output and rule-output by hand."))
        found[folder] = described(folder, now=now)
    if problems:
        raise ConfigurationError(problems, subject="The choice of runs")
    return tuple(found.values())


def runs_to_prune(
    runs: Path, *, now: float, older_than_seconds: float | None, keep: int | None, only_failed: bool
) -> tuple[RunToRemove, ...]:
    """Return the runs that all the given conditions name, oldest first, without ones that are being written.

    Args:
        runs: Folder of the runs.
        now: Seconds since the epoch.
        older_than_seconds: Least age; None for any.
        keep: Number of newest runs to keep; None for none.
        only_failed: True: only runs that failed, were lost or never captured a step.
    """
    found = sorted((described(folder, now=now) for folder in local_runs(runs)), key=lambda run: -run.age_seconds)
    if keep is not None:
        found = found[: max(0, len(found) - keep)]
    return tuple(
        run
        for run in found
        if not is_being_written(run.folder)
        and not other_files(run.folder)
        and (older_than_seconds is None or run.age_seconds >= older_than_seconds)
        and (not only_failed or run.state in {RunState.FAILED, RunState.LOST})
    )


def is_being_written(folder: Path) -> bool:
    """Return True if `trackside run` or a training process writes into the run now."""
    if run_state(folder) is RunState.RUNNING:
        return True
    tensors = folder / TENSORS
    workers = [lock.stem for lock in (tensors / STATE_PREFIX).glob("*.lock")]
    return any(WorkerLock(LocalStore(tensors), worker).is_held() is True for worker in workers)


def other_files(folder: Path) -> list[str]:
    """Return the names in the folder that are no part of a run."""
    return sorted({path.name for path in folder.iterdir()} - PARTS)


def described(folder: Path, *, now: float) -> RunToRemove:
    """Return the run in a folder with its size."""
    record = read_record(folder)
    started = record.started_at if record else folder.stat().st_mtime
    return RunToRemove(folder, size_of(folder), run_state(folder), now - started)


def size_of(folder: Path) -> int:
    """Return the bytes on disk below the folder. Links are not followed."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:  # it has gone
                continue
    return total


def remove(run: RunToRemove) -> None:
    """Remove a run with all its files. Its folder is renamed first, so that no half of a run is left under its name.

    Raises:
        ConfigurationError: It is being written by now, or is no run any more.
        StorageError: A file cannot be removed.
    """
    if not is_run_folder(run.folder) or is_being_written(run.folder):
        problem = Problem(str(run.folder), "is being written by now, or has gone.", "Look again: trackside runs")
        raise ConfigurationError([problem], subject="The run")
    doomed = run.folder.with_name(f".{run.folder.name}.{secrets.token_hex(2)}.removed")
    try:
        run.folder.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"Cannot remove {run.folder}. {reason}.", advice=f"ls -ld {run.folder.parent}") from error
