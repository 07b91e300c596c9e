"""The process of a job, and the file contract that its container would offer.

`/opt/ml` is a folder of the job's own, named to the process by TRACKSIDE_ML_ROOT. The command is the request's
ContainerEntrypoint and ContainerArguments, or what was registered for the image. As a container's, the process's
environment is its own: nothing of this process's environment reaches it but what any program needs to start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trackside.environment import inherited
from trackside_localaccount.job_record import MOST_FAILURE_REASON, TRAINING, Job

MOST_EXIT_MESSAGE_BYTES = 1024
_NEEDED_TO_START = ("HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")

# What SageMaker Debugger's hook reads, where the request asks for it; each file holds that part of the request.
_DEBUGGER_FILES = {
    "debughookconfig.json": "DebugHookConfig",
    "profilerconfig.json": "ProfilerConfig",
    "tensorboardoutputconfig.json": "TensorBoardOutputConfig",
    "checkpointconfig.json": "CheckpointConfig",
}


@dataclass(frozen=True)
class Image:
    """The stand-in of a container image: its command, its working folder, its environment."""

    command: tuple[str, ...] = ()
    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


class CannotStartError(Exception):
    """The job has no process; the message becomes its failure reason."""


@dataclass(frozen=True)
class Ending:
    """How a job's process ended: its exit code (negative: the signal), and its last message."""

    exit_code: int
    message: str = ""
    problem: str = ""

    @property
    def succeeded(self) -> bool:
        """Exit code 0, and nothing wrong with the message."""
        return self.exit_code == 0 and not self.problem


class JobProcess:
    """A running job: its own process group, stdout and stderr in the job's log file."""

    def __init__(self, job: Job, *, image: Image, account_environment: Mapping[str, str]) -> None:
        """Start it. Errors: `CannotStartError`."""
        self._job = job
        self._stopped_after: threading.Timer | None = None
        command = _command_of(job, image)
        _lay_out(job)
        with job.log_file.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=image.folder,
                    env=_environment_of(job, image, account_environment),
                    start_new_session=True,
                )
            except OSError as error:
                raise CannotStartError(f"CannotStartContainerError: {command[0]}: {error.strerror}.") from error

    @property
    def pid(self) -> int:
        """The process's id, which is also its group's."""
        return self._process.pid

    def stop(self, *, grace_seconds: float) -> None:
        """SIGTERM to the process, as `docker stop`; SIGKILL to its whole group if it still runs after the grace."""
        timer = threading.Timer(grace_seconds, self.kill)
        timer.daemon = True
        timer.start()
        self._stopped_after = timer  # only now: `wait` joins it the moment the process is gone
        self._process.terminate()

    def kill(self) -> None:
        """SIGKILL to the whole group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self) -> Ending:
        """Wait for the end. Children that the process left behind end with it, as in a container."""
        exit_code = self._process.wait()
        if self._stopped_after:
            self._stopped_after.cancel()
            self._stopped_after.join()
        self.kill()
        return _read_ending(self._job, exit_code)


def ml_root(job: Job) -> Path:
    """The folder that the container would see as /opt/ml."""
    return job.folder / "ml"


def _command_of(job: Job, image: Image) -> list[str]:
    specification: Mapping[str, Any] = job.request.get(_specification(job), {})
    entrypoint: Sequence[str] = specification.get("ContainerEntrypoint") or image.command
    if not entrypoint:
        name = specification.get("TrainingImage") or specification.get("ImageUri")
        raise CannotStartError(
            f"CannotStartContainerError: the image {name!r} has no command here. "
            "Give the job a ContainerEntrypoint, or call account.register_image(image, command)."
        )
    return [*entrypoint, *specification.get("ContainerArguments", ())]


def _specification(job: Job) -> str:
    return "AlgorithmSpecification" if job.kind is TRAINING else "AppSpecification"


def _environment_of(job: Job, image: Image, account_environment: Mapping[str, str]) -> dict[str, str]:
    ours = inherited()
    search_path = os.pathsep.join((str(Path(sys.executable).parent), ours.get("PATH", os.defpath)))
    own = {"TRACKSIDE_ML_ROOT": str(ml_root(job))}
    if job.kind is TRAINING:
        own |= {"TRAINING_JOB_NAME": job.name, "TRAINING_JOB_ARN": job.arn}
    return {
        "PATH": search_path,
        **{name: ours[name] for name in _NEEDED_TO_START if name in ours},
        **image.environment,
        **account_environment,
        **own,
        **job.request.get("Environment", {}),
    }


def _lay_out(job: Job) -> None:
    """The folders and configuration files of https://docs.aws.amazon.com/sagemaker/latest/dg/ (training: input/config;
    processing: config)."""
    root = ml_root(job)
    hosts = {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "lo"}
    if job.kind is TRAINING:
        folder = root / "input" / "config"
        files: dict[str, Any] = {
            "hyperparameters.json": job.request.get("HyperParameters", {}),
            "inputdataconfig.json": {each["ChannelName"]: each for each in job.request.get("InputDataConfig", ())},
            **{name: job.request[key] for name, key in _DEBUGGER_FILES.items() if key in job.request},
        }
        others = (root / "output", root / "model")
    else:
        folder = root / "config"
        files = {"processingjobconfig.json": {"ProcessingJobArn": job.arn, **job.request}}
        others = (root / "output", root / "processing")
    for each in (folder, *others):
        each.mkdir(parents=True, exist_ok=True)
    for name, content in {**files, "resourceconfig.json": hosts}.items():
        (folder / name).write_text(json.dumps(content, default=str), encoding="utf-8")


def _read_ending(job: Job, exit_code: int) -> Ending:
    output = ml_root(job) / "output"
    try:
        message = _read_start(output / "message").decode()
    except UnicodeDecodeError:
        return Ending(exit_code, problem="ClientError: /opt/ml/output/message is not UTF-8.")
    if exit_code == 0:
        return Ending(exit_code, message)
    failure = _read_start(output / "failure").decode(errors="replace")
    return Ending(exit_code, message, f"AlgorithmError: {failure}, exit code: {exit_code}"[:MOST_FAILURE_REASON])


def _read_start(file: Path) -> bytes:
    """The first 1 KB, cut at a whole character."""
    if not file.is_file():
        return b""
    with file.open("rb") as opened:
        start = opened.read(MOST_EXIT_MESSAGE_BYTES + 1)
    if len(start) <= MOST_EXIT_MESSAGE_BYTES:
        return start
    end = MOST_EXIT_MESSAGE_BYTES
    while end and (start[end] & 0xC0) == 0x80:  # a continuation byte: the character began earlier
        end -= 1
    return start[:end]
