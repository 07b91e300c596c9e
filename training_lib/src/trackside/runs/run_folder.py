"""Run folders on this machine: their names, the record that `trackside run` writes, and the search by name."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, Problem, RunNotFoundError, did_you_mean
from trackside.contracts.fields import Fields, parse_json, to_json
from trackside.contracts.run.cluster_job import NO_JOB, ClusterJob
from trackside.contracts.run_layout import (
    CHECK,
    COLLECTIONS_PREFIX,
    END_MARKER_KEY,
    INDEX_PREFIX,
    RULE_OUTPUT,
    RULE_REQUEST_KEY,
    TENSORS,
    WATERMARKS,
)
from trackside.contracts.stored_fields import (
    BOOLEAN,
    FINITE,
    INTEGER,
    TEXT,
    TEXTS,
    document_of,
    nullable,
    record,
    record_of,
    stored,
)

RUNS = Path(".trackside") / "runs"  # below the folder in which the user works
LATEST = "latest"
START_ONE = "trackside run -- python train.py   (starts one)"
RECORD_FILE = "local-run.json"
LOCK_FILE = "local-run.lock"
EVALUATOR_LOG = "evaluator.log"

PROBE_BYTES = 1 << 16  # more than verdicts and progress take

_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)  # the latter from a shell, or a launcher
_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_LONGEST_SCRIPT_NAME = 40


class RunState(str, Enum):
    """The state of a run on this machine."""

    RUNNING = "running"
    FINISHED = "finished"  # the command ended with code 0
    FAILED = "failed"  # the command ended with another code, or by a signal
    INTERRUPTED = "interrupted"  # by Ctrl-C
    STOPPED = "stopped"  # Trackside stopped it
    LOST = "lost"  # `trackside run` itself was killed: the end is unknown
    ENDED = "ended"  # elsewhere: with an end marker, but without the command's status
    OPEN = "open"  # elsewhere, without an end marker: it is running, or was cut off


@dataclass(frozen=True)
class RunRecord:
    """The record that `trackside run` writes of a run.

    started_at, ended_at  seconds since the epoch
    status                exit code, or -n for signal n
    stopped_by_trackside  True from the moment of the stop on: who starts the command again must not train on
    judging_problem       clause about why rules did not judge it to its end; "" if they did
    job                   the job of a scheduler that it is part of; `NO_JOB` for none
    """

    command: tuple[str, ...] = field(metadata=stored(TEXTS))
    started_at: float = field(metadata=stored(FINITE))
    ended_at: float | None = field(default=None, metadata=stored(nullable(FINITE)))
    status: int | None = field(default=None, metadata=stored(nullable(INTEGER)))
    stopped_by_trackside: bool = field(default=False, metadata=stored(BOOLEAN))
    judging_problem: str = field(default="", metadata=stored(TEXT))
    job: ClusterJob = field(default=NO_JOB, metadata=stored(record(ClusterJob), optional=True))

    def to_json(self) -> str:
        """Return the record as one line of JSON."""
        return to_json({"version": 1, **document_of(self)})

    @classmethod
    def from_json(cls, text: str | bytes) -> RunRecord:
        """Return the record in a text of `to_json`. Errors: `ConfigurationError`."""
        subject = f"The record {RECORD_FILE}"
        fields = Fields(parse_json(text, subject=subject), where="")
        found = record_of(cls, fields)
        if found.ended_at is not None and found.status is None:
            fields.problem("status", "is missing; it must be a whole number.")
        fields.finish(subject=subject)
        return found


def run_name(command: Sequence[str], *, now: float, token: str) -> str:
    """Return a unique name with time and script, `20261120-141503-train-3f9a`. It sorts by `now`, in local time."""
    script = re.sub(r"[^A-Za-z0-9.]+", "-", _script_name(command)).strip("-.")[:_LONGEST_SCRIPT_NAME] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(now))}-{script}-{token}"


def create_run_folder(folder: Path) -> Path:
    """Create the folder and return its absolute path. Errors: `ConfigurationError` if it cannot be a new run's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            fix = "Name a new folder, or remove this one first."
            raise ConfigurationError([Problem(str(folder), "is not empty.", fix)], subject="The run folder")
        keep_out_of_git(folder)
    except OSError as error:
        problem = Problem(str(folder), f"cannot be made: {error.strerror}.", "Name another place with --out.")
        raise ConfigurationError([problem], subject="The run folder") from error
    return folder.resolve()


def keep_out_of_git(folder: Path) -> None:
    """Write a `.gitignore` at the top of `.trackside` if the folder lies in it: runs stay out of commits."""
    top = RUNS.parent
    if top in folder.parents or top.absolute() in folder.parents:
        top.mkdir(exist_ok=True)
        if not (top / ".gitignore").exists():
            (top / ".gitignore").write_text("*\n", encoding="utf-8")


