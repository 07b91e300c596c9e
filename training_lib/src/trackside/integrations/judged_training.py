"""A training in this process, judged while it runs, for the callbacks of trainers.

Under `trackside run`, and wherever else TRACKSIDE_RUN is set, the run is captured and judged from outside. Then only
its verdicts are read.
"""

from __future__ import annotations

import atexit
import logging
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trackside.choosing.program_rules import Rules
from trackside.choosing.project_settings import read_settings
from trackside.choosing.rule_plan import plan_of
from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.issue_group import IssueGroup, group_of_one, issue_groups
from trackside.contracts.run_layout import RULE_OUTPUT, VERDICTS_KEY, RunLocation
from trackside.contracts.verdict import Outcome, Severity, Verdict
from trackside.environment import CaptureEnvironment, RescueEnvironment, inherited
from trackside.integrations.issue_sinks import IssueSink, StderrSink, sink_of
from trackside.runs.run_folder import RUNS, RunRecord, create_run_folder, run_name, write_record
from trackside.runs.verdict_feed import VerdictFeed

if TYPE_CHECKING:
    from trackside.local.judged_capture import JudgedCapture
    from trackside.local.rescue_watch import RescueWatch

OnIssue = Literal["stop", "warn"]
LOOK_SECONDS = 0.5
END_SECONDS = 60.0  # to judge the rest after a training
EXIT_SECONDS = 10.0  # the same at the exit of a process that broke off
SUBJECT = "The callback"

_logger = logging.getLogger(__name__)


