"""Intervals of the always-on statistics: their time on the training thread against the time of the step.

    started = budget.clock()
    ...                                       # take the norms
    budget.spend(NORMS, started)
    share = budget.end_step()                 # of this step; every so often the intervals are computed again

Nothing is estimated from the model's size: the cost of a tier is its measured cost on this machine, lately. Medians are
taken, of a tier that is rarely measured over its last samples, and one new sample can at most double its interval. So a
validation between two steps, or a moment in which the scheduler ran another process, changes next to nothing.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, median_low

# What time is spent on. What every step has: the loss and the learning rate; rows are made of several steps at once.
EVERY_STEP, NORMS, DEAR, ROWS, UPDATES = range(5)

LONGEST_NORMS_INTERVAL = 64
LONGEST_UPDATES_INTERVAL = 64
LONGEST_DEAR_INTERVAL = 4096
_STEPS_AT_ONCE = 16  # between two looks
_SAMPLES = 5  # the last ones of a tier, whose median counts: an interruption is one of them
_ENOUGH_SAMPLES = 3  # of a tier since the last look, to thin it as far as its cost asks
# Of the budget, for each tier, whatever else is spent: where what every step has is too much already, as in steps of a
# millisecond, thinning saves next to nothing more, and rules would be blind for thousands of steps.
_LEAST_SHARE = 1 / 8
_ROOM_TO_GROW = (
    0.75  # of the budget: an interval is halved only where the result stays below, so that it does not swing
)


@dataclass(frozen=True)
class Costs:
    """Measured costs, in seconds.

    - `every_step`: the part that every step has
    - `norms`: taking the norms once
    - `dear`: taking the dear tier once
    - `step`: a step without our part
    - `updates`: measuring the size of the update once
    """

    every_step: float
    norms: float
    dear: float
    step: float
    updates: float = 0.0

    def of(self, intervals: Intervals) -> float:
        """Return the average cost of a step at these intervals, in seconds."""
        thinned = self.updates / intervals.updates + self.norms / intervals.norms + self.dear / intervals.dear
        return self.every_step + thinned


@dataclass(frozen=True)
class Intervals:
    """Intervals of the two tiers and of the size of the update, in steps. All 1: everything at every step."""

    norms: int = 1
    dear: int = 1
    updates: int = 1

    def denser(self, other: Intervals) -> Intervals:
        """Return the shorter interval of each tier."""
        return Intervals(min(self.norms, other.norms), min(self.dear, other.dear), min(self.updates, other.updates))


def affordable(costs: Costs, share: float, *, densest: Intervals = Intervals()) -> Intervals:
    """Return the smallest intervals with a cost of at most `share` of a step: `densest`, doubled as often as needed.

    The dear tier is thinned first, then the norms, then the size of the update. The part that every step has is never
    thinned. Each of them may always cost an eighth of `share`.
    """
    budget = share * costs.step
    least = budget * _LEAST_SHARE
    room = budget - costs.every_step
    updates = _smallest_interval(costs.updates, max(room, least), densest.updates, LONGEST_UPDATES_INTERVAL)
    room -= costs.updates / updates
    norms = _smallest_interval(costs.norms, max(room, least), densest.norms, LONGEST_NORMS_INTERVAL)
    room -= costs.norms / norms
    dear = _smallest_interval(costs.dear, max(room, least), densest.dear, LONGEST_DEAR_INTERVAL)
    return Intervals(norms, dear, updates)


def next_intervals(
    current: Intervals,
    costs: Costs,
    share: float,
    *,
    densest: Intervals = Intervals(),
    sparsest: Intervals | None = None,
) -> Intervals:
    """Return the intervals after `current`: sparser if the budget demands it, denser only with room to spare.

    None becomes sparser than `sparsest`, what the samples at hand justify.
    """
    most = affordable(costs, share, densest=densest)
    at_ease = affordable(costs, share * _ROOM_TO_GROW, densest=densest)
    if current.norms < most.norms or current.dear < most.dear or current.updates < most.updates:
        return most.denser(sparsest) if sparsest else most
    is_denser = costs.of(at_ease) > costs.of(current)
    return at_ease if is_denser else current


class OverheadBudget:
    """The budget of our time on the training thread: measures it, and sets the intervals of the tiers.

    - `share`: the part of a step's own time that may be spent
    - `densest`: the shortest intervals; they also hold until the first measurement, after 16 steps
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
        self._spent = [0.0, 0.0, 0.0, 0.0, 0.0]
        self._window: list[tuple[float, ...]] = []
        self._samples = {kind: deque[float](maxlen=_SAMPLES) for kind in (NORMS, DEAR, UPDATES)}
        self._rows: deque[float] = deque(maxlen=_SAMPLES)  # the mean of each window
        self.ended_at = 0.0  # the last step
        self._is_first = True

    @property
    def costs(self) -> Costs | None:
        """The costs at the last measurement; None before the first."""
        return self._costs

    def spend(self, kind: int, started: float) -> float:
        """Add the time since `started` to the cost of `kind`. Return the time now, where the next part starts."""
        now = self.clock()
        self._spent[kind] += now - started
        return now

    def end_step(self) -> float | None:
        """End the step. Return our time as a share of the step's own.

        None if that is not known: at the first step, or with a clock that stands still.
        """
        now = self.clock()
        spent, self._spent = self._spent, [0.0, 0.0, 0.0, 0.0, 0.0]
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
        every_step, norms, dear, rows, updates, steps = zip(*self._window, strict=True)
        self._window = []
        self._rows.append(fmean(rows))
        new = {kind: self._note(kind, seconds) for kind, seconds in ((NORMS, norms), (DEAR, dear), (UPDATES, updates))}
        self._costs = Costs(
            every_step=median(every_step) + median_low(self._rows),
            norms=self._cost(NORMS),
            dear=self._cost(DEAR),
            step=median(steps),
            updates=self._cost(UPDATES),
        )
        if self._costs.step <= 0:
            return
        now = self.intervals
        sparsest = Intervals(
            _longest(now.norms, new[NORMS]), _longest(now.dear, new[DEAR]), _longest(now.updates, new[UPDATES])
        )
        self.intervals = next_intervals(now, self._costs, self.share, densest=self._densest, sparsest=sparsest)

    def _note(self, kind: int, seconds: Sequence[float]) -> int:
        """Keep the samples of a tier. Return their number."""
        taken = [spent for spent in seconds if spent > 0]
        self._samples[kind].extend([median(taken)] * _SAMPLES if len(taken) >= _SAMPLES else taken)
        return len(taken)

    def _cost(self, kind: int) -> float:
        """Return the cost of taking a tier once, in seconds; 0 if it was never taken."""
        return median_low(self._samples[kind]) if self._samples[kind] else 0.0


def _longest(interval: int, new_samples: int) -> int:
    """Return the longest interval that a tier's samples since the last look justify.

    One sample alone may be an interruption: the next one, soon, has to confirm it.
    """
    if new_samples >= _ENOUGH_SAMPLES:
        return LONGEST_DEAR_INTERVAL
    return 2 * interval if new_samples else interval


def _smallest_interval(cost: float, room: float, shortest: int, longest: int) -> int:
    interval = shortest
    while interval < longest and cost / interval > room:
        interval *= 2
    return interval
