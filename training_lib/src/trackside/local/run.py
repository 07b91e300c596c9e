"""One run on one machine: starts training and evaluator, shows issues, stops on request, sums up."""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from trackside.contracts.action import Action
from trackside.contracts.capture_request import CaptureRequest, capture_environment
from trackside.contracts.errors import StorageError
from trackside.contracts.issue_group import IssueGroup, group_of_one, issue_groups
from trackside.contracts.rule_request import RuleRequest
from trackside.contracts.run.cluster_job import NO_JOB
from trackside.contracts.run.exit_code import NOT_JUDGED
from trackside.contracts.run.learning import Learning
from trackside.contracts.run.rescue import RescueRecord
from trackside.contracts.run_layout import (
    END_MARKER_KEY,
    PROFILES,
    RULE_OUTPUT,
    RULE_REQUEST_KEY,
    TENSORS,
    VERDICTS_KEY,
)
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.environment import SHOW_SAMPLES, RescueEnvironment
from trackside.evaluation.results.run_learning import read_learning
from trackside.local.evaluator_process import EVALUATOR, EvaluatorProcess, EvaluatorState
from trackside.local.first_facts import FirstFacts
from trackside.local.jobs.link import JobLink
from trackside.local.jobs.scheduler import JobLeave, Scheduler, sentence_of
from trackside.local.local_twins import check_terms, local_twins
from trackside.local.profile_request import request_profile
from trackside.local.rescue_watch import RescueWatch
from trackside.local.run_now import RunNow, RunNowReader, steps_of, watermarks_of
from trackside.local.signal_inbox import SignalInbox
from trackside.local.stop_request import forget_stop, requested_stop
from trackside.local.training_process import TrainingProcess
from trackside.local.unfinished_run import reopen
from trackside.products import MACHINE_SAMPLER, RESTARTS, product
from trackside.runs.capture_check import (
    lacks_trackside,
    nothing_captured_yet,
    rule_progress,
    saved_steps,
    uncaptured_processes,
    why_nothing_was_captured,
)
from trackside.runs.command_end import exit_code_of
from trackside.runs.judged_part import JudgedPart, judged_part
from trackside.runs.problem_text import safe
from trackside.runs.rescues import read_rescue
from trackside.runs.rule_state import RuleStatus, gravest_severity, rule_statuses, was_ruined
from trackside.runs.run_folder import RunRecord, RunState, held, storage_problem, write_record
from trackside.runs.run_summary import store_summary
from trackside.runs.speed_line import speed_line
from trackside.runs.verdict_feed import VerdictFeed
from trackside.storage.open_store import open_store

LOOK_SECONDS = 0.2  # how often to look for verdicts; the end of the training wakes us at once
SECOND_INTERRUPT_SECONDS = 5.0
FINAL_JUDGING_SECONDS = 120.0
PROGRESS_SECONDS = 2.0  # between two looks at the newest step and loss
LONG_WAIT_SECONDS = 5.0  # after which users read the reason for waiting
UNCAPTURED_SECONDS = 60.0  # after which users read that nothing is captured yet
STORAGE_GRACE_SECONDS = 2.0  # for an evaluator that has nowhere to write
EVALUATOR_GRACE_SECONDS = 5.0
UNKILLABLE_SECONDS = 5.0  # a process that outlives SIGKILL so long hangs in the kernel: waiting longer is useless

ENDED_BY_US = {"TRACKSIDE_ENDED_BY": "trackside-run"}

_logger = logging.getLogger(__name__)


class Observer(Protocol):
    """The receiver of messages for the user. No method may raise or block for long."""

    @property
    def shows_progress(self) -> bool:
        """True if `progress` is to be called."""

    def note(self, text: str) -> None:
        """Show one line about the present activity."""

    def hint(self, text: str) -> None:
        """Show one line, unless the user wants to read of problems only."""

    def detail(self, text: str) -> None:
        """Show one line, if the user wants to read everything."""

    def progress(self, now: RunNow) -> None:
        """Show the present state of the run. Called only if `shows_progress`."""

    def issue(self, group: IssueGroup) -> None:
        """Show a problem, new or changed, of a rule with the action Notify."""


