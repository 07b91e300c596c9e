"""The writer's part of detailed profiling: reads requests while the run goes on, and stores the profiles.

A request is the file `profilerconfig.json`: SageMaker's own in a job, else the one beside the run's profiles, which
`trackside profile RUN --steps` writes. It is looked at every second on a local disk.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from trackside.contracts.run.profiling_request import (
    CPROFILE,
    OPERATORS,
    OUTSIDE,
    PYINSTRUMENT,
    PYTHON,
    ProfilingRequest,
    Window,
    read_profiling_request,
)
from trackside.contracts.run_layout import operators_prefix, python_prefix
from trackside.profiling.python_profile import STATS_HTML, STATS_JSON
from trackside.profiling.windows import Finished, ProfilingWindows
from trackside.storage.store import Store

LOOK_SECONDS = 1.0
_SHORT = {
    "pytorch": "pt",
    "tensorflow": "tf",
    "mxnet": "mx",
}  # in the names of files: a trace of PyTorch's ends in .pt.trace.json.gz
TIMED_AHEAD_SECONDS = 2.0  # steps are watched from so long before a window of time


class WindowPart:
    """Hands requests to the windows of one training, and stores what they bring; a `BackgroundPart`.

    Args:
        windows: The windows.
        open_store: Opens the store of the run's profiles.
        worker: Name of the worker.
        framework: The framework of the operators, as in the keys of their files.
        request: The request that the training began with.
        config: Path of a file that may hold another; "" for none.
        started: Called with a request before its windows open.
        start: Returns the number of steps that were made before this process.
        warn: Shows what is wrong with a request.
        wall_clock: Returns seconds since the epoch.
        monotonic: Returns seconds.
    """

    def __init__(
        self,
        windows: ProfilingWindows,
        open_store: Callable[[], Store],
        *,
        worker: str,
        framework: str = "pytorch",
        request: ProfilingRequest,
        config: str,
        started: Callable[[ProfilingRequest], object],
        start: Callable[[], int],
        warn: Callable[[str], object],
        wall_clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._windows, self._open_store, self._worker = windows, open_store, worker
        self._framework = framework
        self._config, self._started, self._start, self._warn = config, started, start, warn
        self._clock, self._monotonic = wall_clock, monotonic
        self._request, self._pending = request, dict[str, Window]()
        self._seen: tuple[int, int, int] | None = None  # of the file: inode, size, nanosecond
        self._text = ""
        self._store: Store | None = None
        self._due_at = 0.0
        self._is_shifted = (request.operators, request.python) == (None, None)
        self._take(request, start=0)  # at once: the first steps may be wanted

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the next look; see `BackgroundPart`."""
        return max(0.0, self._due_at - self._monotonic())

    def flush_if_due(self) -> bool:
        """Look for a request and store profiles, if it is time; see `BackgroundPart`."""
        if self.due_in_seconds:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Look for a request, and store the profiles that have ended; see `BackgroundPart`."""
        self._due_at = self._monotonic() + LOOK_SECONDS
        if not self._is_shifted:
            start = self._start()
            self._is_shifted = True
            if start:
                self._take(self._request, start=start)
        self._look()
        self._hand_over()
        self._send()

    def close(self) -> None:
        """Store the rest; see `BackgroundPart`."""
        self._send()

    def _look(self) -> None:
        if not self._config:
            return
        try:
            status = os.stat(self._config)
        except OSError:
            return
        seen = status.st_ino, status.st_size, status.st_mtime_ns
        if seen == self._seen:
            return
        text = Path(self._config).read_text(encoding="utf-8", errors="replace")
        if text != self._text:  # SageMaker writes the file anew now and then
            request, problems = read_profiling_request(text)
            for problem in problems:
                self._warn(f"{self._config} is not followed: {problem}")
            self._take(request, start=self._start())
        self._seen, self._text, self._is_shifted = seen, text, True

    def _take(self, request: ProfilingRequest, *, start: int) -> None:
        before, self._request = _by_kind(self._request), request
        self._started(request)
        self._pending = {kind: window.shifted(-start) for kind, window in _by_kind(request).items()}
        for kind in before.keys() - self._pending.keys():
            self._windows.open(kind, None)
        self._hand_over()

    def _hand_over(self) -> None:
        for kind, window in list(self._pending.items()):
            if window.starts_at is None or window.starts_at - self._clock() <= TIMED_AHEAD_SECONDS:
                self._windows.open(kind, self._pending.pop(kind))

    def _send(self) -> None:
        while self._windows.finished:
            finished = self._windows.finished[0]
            if self._store is None:
                self._store = self._open_store()
            with tempfile.TemporaryDirectory(prefix="trackside-profile-") as folder:
                finished.write(Path(folder))
                for path in sorted(Path(folder).iterdir()):
                    self._store.put(self._key(finished, path.name), path.read_bytes())
            self._windows.finished.popleft()

    def _key(self, finished: Finished, name: str) -> str:
        first, last = finished.first_step + self._start(), finished.last_step + self._start()
        if finished.kind != OPERATORS:
            of_cprofile = OUTSIDE if finished.kind == OUTSIDE else CPROFILE
            prefix = python_prefix(
                first,
                last,
                framework=self._framework or "python",
                profiler=PYINSTRUMENT if name in {STATS_JSON, STATS_HTML} else of_cprofile,
                worker=self._worker,
                started_at=finished.started_at,
                ended_at=finished.ended_at,
            )
            return f"{prefix}{name}"
        moment = time.strftime("%Y_%m_%d_%H_%M_%S", time.gmtime(finished.started_at))
        hour = time.strftime("%Y%m%d%H", time.gmtime(finished.started_at))
        prefix = operators_prefix(first, framework=self._framework, hour=hour)
        return f"{prefix}plugins/profile/{moment}/{self._worker}.{first}-{last}.{_SHORT[self._framework]}.{name}"


def _by_kind(request: ProfilingRequest) -> dict[str, Window]:
    """Return the windows of a request by their kinds."""
    python = OUTSIDE if request.profiler == OUTSIDE else PYTHON
    windows = {OPERATORS: request.operators, python: request.python}
    return {kind: window for kind, window in windows.items() if window is not None}
