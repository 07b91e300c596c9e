"""The reports of a training that is not put back here, but started again by `trackside run`."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable

from trackside.capture.session import RunSession
from trackside.contracts.errors import TracksideError
from trackside.contracts.run.restart import ENDED_PREFIX, RESTART, Report
from trackside.contracts.run_layout import worker_name
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.sharding.ranks import rank_of_this_process
from trackside.rescue.drawn_batches import DrawnBatches
from trackside.rescue.fault_course import FaultCourse
from trackside.rescue.health import Health
from trackside.rescue.skipping import marks_in, order_of_environment
from trackside.rescue.standing import StandingIssues


class FaultReports:
    """The reports of this process.

    Attributes:
        batches: Notes the rows of batches, and replaces those that are left out.

    Args:
        session: Returns the run.
        fuse: Keeps errors of ours from the script.
        steps: Returns the number of training steps that have ended.
        last: Returns the report at the end of the process, if any.
    """

    def __init__(
        self,
        session: Callable[[], RunSession],
        fuse: Fuse,
        *,
        steps: Callable[[], int],
        last: Callable[[], Report | None],
    ) -> None:
        self._session, self._last = session, last
        self._order = order_of_environment()
        self.batches = DrawnBatches(steps, fuse, self._order)
        self._process = os.getpid()
        guard = session().guard
        atexit.register(lambda: guard.attempt("the last report of a rescue", self._process_ends))

    def course(self, health: Health, standing: StandingIssues) -> FaultCourse:
        """Return the course of a training. The first one alone was started for a fault.

        Args:
            health: Judges its numbers.
            standing: The issues that rules have found.
        """
        order, self._order = self._order, None
        return FaultCourse(
            health,
            standing,
            order=order,
            report=self._store,
            rows=self.batches.fetched_in,
            marks=marks_in,
            start=lambda: self._session().start_position().step,
        )

    def why_not_together(self, ranks: int) -> str:
        """Return why several ranks are not started again together, a clause; "" if they are."""
        here = self._session().environment.local_world_size
        return "its ranks are on several machines, which are not started again together" if 0 < here < ranks else ""

    def _process_ends(self) -> None:
        report = self._last() if self._process == os.getpid() else None
        if report is not None:
            self._store(report, prefix=ENDED_PREFIX)

    def _store(self, report: Report, *, prefix: str = "") -> None:
        session = self._session()
        worker = worker_name(rank_of_this_process(session.environment).number)
        try:
            session.open_folder(RESTART).put(f"{prefix}{worker}.json", report.to_json().encode())
        except (TracksideError, OSError) as error:
            session.guard.warn_once("rescue report", "what a rescue needs is not stored: %s.", error)
