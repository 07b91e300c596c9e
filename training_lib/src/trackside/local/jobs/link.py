"""The link from a run to its job: requests to the scheduler in a thread, so that the watching never waits for one."""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from trackside.contracts.verdict import Verdict
from trackside.local.jobs.scheduler import JobError, JobLeave, Scheduler
from trackside.local.jobs.step_signals import StepSignals
from trackside.local.process_table import started_with

END_SECONDS = 60.0  # for the last requests of a job that is to be ended
LAST_REPORT_SECONDS = 20.0  # for those of any other, whose machines wait meanwhile
MOST_WAITING = 100  # requests; a scheduler that is down must not fill our memory


class JobLink:
    """The job of one run. No method raises, and none but `finish` waits.

    Args:
        scheduler: The scheduler of the job; None for a run that is part of none.
        leave: What may be done with the job.
        run: The folder of the run.
    """

    def __init__(self, scheduler: Scheduler | None, leave: JobLeave, run: Path) -> None:
        self._scheduler, self._leave, self._run = scheduler, leave, run
        self._requests: queue.Queue[Callable[[], object] | None] = queue.Queue(MOST_WAITING)
        self._problems: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._sigterm_is_due = threading.Event()
        self._is_stopped = False
        self._signals = StepSignals() if scheduler is not None and scheduler.signals_every_process else None

    def report(self, verdict: Verdict) -> None:
        """Show a verdict in the job, if that is permitted. After a stop its reason stays to be read."""
        if (scheduler := self._scheduler) is not None and self._leave.reports and not self._is_stopped:
            self._request(lambda: scheduler.report(verdict, self._run))

    def end_training(self) -> None:
        """Send SIGTERM to what the scheduler started. Ask `is_sigterm_due` if the caller has to send its own."""
        self._signal("TERM", at_failure=self._sigterm_is_due.set)

    def is_sigterm_due(self) -> bool:
        """Return True, once, if the scheduler started no part of the training, or could not signal it."""
        is_due = self._sigterm_is_due.is_set()
        self._sigterm_is_due.clear()
        return is_due

    def has_reached_training(self, number: signal.Signals) -> bool:
        """Return True if the scheduler has sent the training the signal that this process received."""
        return self._signals is not None and self._signals.reached_all(number)

    def withhold(self, reason: str) -> None:
        """Have the scheduler start the job no more, if that is permitted.

        Args:
            reason: A clause for the owner of the job.
        """
        self._is_stopped = True
        if (scheduler := self._scheduler) is not None and self._leave is JobLeave.STOP:
            self._request(lambda: scheduler.withhold(reason))

    def kill(self) -> None:
        """Send SIGKILL to what the scheduler started."""
        self._signal("KILL", at_failure=lambda: None)

    def end(self, reason: str) -> None:
        """End the job, if that is permitted: its training was stopped, and the run is judged."""
        if (scheduler := self._scheduler) is not None and self._leave is JobLeave.STOP:
            self._request(lambda: scheduler.end(reason))

    def training_ended(self) -> None:
        """Note that no further signal is for the training."""
        if self._signals is not None:
            self._signals.close()
            self._signals = None

    def news(self) -> list[str]:
        """Return what the scheduler refused since the last call, each as a sentence."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._problems.get_nowait())
        return found

    def finish(self, *, was_stopped: bool) -> None:
        """Wait until all requests are made: for a job that is to be ended long enough for that, else shortly."""
        if self._thread is None:
            return
        seconds = END_SECONDS if was_stopped else LAST_REPORT_SECONDS
        with contextlib.suppress(queue.Full):
            self._requests.put_nowait(None)
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._problems.put(f"The job: its scheduler has not answered within {seconds:g} s.")

    def _signal(self, name: str, *, at_failure: Callable[[], object]) -> None:
        """Signal in a thread of its own: a stop waits for no report."""
        scheduler = self._scheduler
        if scheduler is None:
            at_failure()
            return

        def act() -> None:
            if not scheduler.signal_tasks(name, started_with("TRACKSIDE_RUN", str(self._run))):
                at_failure()

        threading.Thread(target=self._attempt, args=(act, at_failure), name="trackside-job-end", daemon=True).start()

    def _request(self, act: Callable[[], object]) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="trackside-job", daemon=True)
            self._thread.start()
        with contextlib.suppress(queue.Full):
            self._requests.put_nowait(act)

    def _attempt(self, act: Callable[[], object], at_failure: Callable[[], object] = lambda: None) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - whatever a scheduler answers, the run goes on
            kind = "" if isinstance(error, JobError) else f"{type(error).__name__}: "
            self._problems.put(f"The job: {kind}{error}")
            at_failure()

    def _work(self) -> None:
        while (act := self._requests.get()) is not None:
            self._attempt(act)
