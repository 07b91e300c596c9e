"""Intervals of the always-on statistics: the processor time of all that we do against the time of the step.

    started = budget.clock()
    ...                                       # take the norms
    budget.spend(NORMS, started)
    share = budget.end_step()                 # of this step; every so often the intervals are computed again
    budget.begin_step(is_sampled=...)

Nothing is estimated from the model's size: the cost of a tier is its measured cost on this machine, lately. Processor
time is read by a system call, so it is read at some steps only: a validation between two steps, or a moment in which
the scheduler ran another process, costs none of it. One look can at most double an interval.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean, median, median_low

# What time is spent on. What every step has: the loss and the learning rate; rows are made of several steps at once.
# What is spent on tensors that the user has asked for is no reason to thin statistics.
EVERY_STEP, NORMS, DEAR, ROWS, UPDATES, SAVED = range(6)
KINDS = 6

SAMPLE_INTERVAL = 8  # steps; processor time is read at these, at the first ones, and with the dear tier

LONGEST_NORMS_INTERVAL = 64
LONGEST_UPDATES_INTERVAL = 64
LONGEST_DEAR_INTERVAL = 4096
LONGEST_IN_BURSTS = 320  # watched steps
_STEPS_AT_ONCE = 16  # between two looks
_NOTE_SECONDS = 1e-5  # to note a step that waits to be recorded with others
_SAMPLES = 5  # the last ones of a tier, whose median counts
_EVERY_SAMPLES = 10  # of the part that every step has
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


class ThreadMeter:
    """A meter of the processor time of our code on the training thread, from `start` to `take`.

    `enter` and `leave` are called where our code begins and ends, while `is_on`.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.is_on = False
        self._clock = clock
        self._is_inside = self._has_left = False
        self._since = self._seconds = 0.0

    def start(self) -> None:
        """Begin to measure. Our code runs at this moment."""
        self.is_on = self._is_inside = True
        self._has_left = False
        self._since, self._seconds = self._clock(), 0.0

    def enter(self) -> None:
        """Note that our code begins."""
        self._is_inside, self._since = True, self._clock()

    def leave(self) -> None:
        """Note that our code has ended."""
        if self._is_inside:
            self._is_inside, self._has_left = False, True
            self._seconds += self._clock() - self._since

    def take(self) -> float | None:
        """Stop to measure. Return the seconds; None if nobody has noted where our code ended."""
        self.is_on = False
        if self._is_inside and self._has_left:
            self._seconds += self._clock() - self._since
        return self._seconds if self._has_left else None


