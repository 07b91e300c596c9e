"""Limits of rules in time and memory, after which the evaluator continues without them."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from pathlib import Path

LEAST_MEMORY_BYTES = 2**30  # some libraries that rules import take half of it


def _half_of_the_memory() -> int:
    """Return half of the memory of this machine or container, at least `LEAST_MEMORY_BYTES`."""
    size_bytes = 8 * 2**30
    with contextlib.suppress(AttributeError, OSError, ValueError):  # where nobody says how much there is
        size_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):  # "max": no limit
        size_bytes = min(size_bytes, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return max(size_bytes // 2, LEAST_MEMORY_BYTES)


@dataclass(frozen=True)
class RuleLimits:
    """Limits of rules, in seconds and bytes.

    A rule gets a thread of its own if its code does not ship with Trackside or if it was slow at
    three steps. A rule from a file gets a process, too.

    quick_seconds  processor time for one step above which a rule was slow
    wait_seconds   waiting time in one poll, for all threads together, so that quick rules do not fall behind
    step_seconds   time at one step, reading the run not counted, after which a rule is abandoned
    end_seconds    time after the end of the run, with all else judged, after which rules that are behind are abandoned
    memory_bytes   memory of a rule from a file, beyond which it fails
    """

    quick_seconds: float = 0.25
    wait_seconds: float = 0.25
    step_seconds: float = 120.0
    end_seconds: float = 300.0
    memory_bytes: int = _half_of_the_memory()


NO_LIMITS = RuleLimits(quick_seconds=math.inf, wait_seconds=math.inf, end_seconds=math.inf)
"""For a complete run: nobody waits for a verdict, and each step is judged by all rules before the next."""
