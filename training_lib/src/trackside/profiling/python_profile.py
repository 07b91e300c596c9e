"""Profiles of the Python functions of the training thread, by cProfile or pyinstrument.

The files are those of SageMaker Debugger: `python_stats`, which `pstats` reads, or `python_stats.json` and
`python_stats.html`. Beside the first lies `functions.json`, for readers that must not trust what they read.
"""

from __future__ import annotations

import cProfile
import importlib
import marshal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trackside.profiling.windows import Recording, Write
from trackside.records.machine.function_times import FUNCTIONS, FunctionTime, encode_functions

STATS, STATS_JSON, STATS_HTML = "python_stats", "python_stats.json", "python_stats.html"
INTERVAL_SECONDS = 0.001  # of pyinstrument's samples
_IS_SHARED = sys.version_info >= (3, 12)  # one profiler for all threads


def _off_cpu() -> float:
    return time.perf_counter() - time.thread_time()


_TIMERS: dict[str, Callable[[], float]] = {
    "total_time": time.perf_counter,
    "cpu_time": time.thread_time,
    "off_cpu_time": _off_cpu,
}


def begin_python_profile(profiler: str, timer: str) -> Recording | None:
    """Begin a profile of this thread. Return None while another one is at work, such as the script's own.

    Args:
        profiler: One of `profiling_request.PROFILERS`.
        timer: One of `profiling_request.TIMERS`.

    Raises:
        ImportError: pyinstrument is not installed.
    """
    if _is_profiled():
        return None
    return _Sampled() if profiler == "pyinstrument" else _Counted(timer)


def _is_profiled() -> bool:
    if sys.getprofile() is not None:
        return True
    return sys.version_info >= (3, 12) and sys.monitoring.get_tool(sys.monitoring.PROFILER_ID) is not None


class _Counted:
    """cProfile at work. It makes way for one that the script begins: Python would refuse that, or drop ours."""

    def __init__(self, timer: str) -> None:
        read = _TIMERS.get(timer)
        self._profile: cProfile.Profile | None = cProfile.Profile() if read is None else cProfile.Profile(read)
        self._thread = threading.get_ident()
        self._profile.enable()
        kind: Any = cProfile.Profile
        self._before = vars(kind).get("enable")
        enable = kind.enable

        def make_way(profile: cProfile.Profile, *args: Any, **kwargs: Any) -> None:
            if self._profile is not None and (_IS_SHARED or threading.get_ident() == self._thread):
                self._profile.disable()
                self._profile = None
            enable(profile, *args, **kwargs)

        self._make_way = make_way
        kind.enable = make_way

    def stop(self) -> Write | None:
        """End it; see `Recording`."""
        kind: Any = cProfile.Profile
        if vars(kind).get("enable") is self._make_way:
            if self._before is None:
                del kind.enable
            else:
                kind.enable = self._before
        profile, self._profile = self._profile, None
        current: object = sys.getprofile()
        if profile is None or not (_IS_SHARED or current is profile):
            return None
        profile.disable()
        profile.create_stats()
        stats: Any = vars(profile)["stats"]

        def write(folder: Path) -> None:
            (folder / STATS).write_bytes(marshal.dumps(stats))
            (folder / FUNCTIONS).write_bytes(encode_functions(_functions(stats)))

        return write


def _functions(stats: Any) -> Iterator[FunctionTime]:
    for (file, line, name), (_, calls, own, total, _callers) in stats.items():
        yield FunctionTime(file, line, name, int(calls), float(own), float(total))


class _Sampled:
    """pyinstrument at work."""

    def __init__(self) -> None:
        try:
            pyinstrument: Any = importlib.import_module("pyinstrument")
        except ImportError as error:
            raise ImportError("pyinstrument is not installed; install it, or use the profiler cprofile") from error
        self._profiler = pyinstrument.Profiler(interval=INTERVAL_SECONDS, async_mode="disabled")
        self._profiler.start()

    def stop(self) -> Write | None:
        """End it; see `Recording`."""
        session = self._profiler.stop()

        def write(folder: Path) -> None:
            renderers: Any = importlib.import_module("pyinstrument.renderers")
            (folder / STATS_JSON).write_text(renderers.JSONRenderer().render(session), encoding="utf-8")
            (folder / STATS_HTML).write_text(renderers.HTMLRenderer().render(session), encoding="utf-8")

        return write
