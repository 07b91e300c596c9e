"""Count the steps that could not be saved, and report them in the run."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable

from trackside.contracts import run_layout
from trackside.contracts.errors import RecordError
from trackside.records.capture_report import CaptureReport, LostStep, encode_report, read_report
from trackside.storage.store import Store

REPORT_EVERY_SECONDS = 10.0
MOST_LOST_NOTED = 1000


class LostSteps:
    """The saved and lost steps of one worker. `add` may be called by any thread, all else by the writer's.

    Attributes:
        saved: The number of saved steps; the owner counts it up.
    """

    def __init__(self, worker: str, *, clock: Callable[[], float]) -> None:
        self._worker, self._clock = worker, clock
        self.saved = 0
        self._count = self._reported = 0
        self._noted: deque[LostStep] = deque()
        self._reported_at = float("-inf")
        self._earlier: CaptureReport | None = None  # not read yet

    def add(self, step: int, reason: str) -> None:
        """Count a lost step; the first thousand are kept with their reason."""
        self._count += 1
        if len(self._noted) < MOST_LOST_NOTED:
            self._noted.append(LostStep(step, reason))

    def report(self, store: Store, *, first_step: int, is_last: bool = False) -> None:
        """Store the report if steps were lost since the last one, at most every ten seconds.

        A failure is passed over: a later call tries again.

        Args:
            store: The tensors of the run.
            first_step: The number that the process's step 0 has in the run.
            is_last: The run ends: store it now.
        """
        count = self._count  # another thread may raise it meanwhile
        has_news = count != self._reported or (is_last and count)
        is_due = is_last or self._clock() - self._reported_at >= REPORT_EVERY_SECONDS
        if not is_due or not has_news:
            return
        self._reported_at = self._clock()
        lost = tuple(LostStep(one.step + first_step, one.why) for one in tuple(self._noted))
        with contextlib.suppress(OSError):
            if self._earlier is None:
                self._earlier = self._read_earlier(store)
            report = self._earlier.followed_by(CaptureReport(self.saved, count, lost))
            store.put(run_layout.capture_report_key(self._worker), encode_report(report))
            self._reported = count

    def _read_earlier(self, store: Store) -> CaptureReport:
        try:
            return read_report(store, self._worker)
        except RecordError:  # it was damaged before, and its content is lost already
            return CaptureReport(0, 0)
