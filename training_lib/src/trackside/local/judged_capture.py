"""A training of this process: captured here, and judged in a process beside it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from trackside.choosing.preflight import RulePlan
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.run_layout import RunLocation
from trackside.environment import inherited
from trackside.frameworks.pytorch.script.hook import Hook
from trackside.local.run_judging import RunJudging
from trackside.runs.run_folder import keep_out_of_git

QUIET_SECONDS = 2.0  # of waiting, before somebody should explain it


class JudgedCapture:
    """The capture of one training, and its judging: the common part of `trackside.watch` and of the callbacks.

    Args:
        address: A new folder or an `s3://` address.
        plan: The rules and the tensors that they need; None for a run that is not judged here.
        save: The data to save of such a run, as for `Hook`.

    Raises:
        ConfigurationError: With every problem at once.
    """

    def __init__(
        self, address: str, *, plan: RulePlan | None, save: CaptureRequest | Mapping[str, int] | None = None
    ) -> None:
        path = address if "://" in address else str(Path(address).expanduser().absolute())
        self.location = RunLocation(path)
        self.hook = Hook(address, save=save if plan is None else plan.capture)
        self.judging: RunJudging | None = None
        self.is_closed = False
        self._plan, self._pid = plan, os.getpid()

    def judge(self, news: Callable[[], object] = lambda: None, *, program: tuple[str, ...] = ()) -> None:
        """Judge the run from its first object on, unless its plan is None. A thread calls `news` after each change.

        Args:
            news: Called by a thread.
            program: The words that stand for the training in lists of runs; () if the caller writes the record.
        """
        if self._plan is not None:
            keep_out_of_git(Path(self.location.uri))
            request, environment = self._plan.request, inherited()
            self.judging = RunJudging(self.location, request, environment=environment, news=news, program=program)

    def close(
        self, *, wait_seconds: float, drops_empty: bool = False, slow: Callable[[], object] = lambda: None
    ) -> bool:
        """End the run, and wait for the last verdicts. Return False a second time and in a forked process.

        Args:
            wait_seconds: Longest time to wait.
            drops_empty: True: a run that never trained leaves no folder.
            slow: Called once if the wait takes longer than `QUIET_SECONDS`.
        """
        if os.getpid() != self._pid or self.is_closed:
            return False
        if drops_empty and not self.hook._capture.now.has_begun:
            self.hook._capture.abandon()
        else:
            self.hook.close()
        self.is_closed = True
        if self.judging is not None:
            self.judging.training_ended()
            quiet = min(wait_seconds, QUIET_SECONDS)
            if not self.judging.wait(quiet) and wait_seconds > quiet:
                slow()
                self.judging.wait(wait_seconds - quiet)
        return True
