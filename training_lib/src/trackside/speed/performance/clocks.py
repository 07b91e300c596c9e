"""Differences between the clocks of machines, found from the steps that they ended together.

Ranks that average gradients end each step together. So the typical difference of the ends of their equal steps is the
difference of their clocks. Where it is not steady, or small beside a step, nothing is concluded from it: the ranks do
not train together, or one of them is late by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import median

FEWEST_STEPS = 8
LEAST_SHARE = 0.25  # of a step: a smaller difference may be a rank's own
STEADY_SHARE = 0.1  # of a step: the typical deviation of one difference from the others


def clock_offsets(ends: Mapping[str, Mapping[int, float]], machines: Mapping[str, str]) -> dict[str, float]:
    """Return the time by which the clock of each worker is ahead of the first machine's; 0 where that is not known.

    Args:
        ends: The moment at which each worker ended each step, by its own clock, in any unit.
        machines: The machine of each worker. Those of one machine have one clock.
    """
    by_machine: dict[str, dict[int, list[float]]] = {}
    for worker in sorted(ends):
        steps = by_machine.setdefault(machines.get(worker, worker), {})
        for step, moment in ends[worker].items():
            steps.setdefault(step, []).append(moment)
    clocks = {name: {step: median(moments) for step, moments in steps.items()} for name, steps in by_machine.items()}
    first = next(iter(clocks.values()), {})
    offsets = {name: _offset(first, clock) for name, clock in clocks.items()}
    return {worker: offsets[machines.get(worker, worker)] for worker in ends}


def _offset(first: Mapping[int, float], other: Mapping[int, float]) -> float:
    steps = sorted(first.keys() & other.keys())
    if len(steps) < FEWEST_STEPS:
        return 0.0
    differences = [other[step] - first[step] for step in steps]
    offset = median(differences)
    deviation = median(abs(difference - offset) for difference in differences)
    length = median((first[later] - first[step]) / (later - step) for step, later in pairwise(steps))
    is_clear = deviation <= STEADY_SHARE * length and abs(offset) > LEAST_SHARE * length
    return offset if is_clear else 0.0