class OverheadBudget:
    """The budget of our processor time: measures it, and sets the intervals of the tiers.

    Attributes:
        share: The part of a step's own time that may be spent.
        intervals: The intervals now.
        meter: Measures all of our code on the training thread; without it the parts that `spend` is called for count.
        clock: Returns the processor time of this thread at a step that is sampled, else 0.
        ended_at: The end of the newest step, by `wall_clock`.
        wall_seconds: A step's time by `wall_clock` without us, at the last look.
        threads: Return the processor time so far of other threads of ours, in seconds, each of its own.
        seconds: The processor time of ours on the training thread so far, as far as it was measured.
        is_in_bursts: True once the training rests between bursts of watched steps; see `capture/statistics/rest.py`.
        share_in_bursts: Our time as a share of the training's own, lately, with its steps at rest.

    Args:
        share: See above.
        densest: The shortest intervals; they also hold until the first measurement, after 16 steps.
        wall_clock: Returns seconds.
        thread_clock: Returns the processor time of the calling thread.
        process_clock: Returns the processor time of all threads of this process. None: the step's time is by
            `wall_clock` alone.
        meter: See above.
    """

    def __init__(
        self,
        share: float,
        *,
        densest: Intervals = Intervals(),
        wall_clock: Callable[[], float] = time.perf_counter,
        thread_clock: Callable[[], float] = time.thread_time,
        process_clock: Callable[[], float] | None = time.process_time,
        meter: ThreadMeter | None = None,
    ) -> None:
        self.share, self.meter = share, meter or ThreadMeter(thread_clock)
        self.clock: Callable[[], float] = thread_clock
        self.threads: list[Callable[[], float]] = []
        self.intervals = self._densest = densest
        self._wall_clock, self._thread_clock, self._process_clock = wall_clock, thread_clock, process_clock
        self._costs: Costs | None = None
        self._is_sampled = True
        self._spent = [0.0] * KINDS
        self._walls: list[float] = []  # of the steps since the last look, without our part
        self._rows_here = 0.0  # spent on rows since then
        self._rows_before = 0.0  # since the last step that ended alone, when the open one began
        self._expected = 0.0
        self._ours_here = 0.0  # on the training thread since the last look
        self.seconds = 0.0
        self.is_in_bursts = False
        self.share_in_bursts: float | None = None
        self._every: deque[float] = deque(maxlen=_EVERY_SAMPLES)
        self._samples = {kind: deque[float](maxlen=_SAMPLES) for kind in (NORMS, DEAR, UPDATES)}
        self._new = dict.fromkeys((NORMS, DEAR, UPDATES), 0)  # samples since the last look
        self._others: deque[float] = deque(maxlen=_SAMPLES)  # rows and other threads, a step, by look
        self._background_before = self._background_a_step = 0.0
        self._process_before: float | None = None
        self.ended_at = self.wall_seconds = 0.0
        self._is_first = True
        self._together_before: tuple[float, ...] = ()  # by the clock, of the process, of other threads of ours
        self._spent_together = 0.0  # on recording steps together, the last time

    def background(self) -> float:
        """Return the processor time that our other threads have spent so far, in seconds."""
        return sum(seconds() for seconds in self.threads)

    @property
    def costs(self) -> Costs | None:
        """The costs at the last look; None before the first."""
        return self._costs

    def rest(self) -> None:
        """Measure nothing until the next `begin_step`."""
        self._is_sampled, self.clock = False, _no_time

    def spend(self, kind: int, started: float) -> float:
        """Add the time since `started` to the cost of `kind`. Return the time now, where the next part starts."""
        now = self.clock()
        self._spent[kind] += now - started
        return now

    def spend_on_rows(self, started: float) -> None:
        """Add the time since `started`, a time by `thread_clock`: rows are made at few steps, and always measured."""
        self._spent[ROWS] += self._thread_clock() - started

    def thread_seconds(self) -> float:
        """Return the processor time of this thread, whether the step is sampled or not."""
        return self._thread_clock()

    def begin_step(self, *, is_sampled: bool) -> None:
        """Begin a step. Steps that take the dear tier must be sampled, others now and then, and each at first."""
        is_sampled = is_sampled or self._costs is None or self.is_in_bursts
        self._rows_before = self._spent[ROWS]
        if is_sampled is not self._is_sampled:
            self._is_sampled = is_sampled
            self.clock = self._thread_clock if is_sampled else _no_time
        if is_sampled:
            self.meter.start()

    def end_step(self) -> float | None:
        """End the step. Return our time as a share of the step's own: measured if it was sampled, else as expected.

        None if that is not known: at the first step, or with a clock that stands still.
        """
        now = self._wall_clock()
        spent, self._spent = self._spent, [0.0] * KINDS
        metered = self.meter.take() if self._is_sampled else None
        began, self.ended_at = self.ended_at, now
        if self._is_first:  # it begins before we are there, and is never like the others
            self._is_first = False
            return None
        ours = self._noted(spent, metered) if self._is_sampled else self._expected
        self.seconds += ours + spent[ROWS]
        if self.is_in_bursts:
            return self.share_in_bursts
        wall = now - began - ours - spent[ROWS]
        self._ours_here += ours + spent[ROWS]
        self._walls.append(wall)
        self._rows_here += spent[ROWS]
        if len(self._walls) >= _STEPS_AT_ONCE:
            self._think()
        step = wall if self._costs is None else self._costs.step
        if self._others:
            ours += fmean(self._others)  # made for several steps, and a part of each of them
        return ours / step if step > 0 else None

    @contextmanager
    def together(self, steps: int) -> Iterator[float | None]:
        """Take the time within as spent on recording steps that have ended since the last time this was called.

        Yield our time as a share of the steps' own: what the last time and our other threads have taken. None if that
        is not known: the first time, or with a clock that stands still.

        Args:
            steps: Their number.
        """
        started = self._thread_clock()
        before, now = self._together_before, self._all_clocks()
        share = None
        if before:
            wall, process, background = (after - earlier for after, earlier in zip(now, before, strict=True))
            ours = self._spent_together + background + _NOTE_SECONDS * steps
            own = min(wall, process - background) if self._process_clock is not None else wall
            share = ours / own if own > 0 else None
        try:
            yield share
        finally:
            self._spent_together = self._thread_clock() - started
            self.seconds += self._spent_together
            self._together_before = self._all_clocks()
            self.ended_at = self._together_before[0]

    def _all_clocks(self) -> tuple[float, ...]:
        process = self._process_clock() if self._process_clock is not None else 0.0
        return self._wall_clock(), process, self.background()

    def pause(self) -> None:
        """Leave out the time until now: the training has been at rest."""
        self.ended_at = self._wall_clock()
        self._walls, self._process_before, self._ours_here, self._rows_here = [], None, 0.0, 0.0
        self._background_before = self.background()

    def think_of_bursts(self, step_seconds: float, *, steps_a_watched_one: float, unseen: float = 0.0) -> None:
        """Choose the intervals within bursts: as dense as the longest rest can pay for.

        The dear tier costs at most as much as all else that a watched step has.

        Args:
            step_seconds: A step's time without us.
            steps_a_watched_one: Number of steps that pay for a watched one, at most.
            unseen: What a watched step costs beside what clocks of ours see, in seconds.
        """
        self.is_in_bursts = True
        every = unseen + (fmean(self._every) if self._every else 0.0)
        costs = Costs(every, self._cost(NORMS), self._cost(DEAR), step_seconds, self._cost(UPDATES))
        self._costs, self._expected = costs, every - unseen
        most = affordable(costs, self.share * steps_a_watched_one, densest=self._densest)
        plain = every + costs.norms / most.norms + costs.updates / most.updates
        dear = _smallest_interval(costs.dear, plain, most.dear, max(most.dear, LONGEST_IN_BURSTS))
        self.intervals = Intervals(most.norms, dear, most.updates)

    def _noted(self, spent: Sequence[float], metered: float | None) -> float:
        """Keep the samples of a step. Return its time on the training thread, without rows and saved tensors."""
        parts = spent[NORMS] + spent[DEAR] + spent[UPDATES]
        rows = spent[ROWS] - self._rows_before
        every = spent[EVERY_STEP] if metered is None else max(0.0, metered - parts - rows - spent[SAVED])
        self._every.append(every)
        for kind, samples in self._samples.items():
            if spent[kind] > 0:
                samples.append(spent[kind])
                self._new[kind] += 1
        return every + parts

    def _expectation(self, costs: Costs) -> float:
        """Return the expected cost of a step that is not sampled. It has no dear tier."""
        tiers = (costs.norms, self.intervals.norms), (costs.updates, self.intervals.updates)
        every = fmean(self._every) if self._every else 0.0  # rare parts of it, too
        return every + sum(cost / interval for cost, interval in tiers if interval < SAMPLE_INTERVAL)

    def _think(self) -> None:
        steps, self._walls = len(self._walls), sorted(self._walls)
        background = self.background()
        self._background_a_step = (background - self._background_before) / steps
        self._others.append(self._rows_here / steps + self._background_a_step)
        self._rows_here, self._background_before = 0.0, background
        every = median(self._every or (0.0,))
        self._costs = Costs(
            every_step=every + median_low(self._others),
            norms=self._cost(NORMS),
            dear=self._cost(DEAR),
            step=self._step_seconds(steps),
            updates=self._cost(UPDATES),
        )
        self._walls = []
        new, self._new = self._new, dict.fromkeys(self._new, 0)
        if self._costs.step <= 0:
            return
        now = self.intervals
        sparsest = Intervals(
            _longest(now.norms, new[NORMS]), _longest(now.dear, new[DEAR]), _longest(now.updates, new[UPDATES])
        )
        self.intervals = next_intervals(now, self._costs, self.share, densest=self._densest, sparsest=sparsest)
        self._expected = self._expectation(self._costs)

    def _step_seconds(self, steps: int) -> float:
        """Return the time of a step without us.

        Other processes on the machine make it longer by the clock, but leave it the same processor time.
        """
        wall = self.wall_seconds = median(self._walls)
        if self._process_clock is None:
            return wall
        before, self._process_before = self._process_before, self._process_clock()
        ours, self._ours_here = self._ours_here, 0.0
        if before is None:
            return wall
        return min(wall, (self._process_before - before - ours) / steps - self._background_a_step)

    def _cost(self, kind: int) -> float:
        """Return the cost of taking a tier once, in seconds; 0 if it was never taken."""
        return median_low(self._samples[kind]) if self._samples[kind] else 0.0


_no_time: Callable[[], float] = float  # returns 0.0, and is no function of Python


def _longest(interval: int, new_samples: int) -> int:
    """Return the longest interval that samples since the last look justify: the next one is to come soon."""
    return 2 * interval if new_samples else interval


def _smallest_interval(cost: float, room: float, shortest: int, longest: int) -> int:
    interval = shortest
    while interval < longest and cost / interval > room:
        interval *= 2
    return interval
