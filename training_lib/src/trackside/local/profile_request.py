"""Requests to profile the next steps of a run on this machine, while it goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.run.profiling_request import CPROFILE, ProfilingRequest, Window
from trackside.contracts.run_layout import PROFILER_CONFIG_KEY, PROFILES
from trackside.speed.performance.details import PYTHON, Detail, read_details
from trackside.storage.open_store import open_store

LOOK_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 180.0


def request_profile(uri: str, steps: int, *, profiler: str = CPROFILE, now: Callable[[], float] = time.time) -> None:
    """Have the training profile its next steps: its operators, and then its Python functions.

    Args:
        uri: The location of the run.
        steps: Number of steps for each of both.
        profiler: The profiler of Python functions, of `profiling_request.PROFILERS`.
        now: Returns seconds since the epoch.

    Raises:
        ConfigurationError: The run is not on this machine's disk.
    """
    if "://" in uri:
        what = "is not on a local disk, so that its training does not see a request from here."
        fix = "In a job of SageMaker, UpdateTrainingJob with a ProfilerConfig names steps."
        raise ConfigurationError([Problem(uri, what, fix)], subject="The profile")
    window = Window(steps=steps)
    text = ProfilingRequest(operators=window, python=window, profiler=profiler).to_json(requested_at=now())
    folder = Path(uri, PROFILES)
    folder.mkdir(exist_ok=True)
    partial = folder / f"{PROFILER_CONFIG_KEY}.{os.getpid()}.tmp"
    partial.write_text(text, encoding="utf-8")
    partial.replace(folder / PROFILER_CONFIG_KEY)


def wait_for_profile(
    uri: str,
    before: list[Detail],
    *,
    has_ended: Callable[[], bool],
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> bool:
    """Wait until a profile of Python functions, the last kind, is newer than before. Return False if none came.

    Args:
        uri: The location of the run.
        before: Profiles before the request.
        has_ended: Returns True once the training has ended.
        monotonic: Returns seconds.
        sleep: Waits so many seconds.
    """
    store = open_store(f"{uri}/{PROFILES}")
    known = {(one.kind, one.worker, one.file) for one in before}
    until = monotonic() + LONGEST_WAIT_SECONDS
    while monotonic() < until:
        is_over = has_ended()
        news = [one for one in read_details(store) if (one.kind, one.worker, one.file) not in known]
        if any(one.kind == PYTHON for one in news):  # operators come first, if the framework has any
            return True
        if is_over:
            return bool(news)
        sleep(LOOK_SECONDS)
    return False
