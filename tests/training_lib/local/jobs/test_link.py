"""The link to a job: what is asked for, in which order, and that no failure of a scheduler reaches the training."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.patience import ends_early, wait_until
from tests.training_lib.local.verdicts import issue
from trackside.contracts.run.cluster_job import ClusterJob
from trackside.contracts.verdict import Verdict
from trackside.local.jobs import link as link_module
from trackside.local.jobs.link import MOST_WAITING, JobLink
from trackside.local.jobs.scheduler import JobError, JobLeave


def nothing() -> None:
    """Succeed."""


@dataclass
class Recorder:
    """A scheduler that writes down what it is asked for, and then does as it is told."""

    act: Callable[[], object] = nothing
    has_tasks: bool = False
    asked: list[str] = field(default_factory=list)
    job: ClusterJob = field(default_factory=lambda: ClusterJob("slurm", "12"))
    settings: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""
    signals_every_process: bool = False

    def report(self, verdict: Verdict, run: Path) -> None:
        self._note(f"report {verdict.rule_id}")

    def withhold(self, reason: str) -> None:
        self._note("withhold")

    def end(self, reason: str) -> None:
        self._note("end")

    def signal_tasks(self, name: str, tasks: Sequence[int]) -> bool:
        self._note(name)
        return self.has_tasks

    def _note(self, what: str) -> None:
        self.asked.append(what)
        self.act()


def stop(link: JobLink) -> None:
    """Do what a run does that finds an issue and stops."""
    link.report(issue("exploding-tensor"))
    link.withhold("it exploded")
    link.end("it exploded")
    link.finish(was_stopped=True)


@pytest.mark.parametrize(
    ("leave", "asked"),
    [
        pytest.param(JobLeave.NONE, [], id="none"),
        pytest.param(JobLeave.REPORT, ["report exploding-tensor"], id="report"),
        pytest.param(JobLeave.STOP, ["report exploding-tensor", "withhold", "end"], id="stop"),
    ],
)
def test_nothing_is_asked_for_without_leave(tmp_path: Path, leave: JobLeave, asked: list[str]) -> None:
    scheduler = Recorder()
    stop(JobLink(scheduler, leave, tmp_path))
    assert scheduler.asked == asked


def test_after_a_stop_its_reason_is_the_last_thing_shown(tmp_path: Path) -> None:
    scheduler = Recorder()
    link = JobLink(scheduler, JobLeave.STOP, tmp_path)
    link.report(issue("exploding-tensor"))
    link.withhold("it exploded")
    link.report(issue("dead-relu"))
    link.finish(was_stopped=True)
    assert scheduler.asked == ["report exploding-tensor", "withhold"]


def test_without_a_job_the_sigterm_is_our_own(tmp_path: Path) -> None:
    link = JobLink(None, JobLeave.STOP, tmp_path)
    link.end_training()
    assert link.is_sigterm_due()
    assert not link.is_sigterm_due()
    link.kill()
    stop(link)
    assert link.news() == []


def raising(error: Exception) -> Callable[[], object]:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("scheduler", "is_due"),
    [
        pytest.param(Recorder(has_tasks=True), False, id="it-signalled-them"),
        pytest.param(Recorder(), True, id="it-started-none"),
        pytest.param(Recorder(raising(JobError("no")), has_tasks=True), True, id="it-refuses"),
        pytest.param(Recorder(raising(KeyError("x")), has_tasks=True), True, id="it-breaks"),
    ],
)
def test_who_sends_the_sigterm(tmp_path: Path, scheduler: Recorder, is_due: bool) -> None:
    link = JobLink(scheduler, JobLeave.NONE, tmp_path)
    link.end_training()
    for thread in threading.enumerate():
        if thread.name == "trackside-job-end":
            thread.join()
    assert (link.is_sigterm_due(), scheduler.asked) == (is_due, ["TERM"])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        pytest.param(JobError("squeue is not on PATH."), "The job: squeue is not on PATH.", id="known"),
        pytest.param(KeyError("metadata"), "The job: KeyError: 'metadata'", id="unknown"),
    ],
)
def test_each_failure_is_a_sentence_and_the_next_request_is_made(
    tmp_path: Path, error: Exception, sentence: str
) -> None:
    scheduler = Recorder(raising(error))
    link = JobLink(scheduler, JobLeave.STOP, tmp_path)
    stop(link)
    assert len(scheduler.asked) == 3
    assert link.news() == [sentence] * 3
    assert link.news() == []


def test_a_scheduler_that_never_answers_holds_up_neither_a_stop_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "END_SECONDS", 0.05)
    answers = threading.Event()
    scheduler = Recorder(answers.wait)
    link = JobLink(scheduler, JobLeave.STOP, tmp_path)
    with ends_early():
        for _ in range(3 * MOST_WAITING):
            link.report(issue())
        link.end_training()
        wait_until(lambda: "TERM" in scheduler.asked)
        stop(link)
    assert link.news() == ["The job: its scheduler has not answered within 0.05 s."]
    answers.set()
