"""Time limits of rules, after which the evaluator continues without them."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RuleLimits:
    """Time limits of rules, in seconds.

    A rule gets a thread of its own if its code does not ship with Trackside or if it was slow at
    three steps.

    quick_seconds  processor time for one step above which a rule was slow
    wait_seconds   waiting time in one poll, for all threads together, so that quick rules do not fall behind
    step_seconds   time at one step, reading the run not counted, after which a rule is abandoned
    end_seconds    time after the end of the run, with all else judged, after which rules that are behind are abandoned
    """

    quick_seconds: float = 0.25
    wait_seconds: float = 0.25
    step_seconds: float = 120.0
    end_seconds: float = 300.0


NO_LIMITS = RuleLimits(quick_seconds=math.inf, wait_seconds=math.inf, end_seconds=math.inf)
"""For a complete run: nobody waits for a verdict, and each step is judged by all rules before the next."""