def discard_run_folder(folder: Path) -> None:
    """Remove the files that `trackside run` wrote before a command that could not be started; no others."""
    for name in (RULE_REQUEST_KEY, RECORD_FILE, LOCK_FILE):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def find_run(name: str, *, runs: Path = RUNS) -> str:
    """Return the location of a run, by its path, `s3://` URI, name below `runs`, or `latest`.

    That is the newest run that captured something or is running, and no rehearsal; if there is none, the newest.

    Errors: `RunNotFoundError` with the names of existing runs.
    """
    if "://" in name:
        return name
    if name == LATEST:
        newest = max(local_runs(runs), key=lambda run: (is_worth_a_look(run), started_at(run)), default=None)
        if newest is None:
            raise RunNotFoundError(f"There is no run yet in {runs}. {START_ONE}", advice=START_ONE)
        return str(newest)
    for folder in (Path(name), runs / name):
        if is_run_folder(folder):
            return str(folder)
    if Path(name).is_dir():
        if (Path(name) / COLLECTIONS_PREFIX).is_dir():
            advice = f"trackside import {name} {runs / Path(name).name}   (makes a run of it)"
            raise RunNotFoundError(f"{name!r} holds the tensors of an smdebug run, and no {TENSORS}.", advice=advice)
        raise RunNotFoundError(f"{name!r} is a folder, but no run: it holds neither {TENSORS} nor {RULE_REQUEST_KEY}.")
    known = [folder.name for folder in local_runs(runs)]
    if not known:
        raise RunNotFoundError(f"There is no run {name!r}. {runs} holds none yet. {START_ONE}", advice=START_ONE)
    near = did_you_mean(name, [*known, LATEST, *([name.replace(":/", "://", 1)] if name.startswith("s3:/") else [])])
    advice = near if near.startswith("Did") else "trackside runs   (lists the runs of this folder)"
    why = f"It is neither a folder nor a name in {runs}; the newest run is {known[-1]!r}."
    raise RunNotFoundError(f"There is no run {name!r}. {why} {advice}", advice=advice)


def typed_name(uri: str) -> str:
    """Return the shortest text by which the user finds a run from the working folder.

    Args:
        uri: The location of the run.
    """
    if "://" in uri:
        return uri
    path = Path(uri).absolute()
    if path.parent == RUNS.absolute():
        return path.name
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def local_runs(runs: Path = RUNS) -> list[Path]:
    """Return every run folder below `runs`, oldest first."""
    return sorted(folder for folder in runs.iterdir() if is_run_folder(folder)) if runs.is_dir() else []


def is_run_folder(folder: Path) -> bool:
    """Return True if the folder holds any part of a run."""
    return any(os.path.exists(f"{folder}/{part}") for part in (RULE_REQUEST_KEY, TENSORS, RULE_OUTPUT))


def storage_problem(folder: Path) -> str:
    """Return a clause if nothing can be written to a folder, such as on a full disk; "" if it can."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        try:
            probe.write_bytes(bytes(PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        cure = "free some and run `trackside rules run` on it" if error.errno in _NO_SPACE else "it cannot be written"
        return f"{error.strerror or type(error).__name__} in {folder}; {cure}"
    return ""


def write_record(folder: Path, record: RunRecord) -> None:
    """Replace the record, whole or not at all."""
    partial = folder / f"{RECORD_FILE}.partial"
    partial.write_text(record.to_json(), encoding="utf-8")
    partial.replace(folder / RECORD_FILE)


def read_record(folder: Path) -> RunRecord | None:
    """Return the record; None for a run without a readable one, such as a run that `trackside run` did not make."""
    try:
        return RunRecord.from_json((folder / RECORD_FILE).read_bytes())
    except (OSError, ConfigurationError):
        return None


def run_state(folder: Path) -> RunState:
    """Return the state of the run, from its record, lock and end marker."""
    record = read_record(folder)
    if record is not None and record.ended_at is not None:
        if record.stopped_by_trackside:
            return RunState.STOPPED
        if record.status in _INTERRUPTED:
            return RunState.INTERRUPTED
        return RunState.FAILED if record.status else RunState.FINISHED
    if _is_locked(folder):
        return RunState.RUNNING
    if record is not None and record.stopped_by_trackside:  # and was killed before it could write the end
        return RunState.STOPPED
    has_ended = (folder / TENSORS / END_MARKER_KEY).exists()
    return RunState.FINISHED if has_ended and record is None else RunState.LOST


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Mark the run as running within the block, and at most for the life of this process, however it ends."""
    descriptor = os.open(folder / LOCK_FILE, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_locked(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_worth_a_look(folder: Path) -> bool:
    """Return True for a run that captured something or is running, and is no rehearsal of `trackside check`.

    Args:
        folder: The folder of the run.
    """
    if (folder / CHECK).exists():
        return False
    return any((folder / part).exists() for part in (WATERMARKS, f"{TENSORS}/{INDEX_PREFIX}")) or _is_locked(folder)


def started_at(folder: Path) -> float:
    """Return the start of a run in seconds since the epoch; without a record the newest change of its folder.

    Args:
        folder: The folder of the run.
    """
    record = read_record(folder)
    return record.started_at if record else folder.stat().st_mtime


def _script_name(command: Sequence[str]) -> str:
    for before, word in zip(("", *command), command, strict=False):
        if word.endswith(".py"):
            return Path(word).stem
        if before == "-m":
            return word
    return Path(command[0]).name