class JudgedTraining:
    """One training, from `begin` to `finish`. After `__init__` no method raises.

    run        a new folder or an `s3://` address; "" for a folder below `.trackside/runs`
    rules      rules as for `trackside.watch`; None for the project's rules, by default all usual ones
    on_issue   "stop": a critical issue makes `should_stop` True; "warn": none does; None for the project's choice
    report_to  receivers of the problems, besides the terminal: sinks, "wandb", "mlflow" or "trackio"

    Errors of the constructor: `ConfigurationError`.
    """

    def __init__(
        self,
        run: str = "",
        *,
        rules: Rules | None = None,
        on_issue: OnIssue | None = None,
        report_to: Sequence[str | IssueSink] = (),
    ) -> None:
        if on_issue not in ("stop", "warn", None):
            problem = Problem("on_issue", f"{on_issue!r} is unknown.", 'Write "stop" or "warn".')
            raise ConfigurationError([problem], subject=SUBJECT)
        settings = read_settings(Path.cwd(), inherited())
        self._plan = plan_of(rules, settings=settings, subject=SUBJECT, actions=(Action.NOTIFY,))
        self._save = settings.capture
        of_project = settings.values.get("on-issue")
        self._stops = "stop" in (on_issue, of_project.value if of_project and on_issue is None else None)
        self._sinks: tuple[IssueSink, ...] = (StderrSink(), *[sink_of(each) for each in report_to])
        self._run, self._started_at = run, 0.0
        self._location: RunLocation | None = None
        self._capture: JudgedCapture | None = None
        self._feed: VerdictFeed | None = None
        self._rescues: RescueWatch | None = None
        self._verdicts: dict[str, Verdict] = {}
        self._shown: dict[str, Severity] = {}
        self._look_at = 0.0
        self._is_over = False
        self._problem = ""
        self.stopped_for: Verdict | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the run; None before `begin`, and where the run is stored elsewhere."""
        return None if self._location is None or "://" in self._location.uri else Path(self._location.uri)

    @property
    def issues(self) -> tuple[IssueGroup, ...]:
        """The problems so far, standing ones first."""
        return issue_groups(tuple(self._verdicts.values()))

    @property
    def should_stop(self) -> bool:
        """True once a critical issue was found, where such an issue stops the training."""
        return self.stopped_for is not None

    def begin(self, *, is_first: bool = True, share: Callable[[str], str] = str) -> None:
        """Begin to capture and to judge. A second call does nothing.

        is_first  True in one process of the training, which starts the rules; False in the others
        share     returns the text that the first process passes in, in every process
        """
        if self._location is None and self._capture is None:
            _guarded(lambda: self._begin(is_first=is_first, share=share))

    def look(self) -> bool:
        """Hand new problems to the sinks, at most twice a second. Return `should_stop`."""
        now = time.monotonic()
        if self._location is not None and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            _guarded(self._look)
        return self.should_stop

    def finish(self, *, limit_seconds: float = END_SECONDS, status: int = 0) -> None:
        """End the run, wait for the verdicts on its last steps, and hand all problems to the sinks."""
        if self._is_over:
            return
        self._is_over = True
        atexit.unregister(self._at_exit)
        capture, location = self._capture, self._location
        if capture is not None:
            _guarded(lambda: capture.close(wait_seconds=limit_seconds))
        if location is None:
            return
        _guarded(self._look)
        issues = self.issues
        for sink in self._sinks:
            _guarded(lambda sink=sink: sink.finish(issues, location.uri))  # type: ignore[misc]
        if capture is not None:
            _guarded(lambda: self._write_record(ended_at=time.time(), status=status))

    def _begin(self, *, is_first: bool, share: Callable[[str], str]) -> None:
        if outside := CaptureEnvironment.read().run_uri:
            self._follow(outside, is_first=is_first)
            return
        from trackside.local.judged_capture import JudgedCapture  # imports torch

        address, failure = _new_run(self._run) if is_first else ("", None)
        address = share(address)  # also after a failure: the other processes wait for it
        if failure is not None:
            raise failure
        if not address:
            return
        self._capture = JudgedCapture(address, plan=self._plan, save=self._save)
        if not is_first:
            return
        self._location, self._started_at = self._capture.location, time.time()
        self._write_record()
        self._capture.judge()
        atexit.register(self._at_exit)

    def _follow(self, location: str, *, is_first: bool) -> None:
        if "://" in location:
            _logger.warning("Trackside: the run in %s is judged elsewhere: nothing stops this training here.", location)
        elif is_first:
            self._location, self._sinks = RunLocation(location), self._sinks[1:]  # `trackside run` shows the cards
            self._feed = VerdictFeed(Path(location) / RULE_OUTPUT / VERDICTS_KEY)
            if RescueEnvironment.read().is_on:
                from trackside.local.rescue_watch import RescueWatch  # only with `trackside run --rescue`

                self._rescues = RescueWatch(Path(location), lambda _: None, monotonic=time.monotonic)

    def _look(self) -> None:
        new = [verdict for verdict in self._found() if verdict.verdict_id not in self._verdicts]
        self._verdicts |= {verdict.verdict_id: verdict for verdict in new}
        for verdict in new:
            if verdict.outcome is not Outcome.ISSUE_FOUND:
                continue
            if verdict.severity is Severity.CRITICAL and self._stops:
                self._stop(verdict)
            group = next((one for one in self.issues if verdict in one.issues), group_of_one(verdict))
            self._show(group)
        if self._rescues is not None:
            self._rescues.look_at_record()
            self.stopped_for = self.stopped_for or self._rescues.due_stop()

    def _stop(self, verdict: Verdict) -> None:
        """Stop the training, unless it may yet go back."""
        if self._rescues is None or not self._rescues.delays_stop(verdict):
            self.stopped_for = self.stopped_for or verdict

    def _found(self) -> tuple[Verdict, ...]:
        if self._feed is not None:
            return self._feed.news()
        judging = self._capture.judging if self._capture is not None else None
        if judging is None:
            return ()
        if judging.problem and judging.problem != self._problem:
            self._problem = judging.problem
            _logger.warning("Trackside: %s The training goes on.", judging.problem)
        return judging.verdicts

    def _show(self, group: IssueGroup) -> None:
        before = self._shown.get(group.group)
        if before is None or group.severity.rank > before.rank:
            self._shown[group.group] = group.severity
            for sink in self._sinks:
                _guarded(lambda sink=sink: sink.issue(group))  # type: ignore[misc]

    def _write_record(self, *, ended_at: float | None = None, status: int | None = None) -> None:
        if self.folder is not None:
            record = RunRecord(
                command=tuple(sys.argv) or ("python",),
                started_at=self._started_at,
                ended_at=ended_at,
                status=status,
                stopped_by_trackside=ended_at is not None and self.should_stop,
                judging_problem=self._problem if ended_at is not None else "",
            )
            write_record(self.folder, record)

    def _at_exit(self) -> None:
        self.finish(limit_seconds=EXIT_SECONDS, status=1)


class JudgingCallback:
    """The constructor of every callback, and its trainings: each has a run of its own."""

    def __init__(
        self,
        run: str = "",
        *,
        on_issue: OnIssue | None = None,
        rules: Rules | None = None,
        report_to: Sequence[str | IssueSink] = (),
    ) -> None:
        """Set the address of the run and the reaction to issues.

        Args:
            run: A new folder, or `s3://bucket/prefix`; by default a new folder below `.trackside/runs`.
            on_issue: "warn" shows a card for each problem; "stop" also ends the training after a critical issue. None
                for the project's setting, by default "warn".
            rules: Rules as for `trackside.watch`; None for the project's rules, by default all usual ones.
            report_to: "wandb", "mlflow" and "trackio" for their live run, or sinks.

        Raises:
            ConfigurationError: With every problem at once.
        """
        self._new = partial(JudgedTraining, run, rules=rules, on_issue=on_issue, report_to=report_to)
        self.training = self._new()
        self._has_begun = False
        super().__init__()

    def begin_training(self, *, is_first: bool, share: Callable[[str], str]) -> None:
        """End the run before, if any, and begin one.

        Args:
            is_first: True in one process of the training, which starts the rules.
            share: Returns the text that the first process passes in, in every process.
        """
        if self._has_begun:
            self.training.finish()
            self.training = self._new()
        self._has_begun = True
        self.training.begin(is_first=is_first, share=share)


def _new_run(run: str) -> tuple[str, Exception | None]:
    """Return the address of a new run, or the reason for none."""
    if "://" in run:
        return run, None
    name = RUNS / run_name([sys.argv[0] or "python"], now=time.time(), token=secrets.token_hex(2))
    try:
        return str(create_run_folder(Path(run) if run else name)), None
    except Exception as error:  # noqa: BLE001 - raised by the caller
        return "", error


def _guarded(act: Callable[[], object]) -> None:
    """Call `act`. Log its failure; the training goes on."""
    try:
        act()
    except Exception as error:  # noqa: BLE001 - the training must outlive any mistake of ours
        _logger.warning("Trackside: %s: %s. The training goes on.", type(error).__name__, error)
