"""How long a program takes to start on this machine, as busy as it is: the measure of every time limit."""

from __future__ import annotations

import functools
import subprocess
import sys
import time

LEAST_LIMIT_SECONDS = 20.0
"""For what takes equally long on every machine: pauses between two looks, and before something is tried again."""
MOST_STARTS = 200.0
"""The usual limit, in starts of a program that imports boto3: it makes one of 50 to 100 s on an idle machine."""


@functools.cache
def seconds_to_start(module: str = "boto3") -> float:
    """Start this Python, import `module`, and return the seconds that took. Measured once in a process."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.monotonic() - began


def limit_seconds(starts: float, *, start_seconds: float) -> float:
    """The time limit of something that takes less than `starts` starts of a program."""
    return max(LEAST_LIMIT_SECONDS, starts * start_seconds)


def is_late(seconds: float, *, starts: float = MOST_STARTS) -> bool:
    """Return True if something that takes less than `starts` starts of a program is overdue after `seconds`.

    The machine is measured when that becomes of interest, so waits that end soon cost nothing.
    """
    return seconds > LEAST_LIMIT_SECONDS and seconds > starts * seconds_to_start()