@dataclass(frozen=True)
class LocalRun:
    """A command to run, its folder, and the rules that judge it.

    folder                     absolute and new
    grace_seconds              time between SIGTERM and SIGKILL
    shares_terminal            True if the command runs in the terminal's foreground group
    reports_inapplicable_rules  True: show rules with nothing to judge in the model, since the user chose them
    limit_seconds              time after which the command is stopped; None: it may run for ever
    is_output_on_stderr        True: the command's stdout goes to stderr
    sample_interval_ms         milliseconds between two samples of the machine; 0: it is not sampled
    issue_profile_steps        steps to profile in detail at the first issue; 0: none
    earlier                    the record of the unfinished run in the folder, which goes on; None for a new one
    rescue                     whether the training goes back when its numbers break, and how often
    shows_samples              the user allows to keep answers of a language model as text
    scheduler                  the scheduler of the job that it is part of; None for none
    job_leave                  what may be done with that job
    """

    command: tuple[str, ...]
    folder: Path
    request: RuleRequest
    capture: CaptureRequest
    environment: Mapping[str, str]
    grace_seconds: float = 30.0
    shares_terminal: bool = False
    reports_inapplicable_rules: bool = False
    limit_seconds: float | None = None
    is_output_on_stderr: bool = False
    sample_interval_ms: int = 0
    issue_profile_steps: int = 0
    earlier: RunRecord | None = None
    rescue: RescueEnvironment = RescueEnvironment()  # noqa: RUF009 - it is frozen
    shows_samples: bool = False
    scheduler: Scheduler | None = None
    job_leave: JobLeave = JobLeave.NONE


@dataclass(frozen=True)
class LocalRunResult:
    """The result of a run.

    status          the command's exit code, or -n if signal n ended it
    steps           steps with saved tensors
    evaluator_problem  clause about why rules did not judge the run to its end; "" if they did
    training_steps  number of optimizer steps; 0 if unknown
    speed           one line about the time that can be won back; "" for none
    was_not_awaited  True if the user did not wait for the rules to judge the rest
    learning        what the run has learned by its end
    was_stopped     True if Trackside stopped it: for a verdict, or as was requested
    rescue          what the training did when its numbers broke; None without `--rescue`, and if they did not
    """

    folder: Path
    status: int
    stopped_for: Verdict | None
    verdicts: tuple[Verdict, ...]
    rules: tuple[RuleStatus, ...]
    steps: tuple[int, ...]
    evaluator_problem: str
    capture_problem: str
    training_steps: int = 0
    speed: str = ""
    was_not_awaited: bool = False
    learning: Learning = field(default_factory=Learning)
    was_stopped: bool = False
    rescue: RescueRecord | None = None

    @property
    def judged(self) -> JudgedPart:
        """The part of the run that rules have judged."""
        problem = self.evaluator_problem or self.capture_problem
        folder = str(self.folder)
        return judged_part(self.rules, state=RunState.ENDED, run=folder, problem=problem, learning=self.learning)

    @property
    def training_code(self) -> int:
        """The code of the command as a shell has it: 128 + n if signal n ended it."""
        return exit_code_of(self.status)

    @property
    def was_ruined(self) -> bool:
        """True if a critical issue hurt the training, and it ended no better than a constant answer."""
        return was_ruined(self.verdicts, self.learning)

    def exit_code(self, fail_on: Severity | None) -> int:
        """Return the exit code: 1 if Trackside stopped the run or an issue reaches `fail_on`, else the command's own.

        For a command that ended with 0 and was not judged to its end it is `NOT_JUDGED`, unless the user did not wait.
        Of a run that was ruined, a critical issue stands, though it seemed to recover.
        """
        worst = gravest_severity(self.verdicts, self.learning)
        if self.stopped_for or self.was_stopped or (fail_on and worst and worst.rank >= fail_on.rank):
            return 1
        was_cut_off = bool(self.evaluator_problem) and not self.was_not_awaited
        return self.training_code or (NOT_JUDGED if was_cut_off else 0)


