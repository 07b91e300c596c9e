"""Requests to profile the next steps of a run on this machine, while it goes on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.run.profiling_request import CPROFILE, ProfilingRequest, Window
from trackside.contracts.run_layout import PROFILER_CONFIG_KEY, PROFILES


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
