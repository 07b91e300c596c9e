"""The end of a script that `trackside check` rehearses: after some steps, or some time.

Adapters without probes of their own count their steps here. Those of PyTorch's training are counted by
`rehearsal/rehearsal.py`, which probes the model before it ends the script.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from trackside.capture.session import Rank, RunSession
from trackside.capture.steps.step_engine import TRAIN
from trackside.contracts.run.check import ALL_PROBES, Answer, Outcome, ProcessReport
from trackside.contracts.run_layout import check_key, worker_name
from trackside.environment import CaptureEnvironment, RehearsalEnvironment
from trackside.storage.open_store import open_store

MOST_ENDS = 3  # times that the script is asked to end
WITHOUT_PROBES = "they replay steps of PyTorch's optimizers; this training makes none, and rules alone judge it"


class RehearsedSteps:
    """The steps of one training in a rehearsal.

    Args:
        environment: Address of the run.
        settings: Number of steps, and the time for them.
        leave: Closes the run, and leaves the framework as it was.
        clock: Returns seconds, to measure the time since the first step.
    """

    def __init__(
        self,
        environment: CaptureEnvironment,
        settings: RehearsalEnvironment,
        leave: Callable[[], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment, self._settings, self._leave, self._clock = environment, settings, leave, clock
        self._rank = Rank(environment.rank, environment.world_size)
        self._steps, self._began_at = 0, 0.0
        self._is_reported = False
        self._end = ScriptEnd()

    @property
    def step_count(self) -> int:
        """The number of steps of a rehearsal."""
        return self._settings.steps

    def began(self, rank: Rank) -> None:
        """Note the number of this worker."""
        self._rank = rank

    def stepped(self, session: RunSession) -> None:
        """Count a step that has ended. After the last one close the run, and end the script.

        Raises:
            SystemExit: It was the last one.
        """
        if session.engine.mode != TRAIN or session.guard.is_off:
            return
        if not self._steps:
            self._began_at = self._clock()
        self._steps += 1
        is_late = self._clock() - self._began_at > self._settings.seconds
        if self._steps >= self._settings.steps or is_late:
            session.guard.attempt("ending a rehearsal", lambda: self._report(is_cut=True))
            session.guard.attempt("storing what was captured", self._leave)
            self._end.end_script()

    def closing(self, session: RunSession, *, is_interrupted: bool) -> None:
        """Report a training that ends before its rehearsal is over, unless it has failed."""
        if not is_interrupted and not hasattr(sys, "last_type"):
            session.guard.attempt("ending a rehearsal", lambda: self._report(is_cut=False))

    def _report(self, *, is_cut: bool) -> None:
        if self._is_reported or not self._steps:
            return
        self._is_reported = True
        report = ProcessReport(
            worker_name(self._rank.number),
            self._steps,
            self._rank.of,
            is_done=True,
            is_cut=is_cut,
            answers=(Answer(ALL_PROBES, Outcome.NOT_TRIED, WITHOUT_PROBES),),
        )
        open_store(self._environment.run_uri).put(check_key(report.worker), report.to_json().encode())


class ScriptEnd:
    """The end of a script, as by `sys.exit()`.

    Attributes:
        count: Number of times that the script was asked to end.
    """

    def __init__(self) -> None:
        self.count = 0

    def end_script(self) -> None:
        """End the script. If it was asked often and goes on all the same, end the process.

        Raises:
            SystemExit: Always, but for the process's end.
        """
        self.count += 1
        if self.count > MOST_ENDS or threading.current_thread() is not threading.main_thread():
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os._exit(0)
        raise SystemExit(0)


def rehearsed_steps(environment: CaptureEnvironment, leave: Callable[[], object]) -> RehearsedSteps | None:
    """Return the steps of a rehearsal; None if this process is none.

    Args:
        environment: Address of the run.
        leave: See `RehearsedSteps`.
    """
    settings = RehearsalEnvironment.read()
    return RehearsedSteps(environment, settings, leave) if settings.steps else None