def run_locally(
    run: LocalRun,
    *,
    observer: Observer,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
    evaluator: tuple[str, ...] = EVALUATOR,
) -> LocalRunResult:
    """Run the command to its end, judged by the rules. Returns when none of its processes is left running.

    Errors: `OSError` if the command cannot be started, `ConfigurationError` if an action or one of its terms cannot be
    kept here. Later failures of Trackside go to the observer, and the training goes on.
    """
    check_terms(run.request.rules)
    local_twins(action for rule in run.request.rules for action in rule.actions)
    record = RunRecord(
        command=run.command,
        started_at=run.earlier.started_at if run.earlier else clock(),
        job=run.scheduler.job if run.scheduler else NO_JOB,
    )
    with held(run.folder), SignalInbox() as inbox:
        if run.earlier is not None:
            reopen(run.folder)
            forget_stop(run.folder)
        (run.folder / RULE_REQUEST_KEY).write_text(run.request.to_json(), encoding="utf-8")
        write_record(run.folder, record)
        training = _started(run, monotonic)
        watch = _Watch(run, record, training, inbox, observer=observer, monotonic=monotonic, evaluator=evaluator)
        status = watch.until_the_training_ends()
        watch.until_all_is_judged()
        ended = replace(
            record,
            ended_at=clock(),
            status=status,
            stopped_by_trackside=watch.was_stopped,
            judging_problem=watch.judging_problem,
        )
        watch.guarded(lambda: write_record(run.folder, ended))
    watch.guarded(lambda: store_summary(run.folder))
    with SignalInbox():  # a job that is suspended sends SIGTERM at once
        watch.guarded(watch.end_the_job)
    return watch.result(status)


def _started(run: LocalRun, monotonic: Callable[[], float]) -> TrainingProcess | Any:
    """Start the command. Errors: `OSError`."""

    def start(more: Mapping[str, str]) -> TrainingProcess:
        return TrainingProcess(
            run.command,
            # The command may train more than once, one after the other: only we know when it is over.
            environment={
                **run.environment,
                **capture_environment(str(run.folder), run.capture),
                **ENDED_BY_US,
                **run.rescue.variables(),
                **({SHOW_SAMPLES: "1"} if run.shows_samples else {}),
                **more,
            },
            shares_terminal=run.shares_terminal,
            is_output_on_stderr=run.is_output_on_stderr,
        )

    if not run.rescue.restarts:
        return start({})
    return product(RESTARTS).restarted(
        start, run.folder, run.rescue, grace_seconds=run.grace_seconds, monotonic=monotonic
    )


