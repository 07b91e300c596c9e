"""Processor time of processes, by the kernel."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_USER, _SYSTEM = 11, 12  # the places in a line of /proc/PID/stat, behind the name


def processor_seconds(pid: int) -> float:
    """Return the user and system seconds of all threads of a process, to a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> Iterator[int]:
    """Yield the living processes that a process has started, and those below them."""
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):
                below = [*map(int, task.read_text().split())]
                waiting += below
                yield from below
