"""A training of several processes, one after the other: each is ended at a fault that another start may cure."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

from trackside.contracts.run.rescue import RescueState
from trackside.local.training_process import TrainingProcess
from trackside.rescue.restarting.restarts import Plan, Restarts

_logger = logging.getLogger(__name__)


class _Phase(Enum):
    RUNNING = "running"
    ENDING = "ending"  # the process is to end, and another one follows
    LAST = "last"  # no other process follows


class RestartedTraining:
    """A command that may be started again. It stands in the place of a `TrainingProcess`.

    Args:
        start: Starts the command, with further variables.
        restarts: Decides.
        grace_seconds: Time between SIGTERM and SIGKILL.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        start: Callable[[dict[str, str]], TrainingProcess],
        restarts: Restarts,
        *,
        grace_seconds: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._start, self._restarts = start, restarts
        self._grace_seconds, self._monotonic = grace_seconds, monotonic
        self._phase = _Phase.RUNNING
        self._plan: Plan | None = None
        self._kill_at, self._has_failed = 0.0, False
        self._guarded(restarts.begin)
        self._process = start(restarts.variables())

    @property
    def shares_terminal(self) -> bool:
        return self._process.shares_terminal

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_deciding(self) -> bool:
        """True while it is decided whether a fault is answered by a start, and until that is made."""
        return self._is_to_follow()

    def poll(self) -> int | None:
        """Return None while it runs, or is about to be started again; then its exit code, or -n for signal n."""
        status = self._process.poll()
        if self._phase is _Phase.LAST:
            return status
        if status and not self._has_failed:
            self._has_failed = True
            self._restarts.process_failed()
        self._guarded(self._go_on)
        return None if self._is_to_follow() else self._process.poll()

    def _is_to_follow(self) -> bool:
        return self._phase is _Phase.ENDING or (self._phase is _Phase.RUNNING and self._waits())

    def pass_on(self, number: signal.Signals) -> None:
        """Send the command a signal that `trackside run` received. It is not started again after one."""
        self.leave()
        self._process.pass_on(number)

    def leave(self) -> None:
        """Start no other process from here on."""
        self._phase = _Phase.LAST

    def request_end(self) -> None:
        """Send SIGTERM to the command and its process group, and start no other."""
        self.leave()
        self._process.request_end()

    def is_alive(self) -> bool:
        """Return True while any process of the family runs."""
        return self._process.is_alive()

    def kill(self) -> None:
        """Send SIGKILL to the whole family, and start no other process."""
        self.leave()
        self._process.kill()

    def _waits(self) -> bool:
        """Return True if the process has ended, and it is not decided yet whether another follows."""
        return not self._restarts.is_over and (self._restarts.has_fault() or self._restarts.may_have_fault)

    def _go_on(self) -> None:
        if self._phase is _Phase.ENDING:
            self._end()
        elif self._restarts.has_fault():
            self._plan = self._restarts.plan()
            if self._plan is not None:
                self._phase = _Phase.ENDING
                self._kill_at = self._monotonic() + self._grace_seconds
                self._process.request_end()

    def _end(self) -> None:
        if self._process.is_alive():
            if self._monotonic() >= self._kill_at:
                self._process.kill()
            return
        plan, self._plan, self._phase = self._plan, None, _Phase.RUNNING
        if plan is not None:
            self._guarded(lambda: self._restarts.carry_out(plan))  # if it fails, the script resumes as it can
        self._process, self._has_failed = self._start(self._restarts.variables()), False

    def _guarded(self, act: Callable[[], object]) -> None:
        """Call `act`. After a failure of ours the training goes on, or has ended, as without us."""
        try:
            act()
        except Exception as error:  # the training must outlive any mistake of ours
            self.leave()
            _logger.debug("Starting again failed", exc_info=error)
            with suppress(OSError):
                why = f"a start from a checkpoint failed: {type(error).__name__}: {error}"
                self._restarts.end(RescueState.OFF, why)
