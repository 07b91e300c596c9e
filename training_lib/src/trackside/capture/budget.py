"""How often the always-on statistics may be taken: their own time on the training thread against that of the step.

    started = budget.clock()
    ...                                       # take the norms
    budget.spend(NORMS, started)
    share = budget.end_step()                 # of this step; every so often the intervals are thought over

Nothing is estimated from the model's size: what a tier costs is what it has cost on this machine, lately. Medians are
taken, so that an evaluation between two steps or a moment in which the scheduler ran somebody else changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

# What time is spent on. What every step has: the loss and the learning rate; rows are made of several steps at once.
EVERY_STEP, NORMS, DEAR, ROWS = range(4)

LONGEST_NORMS_INTERVAL = 64
LONGEST_DEAR_INTERVAL = 4096
_STEPS_AT_ONCE = 16  # between two looks
# Of the budget, for each tier, whatever else is spent: where what every step has is too much already, as in steps of a
# millisecond, thinning saves next to nothing more, and rules would be blind for thousands of steps.
_LEAST_SHARE = 1 / 8
_ROOM_TO_GROW = (
    0.75  # of the budget: an interval is halved only where the result stays below, so that it does not swing
)


@dataclass(frozen=True)
class Costs:
    """Seconds: of what every step has, of taking the norms once, of the dear tier once, and of a step without us."""

    every_step: float
    norms: float
    dear: float
    step: float

    def of(self, intervals: Intervals) -> float:
        """Seconds a step, on average, if the tiers are taken so often."""
        return self.every_step + self.norms / intervals.norms + self.dear / intervals.dear


@dataclass(frozen=True)
class Intervals:
    """At every how many-th step a tier is taken. 1 and 1 is all of it at every step."""

    norms: int = 1
    dear: int = 1


def affordable(costs: Costs, share: float, *, densest: Intervals = Intervals()) -> Intervals:
    """The smallest intervals, `densest` or that doubled as often as need be, whose cost stays within `share` of a step.

    The dear tier gives way first. What every step has is never thinned; each tier may always cost an eighth of `share`.
    """
    budget = share * costs.step
    least = budget * _LEAST_SHARE
    room = budget - costs.every_step
    norms = _smallest_interval(costs.norms, max(room, least), densest.norms, LONGEST_NORMS_INTERVAL)
    room -= costs.norms / norms
    return Intervals(norms, _smallest_interval(costs.dear, max(room, least), densest.dear, LONGEST_DEAR_INTERVAL))


def next_intervals(current: Intervals, costs: Costs, share: float, *, densest: Intervals = Intervals()) -> Intervals:
    """What follows on `current`: sparser once the budget asks for it, denser only where there is room to spare."""
    most = affordable(costs, share, densest=densest)
    at_ease = affordable(costs, share * _ROOM_TO_GROW, densest=densest)
    if current.norms < most.norms or current.dear < most.dear:
        return most
    is_denser = costs.of(at_ease) > costs.of(current)
    return at_ease if is_denser else current


class OverheadBudget:
    """Measures what we take of the training thread, and says how often each tier may be taken.

    `share` is what may be spent, of the time that a step takes without us. No tier is taken more often than `densest`
    says, which is also what holds until the first look, after 16 steps.
    """

    def __init__(
        self,
        share: float,
        *,
        densest: Intervals = Intervals(),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.share, self.clock = share, clock
        self.intervals = self._densest = densest
        self._costs: Costs | None = None
        self._spent = [0.0, 0.0, 0.0, 0.0]
        self._window: list[tuple[float, ...]] = []
        self.ended_at = 0.0  # the last step
        self._is_first = True

    @property
    def costs(self) -> Costs | None:
        """As measured at the last look; None before the first."""
        return self._costs

    def spend(self, kind: int, started: float) -> float:
        """Notes that the time since `started` went into `kind`. The time now, from which the next may be counted."""
        now = self.clock()
        self._spent[kind] += now - started
        return now

    def end_step(self) -> float | None:
        """Closes the step: what it spent, as a share of what it took without us. None where that is not known (the
        first step, a clock that stands still)."""
        now = self.clock()
        spent, self._spent = self._spent, [0.0, 0.0, 0.0, 0.0]
        began, self.ended_at = self.ended_at, now
        if self._is_first:  # it begins before we are there, and is never like the others
            self._is_first = False
            return None
        ours = sum(spent)
        theirs = now - began - ours
        self._window.append((*spent, theirs))
        if len(self._window) == _STEPS_AT_ONCE:
            self._think()
        return ours / theirs if theirs > 0 else None

    def _think(self) -> None:
        self._costs = _costs(self._window, self._costs)
        self._window = []
        if self._costs.step > 0:
            self.intervals = next_intervals(self.intervals, self._costs, self.share, densest=self._densest)


def _costs(window: Sequence[tuple[float, ...]], before: Costs | None) -> Costs:
    """The medians of a few steps, as `end_step` noted them; of what was not taken, those of `before`."""
    every_step, norms, dear, rows, steps = zip(*window, strict=True)
    return Costs(
        every_step=median(every_step) + fmean(rows),
        norms=_median_taken(norms) or (before.norms if before else 0.0),
        dear=_median_taken(dear) or (before.dear if before else 0.0),
        step=median(steps),
    )


def _median_taken(seconds: Sequence[float]) -> float:
    """Where it was taken; 0 for never."""
    taken = [spent for spent in seconds if spent > 0]
    return median(taken) if taken else 0.0


def _smallest_interval(cost: float, room: float, shortest: int, longest: int) -> int:
    interval = shortest
    while interval < longest and cost / interval > room:
        interval *= 2
    return interval
