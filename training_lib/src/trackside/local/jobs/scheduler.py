"""The schedulers of jobs that a run may be part of: Slurm, Kubernetes and AWS Batch, one file each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Protocol

from trackside.contracts.run.cluster_job import ClusterJob
from trackside.contracts.verdict import Verdict

MOST_TEXT = 1000  # characters of a comment, a message of an event, or a reason


class JobLeave(str, Enum):
    """The permitted effects on the job that a run is part of. Without leave the job is only recorded."""

    NONE = "none"
    REPORT = "report"  # write verdicts where people look at the job
    STOP = "stop"  # also end the job where `--on-issue stop` stops the training

    @property
    def reports(self) -> bool:
        """True if verdicts may be written into the job."""
        return self is not JobLeave.NONE


class JobError(Exception):
    """A scheduler did not do what it was asked for. The text is a sentence for the user.

    is_forbidden  True if the process lacks the right
    """

    def __init__(self, text: str, *, is_forbidden: bool = False) -> None:
        super().__init__(text)
        self.is_forbidden = is_forbidden


class JobDefaults(Protocol):
    """A job that gives no settings, has no place for a verdict, and has its processes below this one."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings of `trackside run` that the job gives, by their keys in a settings file."""
        return {}

    @property
    def problem(self) -> str:
        """A sentence about what could not be read of the job, though it should have been; "" for nothing."""
        return ""

    @property
    def signals_every_process(self) -> bool:
        """True if the scheduler sends its signals to each process of a job, not to the first alone."""
        return False

    def report(self, verdict: Verdict, run: Path) -> None:
        """Write a verdict where people look at the job. Errors: `JobError`."""

    def withhold(self, reason: str) -> None:
        """Have the scheduler start the job no more, once a stop is decided. Errors: `JobError`."""

    def end(self, reason: str) -> None:
        """End the job, once the training has ended and its run is judged. Errors: `JobError`."""

    def signal_tasks(self, name: str, tasks: Sequence[int]) -> bool:
        """Send a signal to the parts of the training that the scheduler started, on all machines.

        Args:
            name: `TERM` or `KILL`.
            tasks: Processes of the training on this machine.

        Returns:
            False if the scheduler started none of them. Errors: `JobError`.
        """
        return False


class Scheduler(JobDefaults, Protocol):
    """A job of one scheduler, seen from within. Each method may take seconds, and runs in a thread of its own."""

    @property
    def job(self) -> ClusterJob:
        """The job."""


def sentence_of(verdict: Verdict) -> str:
    """Return one line about a verdict, for a place that shows no more."""
    text = f"{verdict.severity.value} {verdict.configuration_name} since step {verdict.since_step}: {verdict.message}"
    return " ".join(text.split())[:MOST_TEXT]