class _Watch:
    """The main loop and its state."""

    def __init__(
        self,
        run: LocalRun,
        record: RunRecord,
        training: TrainingProcess | Any,
        inbox: SignalInbox,
        *,
        observer: Observer,
        monotonic: Callable[[], float],
        evaluator: tuple[str, ...],
    ) -> None:
        self._run, self._record = run, record
        self._job = JobLink(run.scheduler, run.job_leave, run.folder)
        self._training = training
        self._inbox = inbox
        self._observer = observer
        self._monotonic = monotonic
        self._twins = {rule.name: local_twins(rule.actions) for rule in run.request.rules}
        self._feed = VerdictFeed(run.folder / RULE_OUTPUT / VERDICTS_KEY)
        self._feed.news()  # of an earlier part of the run, which was acted on
        self._evaluator = EvaluatorProcess(
            run.folder, environment=run.environment, note=observer.note, monotonic=monotonic, command=evaluator
        )
        self._sampled, self._sampler = training.pid, self._new_sampler()
        checked_rules = run.request if run.reports_inapplicable_rules else RuleRequest(())
        self._first_facts = FirstFacts(open_store(f"{run.folder}/{TENSORS}"), checked_rules)
        self._rescues = RescueWatch(run.folder, observer.note, monotonic=monotonic) if run.rescue.is_on else None
        self._interrupted_at: float | None = None
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._started_at = self._progress_at = monotonic()
        self._now = RunNowReader(str(run.folder))
        self._is_captured = False
        self._storage_problem = ""
        self._stop_at = math.inf if run.limit_seconds is None else monotonic() + run.limit_seconds
        self._is_off = self._is_profiled = self._was_not_awaited = False
        self._failures: set[str] = set()
        self.stopped_for: Verdict | None = None
        self.was_stopped, self._why_stopped = False, ""

    def until_the_training_ends(self) -> int:
        """Pass signals on, carry out actions, stop on request. Return the status of the command."""
        while True:
            status = self._training.poll()
            is_stopping = self._kill_at is not None
            if status is not None and not (is_stopping and self._is_left()):
                return status
            for number in self._inbox.wait(LOOK_SECONDS):
                self._pass_on(number)
            self.guarded(self._look)
            self.guarded(self._tend_sampler)
            self.guarded(self._show_progress)
            self.guarded(self._stop_as_requested)
            self.guarded(self._enforce_stop)

    def _new_sampler(self) -> Any:
        return product(MACHINE_SAMPLER).SamplerProcess(
            f"{self._run.folder}/{PROFILES}",
            process=self._training.pid,
            interval_ms=self._run.sample_interval_ms,
            environment=self._run.environment,
            monotonic=self._monotonic,
        )

    def _tend_sampler(self) -> None:
        if self._sampled != self._training.pid:  # it was started again
            self._sampler.finish()
            self._sampled, self._sampler = self._training.pid, self._new_sampler()
        self._sampler.tend()

    def until_all_is_judged(self) -> None:
        """Mark the end of the run, and wait until the evaluator has judged every step: bounded, interruptible."""
        self.guarded(self._sampler.finish)
        self.guarded(self._job.training_ended)
        self._storage_problem = storage_problem(self._run.folder)
        self.guarded(self._mark_end)
        started_at, has_hinted = self._monotonic(), False
        while not (self._is_off or self._storage_problem) and self._evaluator.tend() is EvaluatorState.RUNNING:
            waited = self._monotonic() - started_at
            self._was_not_awaited = bool(self._inbox.wait(LOOK_SECONDS))
            if self._was_not_awaited or waited > FINAL_JUDGING_SECONDS:
                self._observer.note("not waiting any longer for the rules to judge the rest.")
                break
            if waited > LONG_WAIT_SECONDS and not has_hinted:
                has_hinted = True
                self._observer.hint("the training has ended; the rules judge the rest (Ctrl-C: do not wait) ...")
            self.guarded(self._look)
            self._storage_problem = storage_problem(self._run.folder)
        grace_seconds = STORAGE_GRACE_SECONDS if self._storage_problem else EVALUATOR_GRACE_SECONDS
        self._evaluator.finish(grace_seconds=grace_seconds)
        self.guarded(self._look)

    def end_the_job(self) -> None:
        """End the job of a training that Trackside stopped, and wait, bounded, until the scheduler knows all."""
        if self.was_stopped:
            self._job.end(self._why_stopped)
        self._job.finish(was_stopped=self.was_stopped)
        self._note_problems_of_the_job()

    def result(self, status: int) -> LocalRunResult:
        """Return the result of the run."""
        steps: tuple[int, ...] = ()
        training_steps: int | None = None
        speed, learning = "", Learning()
        try:
            steps = saved_steps(open_store(f"{self._run.folder}/{TENSORS}"))
            speed = speed_line(open_store(f"{self._run.folder}/{RULE_OUTPUT}"))
            learning = read_learning(open_store(f"{self._run.folder}/{RULE_OUTPUT}"))
            training_steps = steps_of(watermarks_of(str(self._run.folder)))
        except StorageError as error:
            self._observer.note(f"The saved tensors cannot be listed: {error}")
        rules = rule_statuses(
            self._run.request.rules,
            self._feed.verdicts,
            progress=rule_progress(open_store(f"{self._run.folder}/{RULE_OUTPUT}")),
            is_running=False,
        )
        is_empty = not steps and not any(rule.judged for rule in rules)  # statistics alone are something, too
        return LocalRunResult(
            folder=self._run.folder,
            status=status,
            stopped_for=self.stopped_for,
            was_stopped=self.was_stopped,
            verdicts=self._feed.verdicts,
            rules=rules,
            steps=steps,
            evaluator_problem=self.judging_problem,
            capture_problem=self._why_empty(status, training_steps) if is_empty else "",
            training_steps=training_steps or 1 + max((rule.judged_through for rule in rules), default=-1),
            speed=speed,
            was_not_awaited=self._was_not_awaited,
            learning=learning,
            rescue=read_rescue(open_store(str(self._run.folder))) if self._rescues is not None else None,
        )

    @property
    def judging_problem(self) -> str:
        """A clause about why rules did not judge the run to its end; "" if they did."""
        return self._storage_problem or self._evaluator.problem

    def _why_empty(self, status: int, training_steps: int | None) -> str:
        if self._storage_problem:
            return self._storage_problem
        if python := lacks_trackside(self._run.command, environment=self._run.environment):
            return f"{python} has no Trackside"
        return why_nothing_was_captured(
            self._run.command,
            status=status,
            has_begun=training_steps is not None,
            processes=uncaptured_processes(open_store(str(self._run.folder))),
        )

    def guarded(self, act: Callable[[], object]) -> None:
        """Call `act`. Report its failure once for each kind; it ends the watching, never the training."""
        try:
            act()
        except Exception as error:  # the training must outlive any mistake of ours
            self._is_off = True
            _logger.debug("Watching failed", exc_info=error)
            if isinstance(error, OSError) and self._storage_problem:  # which is reported once, at the end
                return
            self._note_once(f"Watching failed ({type(error).__name__}: {error}). The training goes on unwatched.")

    def _note_once(self, text: str) -> None:
        if text not in self._failures:
            self._failures.add(text)
            self._observer.note(text)

    def _look(self) -> None:
        if self._is_off:
            return
        self._evaluator.tend()
        self._note_problems_of_the_job()
        for sentence in self._first_facts.news():
            self._observer.note(sentence)
        for verdict in self._feed.news():
            if verdict.outcome is Outcome.ISSUE_FOUND:
                self._act(verdict)
            elif verdict.state is State.RECOVERED and Action.NOTIFY in self._twins.get(verdict.configuration_name, {}):
                self._show_recovery(verdict)
        if self._rescues is not None:
            self._rescues.look(self._feed.verdicts)
            if not self._training.is_deciding and (due := self._rescues.due_stop()):
                self._stop_now(due)

    def _show_recovery(self, verdict: Verdict) -> None:
        """Show that an issue is over, in detail only while others of the same problem stand."""
        groups = issue_groups(self._feed.verdicts)
        is_standing = any(group.standing for group in groups if group.group == verdict.group)
        show = self._observer.detail if is_standing else self._observer.note
        show(f"{verdict.configuration_name}: {verdict.message}")

    def _show_progress(self) -> None:
        now = self._monotonic()
        is_late = not self._is_captured and now - self._started_at > UNCAPTURED_SECONDS
        if now - self._progress_at < PROGRESS_SECONDS or not (self._observer.shows_progress or is_late):
            return
        self._progress_at = now
        steps, loss, overhead = self._now.read()
        if steps is None and is_late:
            self._observer.hint(nothing_captured_yet(self._run.command, environment=self._run.environment))
        self._is_captured |= steps is not None or is_late
        if self._observer.shows_progress:
            problems = sum(bool(group.standing) for group in issue_groups(self._feed.verdicts))
            self._observer.progress(RunNow(steps, loss, len(self._run.request.rules), problems, overhead))

    def _act(self, verdict: Verdict) -> None:
        if self._run.issue_profile_steps and not self._is_profiled:
            self._is_profiled = True
            request_profile(str(self._run.folder), self._run.issue_profile_steps)
        for action, carry_out in self._twins.get(verdict.configuration_name, {}).items():
            try:
                carry_out(verdict, self)
            except OSError as error:  # a full disk must hold up neither the other actions nor the watching
                _logger.debug("%s failed", action.value, exc_info=error)
                self._note_once(f"{action.value} failed ({type(error).__name__}: {error}).")

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self._run.folder

    def show(self, verdict: Verdict) -> None:
        """Show the issue to the user, with the others of the same problem."""
        groups = issue_groups(self._feed.verdicts)
        shown = [group for group in groups if verdict in group.issues]
        self._observer.issue(shown[0] if shown else group_of_one(verdict))
        self._job.report(verdict)

    def stop_for(self, verdict: Verdict) -> None:
        """Stop the training, unless it is stopping, has ended, or may yet be rescued."""
        if self._rescues is None or not self._rescues.delays_stop(verdict):
            self._stop_now(verdict)

    def _stop_now(self, verdict: Verdict) -> None:
        if self._kill_at is None and self._training.poll() is None:
            self.stopped_for = verdict
            self._stop_for_good(f"Stopping the training: {verdict.configuration_name} is critical.")

    def _stop_as_requested(self) -> None:
        """Stop the training if a request lies in the folder of the run."""
        if self._kill_at is None and (reason := requested_stop(self._run.folder)):
            self._stop_for_good(f"Stopping the training, as requested: {safe(reason)}.")

    def _stop_for_good(self, why: str) -> None:
        self.was_stopped = True
        self._why_stopped = sentence_of(self.stopped_for) if self.stopped_for else why.partition(": ")[2]
        # Known at once: a job that is killed in its grace, and started again, must not train on.
        self.guarded(lambda: write_record(self._run.folder, replace(self._record, stopped_by_trackside=True)))
        self._stop(why)
        self._job.withhold(self._why_stopped)

    def _note_problems_of_the_job(self) -> None:
        for sentence in self._job.news():
            self._note_once(sentence)

    def _stop(self, why: str) -> None:
        grace = self._run.grace_seconds
        self._observer.note(why)
        self._observer.note(f"SIGTERM sent; SIGKILL follows in {grace:g} s if it has not ended.")
        self._kill_at = self._monotonic() + grace
        self._job.end_training()
        self._send_due_sigterm()

    def _send_due_sigterm(self) -> None:
        if self._job.is_sigterm_due():
            self._training.request_end()

    def _is_left(self) -> bool:
        return (self._give_up_at is None or self._monotonic() < self._give_up_at) and self._training.is_alive()

    def _enforce_stop(self) -> None:
        now = self._monotonic()
        self._send_due_sigterm()
        if now >= self._stop_at and self._kill_at is None:
            self._stop(f"The command has run for {self._run.limit_seconds:g} s, its limit.")
        if self._kill_at is None or now < self._kill_at or not self._training.is_alive():
            return
        if self._give_up_at is None:
            self._give_up_at = now + UNKILLABLE_SECONDS
            self._observer.note("It has not ended: SIGKILL sent.")
            self._job.kill()
        self._training.kill()

    def _pass_on(self, number: signal.Signals) -> None:
        if number is signal.SIGINT:
            self._interrupted()
        elif number is signal.SIGHUP and self._training.shares_terminal:
            return  # the terminal is gone; it sent the signal to the training itself
        elif self._job.has_reached_training(number):
            self._observer.detail(f"{number.name} came from the scheduler, which sent it to the training too.")
        else:
            self._observer.detail(f"{number.name} passed on to the training.")
            self._training.pass_on(number)

    def _interrupted(self) -> None:
        self._training.leave()
        now, before = self._monotonic(), self._interrupted_at
        self._interrupted_at = now
        if before is not None and now - before < SECOND_INTERRUPT_SECONDS:
            self._observer.note("Interrupted again: SIGKILL sent to the training.")
            self._kill_at = now
            self._give_up_at = now + UNKILLABLE_SECONDS
            self._training.kill()
            return
        self._observer.note("Interrupted. Waiting for the training to end; Ctrl-C again kills it.")
        if not self._training.shares_terminal:  # else the terminal has sent it to the training too
            self._training.pass_on(signal.SIGINT)

    def _mark_end(self) -> None:
        """Write the end marker. Only `trackside run` knows that nothing will train in this run any more."""
        store = open_store(f"{self._run.folder}/{TENSORS}")
        if not store.exists(END_MARKER_KEY):
            store.put(END_MARKER_KEY, b"")
