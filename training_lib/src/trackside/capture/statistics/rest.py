"""Bursts and rest: when a training is watched, and when nothing of ours is in place but a counter of its steps.

    if rest.begin(at_most=...):          # after each watched training step, once all of it has ended
        ...                              # the adapter takes out what a step calls, and counts by `rest.passed`
    ...
    if rest.passed():                    # after each step at rest
        with rest.ending() as steps: ... # the adapter puts all of it in again

All processor time of ours is paid from the budget: watched steps, the ways into a rest and out of it, the counter, the
writer and other threads, and what none of our clocks sees: a watched step finds the caches full of our numbers, and
enters our hooks from compiled code. A burst tells it by being slower than the rests. What a burst has cost decides how
long the training rests after it. Where watching each step
fits into the budget, or half a second holds too few steps to leave out, the training never rests; there the intervals
of the tiers keep to the budget (`capture/statistics/budget.py`).
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Protocol

from trackside.capture.ground.irregular import fraction
from trackside.capture.statistics.always_on import AlwaysOn
from trackside.capture.statistics.budget import OverheadBudget
from trackside.capture.steps.step_engine import StepEngine
from trackside.contracts.run.recorded_names import RESTED_STEPS

# All of a short run is watched, and of a long one what its first steps show: structure, the first passes over small
# data, fingerprints of the first batches. It is no time to speak of: at most eight seconds, or where steps are long as
# many of them as the intervals of the tiers need to settle.
FIRST_WATCHED = 400
FIRST_SECONDS, FEWEST_WATCHED = 8.0, 100
LEAST_BURST = 3  # watched steps in a row: two differences between neighbours, and a third to confirm the first
FEWEST_AT_REST = 2  # fewer are not worth the ways in and out
LONGEST_REST_SECONDS = 0.5  # of the clock, whatever the budget says: a loss that breaks is seen by then
_LOOKS_A_REST, _MOST_A_LOOK = 16, 64  # looks at the clock in the longest rest; steps between two, at most
_COUNT_SECONDS = 2e-6  # the counter, at each step at rest
_NEWEST_WEIGHT = 0.5  # of the newest rest in the time of a step
_UNSEEN_BURSTS = 9  # whose median tells the unseen cost of a watched step: an evaluation or a collection is in few
_MOST_UNSEEN = 3.0  # of what is seen: a step that is slow for another reason must not end the watch
_WITHOUT_TIERS = 5 / 8  # of the budget, for the part that every step has: each of three tiers may cost an eighth
_ROOM = 0.75  # of that: watching each step must fit into it before a training that rests stops to

RESTED_KEY = (RESTED_STEPS, "mean")


class RestedStatistics(Protocol):
    """The statistics of a session, as `StepStatistics` has them."""

    is_on: bool
    recorder: AlwaysOn
    budget: OverheadBudget


class Rest:
    """The bursts and rests of one training. Knows no framework.

    Attributes:
        is_on: True at rest.
        steps: Number of steps that were at rest so far.
        first_watched: Number of first steps of this process that are watched, at most.
        first_seconds: Seconds after which fewer are, but at least 100.
        longest_seconds: Seconds by the clock after which a rest ends, whatever the budget says.
        wanted: Returns the number of steps that the budget wants at rest now; 0: the training is watched on.

    Args:
        engine: Counts the steps, at rest too.
        statistics: Their budget pays for all.
        clock: Returns seconds.
        process_clock: Returns the processor time of all threads of this process.
        thread_clock: Returns the processor time of the calling thread.
    """

    def __init__(
        self,
        engine: StepEngine,
        statistics: RestedStatistics,
        *,
        clock: Callable[[], float] = time.perf_counter,
        process_clock: Callable[[], float] = time.process_time,
        thread_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._engine, self._statistics = engine, statistics
        self._clock, self._process_clock, self._thread_clock = clock, process_clock, thread_clock
        self.is_on = False
        self.steps, self.first_watched, self.longest_seconds = 0, FIRST_WATCHED, LONGEST_REST_SECONDS
        self.first_seconds = FIRST_SECONDS
        self.wanted: Callable[[], int] = self._wanted
        self._lock = threading.Lock()
        self._watched = 0  # steps in this burst
        self._unpaid = 0  # watched steps whose part of the budget is not yet in the debt
        self._ended = 0  # watched steps in this process
        self._until_step, self._until, self._steps_a_look = 0, 0.0, 1
        self._step_seconds = 0.0  # a step's own time; 0 if it is not known
        self._wall_seconds = 0.0  # the same by the clock: longer where a training waits
        self._debt = 0.0  # processor seconds that are not yet paid for
        self._spent_before = self._background_before = 0.0
        self._process_in_burst: float | None = None  # when this part of a burst began; None: not after a rest
        self._unseen: deque[float] = deque(maxlen=_UNSEEN_BURSTS)  # processor seconds of a watched step, by burst
        self._unseen_a_step = 0.0  # by these
        self._spent_here = 0.0  # on the ways in and out, in this turn
        self._began = self._process_before = self._background_at_begin = self._first_until = 0.0
        self._turn = 0
        self._newest = 0  # steps of the newest rest
        self._left_out = 0  # steps of which nothing is recorded, since the last one that is

    def begin(self, *, at_most: int) -> bool:
        """Begin a rest after a watched training step, if it is time to. Return True if the training is at rest now.

        Args:
            at_most: Number of steps, from the open one on, that may be at rest.
        """
        self._watched += 1
        self._unpaid += 1
        self._ended += 1
        if self._is_first() or self._watched < LEAST_BURST or at_most < FEWEST_AT_REST:
            return False
        started = self._thread_clock()
        steps = min(at_most, self.wanted())
        if steps < FEWEST_AT_REST:
            self._spent_here += self._thread_clock() - started
            return False
        self._begin(steps)
        self._spent_here += self._thread_clock() - started
        return True

    def _is_first(self) -> bool:
        """Return True for a step that is watched because it is one of the first."""
        ended = self._ended
        if ended == 1:
            self._first_until = self._clock() + self.first_seconds
        return ended < self.first_watched and (ended < FEWEST_WATCHED or self._clock() < self._first_until)

    def passed(self) -> bool:
        """Count a step at rest. Return True if the rest is over with it."""
        tally = self._engine.tally
        tally.left -= 1
        if tally.left > 0 and self._until:
            return False
        more = self._until_step - self._engine.step
        if more <= 0 or self._clock() >= self._until:
            return True
        tally.grant(min(more, self._steps_a_look))
        return False

    def end_soon(self) -> None:
        """Let the rest end with the open step. Any thread may call it."""
        self._until = 0.0
        self._engine.tally.optimizer = 0  # so that the next step asks

    @property
    def is_half_over(self) -> bool:
        """True if the rest has lasted at least half as long as the budget wants."""
        return 2 * (self._clock() - self._began) >= self._until - self._began

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Take the time within as part of the way into the rest."""
        started = self._thread_clock()
        try:
            yield
        finally:
            self._spent_here += self._thread_clock() - started

    @contextmanager
    def ending(self) -> Iterator[int | None]:
        """End the rest, and take the time within as the way out of it. Yield the number of steps that were at rest.

        Yield None if the training is not at rest, or is just being watched again by another thread.
        """
        started = self._thread_clock()
        rested = None
        if self._lock.acquire(blocking=False):  # a signal's handler may interrupt this very method
            try:
                rested = self._end() if self.is_on else None
            finally:
                self._lock.release()
        try:
            yield rested
        finally:
            if rested is not None:
                self.leave_out(rested)
                self._spent_here += self._thread_clock() - started
                self._process_in_burst = self._process_clock() - self._all_seen()

    def leave_out(self, steps: int) -> None:
        """Record nothing of what the open step has so far, nor of the steps before it.

        Args:
            steps: Number of steps that have ended and of which nothing is recorded.
        """
        self._left_out += steps
        if self._statistics.is_on:
            numbers = {RESTED_KEY: float(self._left_out)} if self._left_out else {}
            self._statistics.recorder.begin_anew(numbers)

    def _begin(self, steps: int) -> None:
        self._watched = self._left_out = 0
        self._engine.begin_rest()
        self._until_step = self._engine.step + steps
        looks = self.longest_seconds / _LOOKS_A_REST
        self._steps_a_look = max(1, min(_MOST_A_LOOK, int(looks / self._wall_seconds))) if self._wall_seconds else 1
        self._engine.tally.grant(min(steps, self._steps_a_look))
        self._began = self._clock()
        self._until = self._began + self.longest_seconds
        self._process_before = self._process_clock()
        self._background_at_begin = self._statistics.budget.background()
        self.is_on = True

    def _end(self) -> int:
        self.is_on = False
        rested = self._engine.end_rest()
        self.steps += rested
        self._newest = rested
        if not rested:
            return 0
        wall = (self._clock() - self._began) / rested
        background = self._statistics.budget.background() - self._background_at_begin
        own = min(wall, (self._process_clock() - self._process_before - background) / rested)
        known, own = self._step_seconds, max(0.0, own)
        self._step_seconds = known + _NEWEST_WEIGHT * (own - known) if known else own
        self._wall_seconds += _NEWEST_WEIGHT * (wall - self._wall_seconds)
        self._debt -= (self._statistics.budget.share * own - _COUNT_SECONDS) * rested
        return rested

    def _wanted(self) -> int:
        statistics = self._statistics
        if not statistics.is_on:
            return sys.maxsize
        budget = statistics.budget
        if statistics.recorder.is_dense or budget.costs is None:
            return 0
        if not self._is_needed():
            self._forget()
            return 0
        step = self._step_seconds
        self._add_debt()
        longest = int(self.longest_seconds / self._wall_seconds)
        budget.think_of_bursts(step, steps_a_watched_one=1 + longest / LEAST_BURST, unseen=self._unseen_a_step)
        a_step = budget.share * step - _COUNT_SECONDS
        self._turn += 1
        wanted = self._debt / a_step * (0.5 + fraction(self._turn)) if a_step > 0 else longest  # what is over stays
        steps = min(longest, math.ceil(wanted))
        self._debt = min(self._debt, max(0.0, a_step) * longest)  # what no rest can pay is forgiven
        return max(0, steps)

    def _is_needed(self) -> bool:
        """Return True if watching each step costs too much, even without any tier, and a rest leaves steps out."""
        budget = self._statistics.budget
        costs = budget.costs
        if costs is None:
            return False
        if not budget.is_in_bursts:
            self._step_seconds, self._wall_seconds = costs.step, budget.wall_seconds
        step = self._step_seconds
        room = _WITHOUT_TIERS * budget.share * step * (_ROOM if budget.is_in_bursts else 1.0)
        can_rest = step > 0 and FEWEST_AT_REST * self._wall_seconds <= self.longest_seconds
        return can_rest and costs.every_step > room

    def _add_debt(self) -> None:
        """Add what this burst and the other threads have cost since the rest before, less the watched steps' part."""
        budget, step, steps = self._statistics.budget, self._step_seconds, self._unpaid
        background = budget.background()
        if budget.is_in_bursts:
            spent = budget.seconds - self._spent_before + self._spent_here + background - self._background_before
            spent += self._unseen_of(steps, seen=budget.seconds - self._spent_before)
        else:  # the first steps of a run are not paid for
            costs, steps = budget.costs, LEAST_BURST
            spent = LEAST_BURST * (costs.every_step + costs.norms + costs.updates) if costs is not None else 0.0
        budget.share_in_bursts = spent / (step * max(1, steps + self._newest))
        self._debt = max(0.0, self._debt + spent - budget.share * step * steps)
        self._spent_before, self._background_before, self._spent_here = budget.seconds, background, 0.0
        self._unpaid = self._newest = 0

    def _all_seen(self) -> float:
        """Return the processor time of ours that clocks see."""
        budget = self._statistics.budget
        return budget.seconds + budget.background()

    def _unseen_of(self, steps: int, *, seen: float) -> float:
        """Return what watched steps have cost beside what our clocks saw: by how much they were slower than at rest."""
        now, before = self._process_clock() - self._all_seen(), self._process_in_burst
        self._process_in_burst = now
        if before is None or not steps:
            return 0.0
        self._unseen.append((now - before) / steps - self._step_seconds)
        self._unseen_a_step = min(max(0.0, median(self._unseen)), _MOST_UNSEEN * seen / steps)
        return self._unseen_a_step * steps

    def _forget(self) -> None:
        """Let the intervals of the tiers keep to the budget again."""
        budget = self._statistics.budget
        if budget.is_in_bursts:
            budget.is_in_bursts, self._debt, self._process_in_burst = False, 0.0, None
            self._unseen_a_step = 0.0
            budget.pause()
