"""A training in this process, judged while it runs: captured here, with the rules in a process beside it.

Under `trackside run`, and wherever else TRACKSIDE_RUN is set, the run is captured and judged from outside. Then only
its verdicts are read.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from trackside.contracts.action import Action
from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.issue_group import IssueGroup, group_of_one, issue_groups
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run_layout import RULE_OUTPUT, RULE_REQUEST_KEY, VERDICTS_KEY
from trackside.contracts.verdict import Outcome, Severity, Verdict
from trackside.environment import CaptureEnvironment, inherited
from trackside.integrations.issue_sinks import IssueSink, StderrSink, sink_of
from trackside.local.evaluator_process import EvaluatorProcess, EvaluatorState
from trackside.local.preflight import plan_rules
from trackside.local.run_folder import RUNS, RunRecord, create_run_folder, held, run_name, write_record
from trackside.local.verdict_feed import VerdictFeed

if TYPE_CHECKING:
    from trackside.frameworks.pytorch.script.hook import Hook

OnIssue = Literal["stop", "warn"]
LOOK_SECONDS = 0.5
END_SECONDS = 60.0  # to judge the rest after a training
EXIT_SECONDS = 10.0  # the same at the exit of a process that broke off
GRACE_SECONDS = 2.0

_logger = logging.getLogger(__name__)


class JudgedTraining:
    """One training, from `begin` to `finish`. After `__init__` no method raises.

    run        a new folder; "" for one below `.trackside/runs`
    rules      ids of rules, or configurations; none: all usual rules
    on_issue   "stop": a critical issue makes `should_stop` True; "warn": none does
    report_to  receivers of the problems, besides the terminal: sinks, "wandb" or "mlflow"

    Errors of the constructor: `ConfigurationError`.
    """

    def __init__(
        self,
        run: str = "",
        *,
        rules: Sequence[str | RuleConfiguration] = (),
        on_issue: OnIssue = "warn",
        report_to: Sequence[str | IssueSink] = (),
    ) -> None:
        if on_issue not in ("stop", "warn"):
            problem = Problem("on_issue", f"{on_issue!r} is unknown.", 'Write "stop" or "warn".')
            raise ConfigurationError([problem], subject="The callback")
        chosen = [RuleConfiguration(rule) if isinstance(rule, str) else rule for rule in rules]
        self._plan = plan_rules(chosen, catalogue=built_in_catalogue(), actions=(Action.NOTIFY,))
        self._on_issue, self._sinks = on_issue, (StderrSink(), *[sink_of(each) for each in report_to])
        self._run = run
        self._folder: Path | None = None
        self._hook: Hook | None = None
        self._evaluator: EvaluatorProcess | None = None
        self._feed: VerdictFeed | None = None
        self._shown: dict[str, Severity] = {}
        self._look_at = 0.0
        self._open = contextlib.ExitStack()
        self._started_at = 0.0
        self.stopped_for: Verdict | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the run; None before `begin`, and where the run is stored elsewhere."""
        return self._folder

    @property
    def issues(self) -> tuple[IssueGroup, ...]:
        """The problems so far, standing ones first."""
        return issue_groups(self._feed.verdicts) if self._feed else ()

    @property
    def should_stop(self) -> bool:
        """True once a critical issue was found, with `on_issue="stop"`."""
        return self.stopped_for is not None

    def begin(self, *, is_first: bool = True, share: Callable[[str], str] = str) -> None:
        """Begin to capture and to judge. A second call does nothing.

        is_first  True in one process of the training, which starts the rules; False in the others
        share     returns the text that the first process passes in, in every process
        """
        if self._folder is None and self._hook is None:
            _guarded(lambda: self._begin(is_first=is_first, share=share))

    def look(self) -> bool:
        """Hand new problems to the sinks, at most twice a second. Return `should_stop`."""
        now = time.monotonic()
        if (feed := self._feed) is not None and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            _guarded(lambda: self._look(feed))
        return self.should_stop

    def finish(self, *, limit_seconds: float = END_SECONDS, status: int = 0) -> None:
        """End the run, wait for the verdicts on its last steps, and hand all problems to the sinks."""
        atexit.unregister(self._at_exit)
        if self._hook is not None:
            _guarded(self._hook.close)
        if (evaluator := self._evaluator) is not None:
            _guarded(lambda: _wait(evaluator, limit_seconds))
        if (feed := self._feed) is not None:
            _guarded(lambda: self._look(feed))
            issues = self.issues
            for sink in self._sinks:
                _guarded(lambda sink=sink: sink.finish(issues, str(self._folder)))  # type: ignore[misc]
        if self._evaluator is not None and self._folder is not None:
            folder = self._folder
            _guarded(lambda: write_record(folder, self._record(ended_at=time.time(), status=status)))
        self._open.close()
        self._hook = self._evaluator = None

    def _begin(self, *, is_first: bool, share: Callable[[str], str]) -> None:
        outside = CaptureEnvironment.read().run_uri
        if outside:
            self._follow(outside, is_first=is_first)
            return
        from trackside.frameworks.pytorch.script.hook import Hook  # imports torch

        folder, failure = _new_folder(self._run) if is_first else ("", None)
        folder = share(folder)  # also after a failure: the other processes wait for it
        if failure is not None:
            raise failure
        if not folder:
            return
        self._hook = Hook(folder, save=self._plan.capture)
        if not is_first:
            return
        self._folder, self._started_at = Path(folder), time.time()
        (self._folder / RULE_REQUEST_KEY).write_text(self._plan.request.to_json(), encoding="utf-8")
        write_record(self._folder, self._record())
        self._open.enter_context(held(self._folder))
        self._evaluator = EvaluatorProcess(
            self._folder, environment=inherited(), note=_logger.warning, monotonic=time.monotonic
        )
        self._evaluator.tend()
        self._feed = VerdictFeed(self._folder / RULE_OUTPUT / VERDICTS_KEY)
        atexit.register(self._at_exit)

    def _follow(self, location: str, *, is_first: bool) -> None:
        if "://" in location:
            _logger.warning("Trackside: the run in %s is judged elsewhere: nothing stops this training here.", location)
        elif is_first:
            self._folder, self._sinks = Path(location), self._sinks[1:]  # `trackside run` shows the cards
            self._feed = VerdictFeed(self._folder / RULE_OUTPUT / VERDICTS_KEY)

    def _look(self, feed: VerdictFeed) -> None:
        if self._evaluator is not None:
            self._evaluator.tend()
        for verdict in feed.news():
            if verdict.outcome is not Outcome.ISSUE_FOUND:
                continue
            if verdict.severity is Severity.CRITICAL and self._on_issue == "stop":
                self.stopped_for = self.stopped_for or verdict
            group = next((one for one in self.issues if verdict in one.issues), group_of_one(verdict))
            self._show(group)

    def _show(self, group: IssueGroup) -> None:
        before = self._shown.get(group.group)
        if before is None or group.severity.rank > before.rank:
            self._shown[group.group] = group.severity
            for sink in self._sinks:
                _guarded(lambda sink=sink: sink.issue(group))  # type: ignore[misc]

    def _record(self, *, ended_at: float | None = None, status: int | None = None) -> RunRecord:
        return RunRecord(
            command=tuple(sys.argv) or ("python",),
            started_at=self._started_at,
            ended_at=ended_at,
            status=status,
            stopped_by_trackside=ended_at is not None and self.should_stop,
        )

    def _at_exit(self) -> None:
        self.finish(limit_seconds=EXIT_SECONDS, status=1)


def _wait(evaluator: EvaluatorProcess, limit_seconds: float) -> None:
    deadline = time.monotonic() + limit_seconds
    while evaluator.tend() is EvaluatorState.RUNNING and time.monotonic() < deadline:
        time.sleep(0.05)
    evaluator.finish(grace_seconds=GRACE_SECONDS)


def _new_folder(run: str) -> tuple[str, Exception | None]:
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
