"""The runs that somebody looks at: each is opened once, and read again only when it has changed."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run_layout import RunLocation
from trackside.runs.live_run import LiveRunReader
from trackside.runs.run_folder import RunState, read_record
from trackside.speed.performance.reading import measured_workers
from trackside.speed.performance.verdict import judged_workers
from trackside.trial.trial import Trial, open_trial
from trackside.views.dashboard.run_list import RunList
from trackside.views.report.gathered import ReportData, Speed, gather
from trackside.views.report.incident import Incident, incidents
from trackside.views.report.layers import FIRST_LAYERS, LayerChoice

MOST_OPEN = 16  # runs; one that nobody looked at for longest is closed first
MOST_PAGES = 4  # windows of one run that are kept
LOCAL_SECONDS, REMOTE_SECONDS = 1.0, 5.0
SPEED_SECONDS = 30.0  # age from which on the speed of a run that trains is judged again, and at least so much that
SPEED_SHARE = 0.05  # judging takes this share of the time at most

Window = tuple[int | None, int | None]


class WatchedRun:
    """One run that somebody looks at. Safe for several threads.

    Args:
        uri: Its location.
        runs: The list in which it was found.
    """

    def __init__(self, uri: str, runs: RunList) -> None:
        self.uri = uri
        self.lock = threading.Lock()
        self.trial: Trial = open_trial(uri)
        self.pause = REMOTE_SECONDS if runs.is_remote else LOCAL_SECONDS
        self._stores = runs.stores
        self._reader = LiveRunReader(self.trial, clock=time.time, stores=runs.stores)
        self._looked_at = -1e9
        self._revision, self._state = "", RunState.OPEN
        self._pages: OrderedDict[tuple[str, Window, bool, LayerChoice], ReportData] = OrderedDict()
        self._speed: Speed = ()
        self._began: tuple[Incident, ...] = ()
        self._began_of: tuple[str, ...] | None = None
        self._began_until = -1e9
        self._speed_until, self._speed_state = -1e9, RunState.OPEN

    @property
    def name(self) -> str:
        """The run's name."""
        return RunLocation(self.uri).name

    def revision(self) -> str:
        """Return a text that changes with the run, at most as old as `pause`. Errors: those of the store."""
        with self.lock:
            return self._look()

    def data(
        self,
        window: Window,
        *,
        is_by_time: bool = False,
        layers: LayerChoice = FIRST_LAYERS,
        begin_stage: Callable[[str], None] = lambda _: None,
    ) -> tuple[str, ReportData]:
        """Return the revision, and the content of a report.

        Args:
            window: First and last step.
            is_by_time: True for charts over wall time.
            layers: The layers to show.
            begin_stage: Called with the name of each stage of reading.

        Errors: those of `gather`.
        """
        with self.lock:
            key = (self._look(), window, is_by_time, layers)
            if key not in self._pages:
                self._pages[key] = gather(
                    self.uri,
                    self.trial,
                    clock=time.time,
                    window=window,
                    is_by_time=is_by_time,
                    layers=layers,
                    begin_stage=begin_stage,
                    stores=self._stores,
                    speed=self._judged_speed,
                    began=self._known_incidents,
                )
                self.trial.parts.columns.trim()
                self.trial.parts.steps.trim()
                while len(self._pages) > MOST_PAGES:
                    self._pages.popitem(last=False)
            return key[0], self._pages[key]

    def _judged_speed(self, uri: str) -> Speed:
        """Return the verdict on the speed. A long run has a million numbers to read for it, so it may be older."""
        began = time.monotonic()
        if began >= self._speed_until or self._state is not self._speed_state:
            self._speed, self._speed_state = judged_workers(measured_workers(uri, self.trial)), self._state
            took = time.monotonic() - began
            self._speed_until = began + max(SPEED_SECONDS, took / SPEED_SHARE)
        return self._speed

    def _known_incidents(self, trial: Trial, problems: Sequence[IssueGroup]) -> tuple[Incident, ...]:
        """Return how the problems began; as known before, while they are the same and it is not long ago."""
        now = time.monotonic()
        same = tuple(issue.verdict_id for group in problems for issue in group.standing)
        if same != self._began_of or now >= self._began_until:
            self._began, self._began_of = incidents(trial, problems), same
            took = time.monotonic() - now
            self._began_until = now + max(self.pause, took / SPEED_SHARE)
        return self._began

    def _look(self) -> str:
        if time.monotonic() - self._looked_at >= self.pause:
            self._state, verdicts = self._reader.state_and_verdicts()
            count = self.trial.parts.steps.count()
            mark = f"{self.trial.recorded_through} {count} {self._state.value} {verdicts is None} "
            self._revision = hashlib.sha256(mark.encode() + (verdicts or b"")).hexdigest()[:16]
            self._looked_at = time.monotonic()
        return self._revision


class WatchedRuns:
    """Opens the runs of a list on first use, and closes those that nobody looks at."""

    def __init__(self, runs: RunList) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, float], WatchedRun] = OrderedDict()

    def get(self, name: str) -> WatchedRun:
        """Return a run by its name. Errors: `RunNotFoundError`, and those of `open_trial`."""
        uri = self._runs.place(name)
        record = None if self._runs.is_remote else read_record(Path(uri))
        life = (uri, record.started_at if record else 0.0)  # a folder may be removed, and made again
        with self._lock:
            if life not in self._open:
                self._open[life] = WatchedRun(uri, self._runs)
                while len(self._open) > MOST_OPEN:
                    self._open.popitem(last=False)
            self._open.move_to_end(life)
            return self._open[life]
