"""The training in one test: captured while the test runs, judged once it is over."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from trackside.choosing.preflight import plan_rules
from trackside.choosing.program_rules import Rules, rules_of
from trackside.contracts.errors import ConfigurationError, Problem, RunNotFoundError
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.verdict import Severity
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.script.hook import Hook
from trackside.integrations.issue_text import issue_card
from trackside.runs.judged_now import judge_now

FAIL_ON = {"warning": Severity.WARNING, "critical": Severity.CRITICAL}
NOTHING = (
    "Trackside captured no training in this test.\n"
    "Why: no training step has ended in the test itself; fixtures and child processes do not count.\n"
    "Try: train in the test, or remove the marker `trackside` and the fixture `trackside_run`."
)


class JudgedTest:
    """The training in one test.

    Args:
        fail_on: "warning" or "critical": the severity at which a problem fails the test.
        rules: Rules as for `trackside.watch`; None for the project's rules, by default all usual ones.
        save_interval: Number of steps between two that are saved.

    Raises:
        ConfigurationError: With every problem at once.
    """

    def __init__(self, *, fail_on: str = "critical", rules: Rules | None = None, save_interval: int = 1) -> None:
        if fail_on not in FAIL_ON:
            problem = Problem("fail_on", f"{fail_on!r} is unknown.", 'Write "warning" or "critical".')
            raise ConfigurationError([problem], subject="The marker `trackside`")
        self._fail_on = FAIL_ON[fail_on]
        chosen = rules_of(rules, subject="The marker `trackside`")
        self._plan = plan_rules(chosen, catalogue=built_in_catalogue(), actions=(), save_interval=save_interval)
        self._folder: Path | None = None
        self._hook: Hook | None = None

    def begin(self) -> None:
        """Begin to capture. Does nothing under `trackside run`, which captures and judges the whole of pytest."""
        if self._folder is None and not CaptureEnvironment.read().run_uri:
            self._folder = Path(tempfile.mkdtemp(prefix="trackside-test-"))
            self._hook = Hook(str(self._folder / "run"), save=self._plan.capture)

    def judge(self) -> tuple[IssueGroup, ...]:
        """End the capture, and return the problems of the training, standing ones first.

        Raises:
            RunNotFoundError: No training was captured.
        """
        self._close()
        if self._folder is None:
            return ()
        judged = judge_now(str(self._folder / "run"), self._plan.request.rules, clock=time.time)
        if not judged.recorded.steps and not any(rule.judged for rule in judged.recorded.rules):
            raise RunNotFoundError(NOTHING)
        return judged.recorded.groups

    def failure(self, *, is_training_expected: bool) -> str:
        """Return the cards of the problems that fail the test; "" without any."""
        try:
            problems = self.judge()
        except RunNotFoundError:
            return NOTHING if is_training_expected else ""
        grave = [group for group in problems if group.standing and group.severity.rank >= self._fail_on.rank]
        return "\n\n".join(issue_card(group) for group in grave)

    def end(self) -> None:
        """End the capture, and remove the run."""
        self._close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _close(self) -> None:
        if self._hook is not None:
            self._hook.close()
