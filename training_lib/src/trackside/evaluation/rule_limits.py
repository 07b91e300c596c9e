"""How long rules may take before the evaluator goes on without them."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class RuleLimits:
    """All in seconds.

    A rule that may be slow is asked in a thread of its own, where it goes on at its own pace: each one whose code does
    not ship with Trackside, and each that has used more than `quick_seconds` of the processor at three steps.
    `wait_seconds` is how long the evaluator waits for them, in one sweep and for all together: quick ones stay abreast.

    A rule that is at one step for longer than `step_seconds`, reading the run not counted, is given up. `end_seconds`
    after the run has ended and everything else is judged, those that are still behind are given up too.
    """

    quick_seconds: float = 0.25
    wait_seconds: float = 0.25
    step_seconds: float = 120.0
    end_seconds: float = 300.0


AT_LEISURE = RuleLimits(quick_seconds=math.inf, wait_seconds=math.inf, end_seconds=math.inf)
"""For a run that is there already: nobody waits for a verdict, and each step is judged by all before the next."""
