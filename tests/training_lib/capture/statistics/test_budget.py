"""The overhead budget: intervals from measured costs, thinned in the right order, and denser again with care."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from trackside.capture.statistics.budget import (
    DEAR,
    EVERY_STEP,
    LONGEST_DEAR_INTERVAL,
    LONGEST_NORMS_INTERVAL,
    LONGEST_UPDATES_INTERVAL,
    NORMS,
    ROWS,
    SAVED,
    UPDATES,
    Costs,
    Intervals,
    OverheadBudget,
    ThreadMeter,
    affordable,
    next_intervals,
)

STEP = 100.0
DENSEST = Intervals()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        pytest.param((0.1, 0.1, 0.1), (1, 1), id="all-fits"),
        pytest.param((0.5, 0.5, 1.0), (1, 1), id="just-fits"),
        pytest.param((0.5, 0.5, 1.1), (1, 2), id="dear-gives-way-first"),
        pytest.param((0.0, 1.0, 20.0), (1, 32), id="dear-is-doubled-until-it-fits"),
        pytest.param((1.0, 0.999999, 50.0), (1, 256), id="dear-gives-way-to-its-least-before-norms"),
        pytest.param((1.0, 0.999999, 5000.0), (1, LONGEST_DEAR_INTERVAL), id="dear-gives-way-wholly"),
        pytest.param((1.0, 1.5, 0.0), (2, 1), id="norms-give-way-when-they-alone-are-too-much"),
        pytest.param((1.0, 1.5, 0.5), (2, 2), id="what-norms-leave-is-for-dear"),
        pytest.param((2.1, 0.1, 0.1), (1, 1), id="the-rest-alone-is-too-much-and-thinning-saves-nothing"),
        pytest.param((2.1, 1.0, 8.0), (4, 32), id="each-keeps-its-least"),
        pytest.param((2.1, 99.0, 9999.0), (LONGEST_NORMS_INTERVAL, LONGEST_DEAR_INTERVAL), id="all-is-too-much"),
        pytest.param((0.0, 0.0, 0.0), (1, 1), id="costs-nothing"),
    ],
)
def test_the_smallest_intervals_within_two_percent(
    costs: tuple[float, float, float], expected: tuple[int, int]
) -> None:
    measured = Costs(*costs, step=STEP)
    intervals = affordable(measured, 0.02)
    assert intervals == Intervals(*expected)
    if intervals.dear < LONGEST_DEAR_INTERVAL:
        assert measured.of(intervals) <= max(2.0, measured.every_step) + 2 * 0.25  # the least of each tier


@pytest.mark.parametrize(
    ("updates", "norms", "expected"),
    [
        pytest.param(0.5, 0.5, Intervals(1, 1, 1), id="all-fits"),
        pytest.param(0.5, 1.6, Intervals(2, 1, 1), id="norms-give-way-first"),
        pytest.param(4.0, 0.0, Intervals(1, 1, 2), id="updates-give-way-when-they-alone-are-too-much"),
        pytest.param(10**6, 0.0, Intervals(1, 1, LONGEST_UPDATES_INTERVAL), id="updates-give-way-wholly"),
    ],
)
def test_the_size_of_updates_is_thinned_last(updates: float, norms: float, expected: Intervals) -> None:
    assert affordable(Costs(0.0, norms, 0.0, STEP, updates), 0.02) == expected


def test_the_interval_of_updates_follows_their_measured_cost() -> None:
    now = [0.0]
    budget = OverheadBudget(0.02, wall_clock=lambda: now[0], thread_clock=lambda: now[0], process_clock=None)
    for step in range(200):
        now[0] += STEP
        started = budget.clock()
        if step % budget.intervals.updates == 0:
            now[0] += 7.0
        budget.spend(UPDATES, started)
        budget.end_step()
    assert budget.intervals == Intervals(1, 1, 4)


@pytest.mark.parametrize(
    ("current", "costs", "expected"),
    [
        pytest.param((1, 8), (0.5, 0.5, 8.0), (1, 8), id="exactly-full-stays"),
        pytest.param((1, 8), (0.5, 0.5, 9.0), (1, 16), id="too-much-is-thinned-at-once"),
        pytest.param((1, 16), (0.5, 0.5, 8.0), (1, 16), id="would-fit-but-not-at-ease"),
        pytest.param((1, 16), (0.5, 0.5, 4.0), (1, 8), id="room-to-spare"),
        pytest.param((4, 4096), (0.2, 0.4, 0.4), (1, 1), id="all-at-once-when-it-has-become-cheap"),
        pytest.param((2, 64), (0.5, 1.2, 4.0), (2, 16), id="norms-stay-thin-dear-takes-what-is-free"),
        pytest.param((1, 1), (0.0, 0.0, 0.0), (1, 1), id="free-stays"),
    ],
)
def test_thins_at_once_and_grows_with_room(
    current: tuple[int, int], costs: tuple[float, float, float], expected: tuple[int, int]
) -> None:
    assert next_intervals(Intervals(*current), Costs(*costs, step=STEP), 0.02) == Intervals(*expected)


@pytest.mark.parametrize("every_step", [0.0, 1.0, 1.99, 2.0, 5.0])
def test_it_does_not_swing(every_step: float) -> None:
    """Costs that vary by a tenth from look to look must not change the intervals to and fro."""
    current = affordable(Costs(every_step, 0.5, 8.0, STEP), 0.02)
    seen = set()
    for factor in (1.0, 0.95, 1.0, 0.92, 1.0, 0.95) * 4:
        current = next_intervals(current, Costs(every_step, 0.5 * factor, 8.0 * factor, STEP), 0.02)
        seen.add(current)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(1000.0, Intervals(1, 10, 1), id="quick-steps-pay-for-all"),
        pytest.param(5.7, Intervals(1, 10, 1), id="it-just-fits"),
        pytest.param(3.1, Intervals(2, 40, 1), id="dear-gives-way-to-its-least-and-norms-to-the-half"),
        pytest.param(2.3, Intervals(4, 40, 1), id="few-steps-pay-for-each-watched-one"),
    ],
)
def test_bursts_are_as_dense_as_the_longest_rest_can_pay_for(steps: float, expected: Intervals) -> None:
    clock = Clock()
    budget = OverheadBudget(
        0.02,
        densest=Intervals(1, 10, 1),
        wall_clock=lambda: clock.now,
        thread_clock=lambda: clock.now,
        process_clock=None,
    )
    for step in range(12):
        clock.now += STEP
        for kind, cost in ((EVERY_STEP, 3.0), (NORMS, 6.0), (DEAR, 0.0 if step % 10 else 20.0)):
            started = budget.clock()
            clock.now += cost
            budget.spend(kind, started)
        budget.end_step()
    budget.think_of_bursts(STEP, steps_a_watched_one=steps)
    assert budget.intervals == expected


def test_never_denser_than_asked() -> None:
    assert affordable(Costs(0, 0, 0.1, STEP), 0.02, densest=Intervals(1, 10)) == Intervals(1, 10)
    assert affordable(Costs(0, 0, 30.0, STEP), 0.02, densest=Intervals(1, 10)) == Intervals(1, 20)


def budget_by(clock: Callable[[], float], *, densest: Intervals = DENSEST) -> OverheadBudget:
    return OverheadBudget(0.02, densest=densest, wall_clock=clock, thread_clock=clock, process_clock=None)


def run(
    budget: OverheadBudget, clock: Clock, steps: int, *, every: float, norms: float, dear: float, step: float
) -> list[float | None]:
    """A training of which each step takes `step` without us; tiers are taken as the budget says."""
    shares = []
    for number in range(steps):
        clock.now += step
        for kind, cost in ((EVERY_STEP, every), (NORMS, norms), (DEAR, dear)):
            interval = {EVERY_STEP: 1, NORMS: budget.intervals.norms, DEAR: budget.intervals.dear}[kind]
            if number % interval == 0:
                started = budget.clock()
                clock.now += cost
                assert budget.spend(kind, started) == clock.now
        shares.append(budget.end_step())
    return shares


def test_stays_within_the_budget_over_a_run() -> None:
    clock = Clock()
    budget = budget_by(clock)
    run(budget, clock, 96, every=0.2, norms=1.0, dear=20.0, step=STEP)
    shares = run(budget, clock, 640, every=0.2, norms=1.0, dear=20.0, step=STEP)
    assert budget.intervals == Intervals(1, 32)
    assert 0.015 < sum(share or 0 for share in shares) / 640 <= 0.02


def test_reports_the_share_of_each_step_and_not_of_the_first() -> None:
    clock = Clock()
    budget = budget_by(clock)
    shares = run(budget, clock, 3, every=1.0, norms=0.0, dear=0.0, step=STEP)
    assert shares == [None, pytest.approx(0.01), pytest.approx(0.01)]


def test_a_clock_that_stands_still_changes_nothing() -> None:
    budget = budget_by(Clock())
    assert [budget.end_step() for _ in range(100)] == [None] * 100
    assert budget.intervals == Intervals()


def test_a_pause_between_two_steps_is_no_reason_to_spend_more() -> None:
    clock = Clock()
    budget = budget_by(clock)
    run(budget, clock, 97, every=0.2, norms=1.0, dear=20.0, step=STEP)
    clock.now += 1e6  # an evaluation
    run(budget, clock, 33, every=0.2, norms=1.0, dear=20.0, step=STEP)
    assert budget.intervals == Intervals(1, 32)


def test_one_slow_moment_is_no_reason_to_thin() -> None:
    clock = Clock()
    budget = budget_by(clock)
    run(budget, clock, 20, every=0.1, norms=0.2, dear=0.2, step=STEP)
    started = budget.clock()
    clock.now += 50 * STEP  # another process had the core
    budget.spend(NORMS, started)
    run(budget, clock, 20, every=0.1, norms=0.2, dear=0.2, step=STEP)
    assert budget.intervals == Intervals()


def test_grows_again_when_steps_become_longer() -> None:
    clock = Clock()
    budget = budget_by(clock)
    run(budget, clock, 64, every=0.2, norms=3.0, dear=20.0, step=STEP)
    assert budget.intervals.norms == 2
    run(budget, clock, 200, every=0.2, norms=3.0, dear=20.0, step=100 * STEP)
    assert budget.intervals == Intervals()


@pytest.mark.parametrize(
    "interruption", [pytest.param(4e-3, id="4-ms"), pytest.param(20e-3, id="20-ms"), pytest.param(2.0, id="2-s")]
)
@pytest.mark.parametrize("kind", [NORMS, DEAR, ROWS])
def test_one_interrupted_sample_does_not_switch_weights_off(interruption: float, kind: int) -> None:
    """A sample of 20 ms once put the interval of weights to 5,120 steps: for the rest of the run."""
    clock, interrupted = Clock(), False
    budget = budget_by(clock, densest=Intervals(1, 10))
    taken = []
    for number in range(3000):
        clock.now += 2e-3
        for part, cost, interval in (
            (EVERY_STEP, 8e-6, 1),
            (NORMS, 15e-6, budget.intervals.norms),
            (DEAR, 500e-6, budget.intervals.dear),
            (ROWS, 40e-6, 16),
        ):
            if number % interval:
                continue
            started = budget.clock()
            clock.now += cost
            if part == kind and number > 500 and not interrupted:
                interrupted = True
                clock.now += interruption
            budget.spend(part, started)
            if part == DEAR:
                taken.append(number)
        budget.end_step()
    usual = [number for number in taken if 200 < number < 500]
    gaps = [later - earlier for earlier, later in pairwise(taken) if earlier > 500]
    longest_before = max(later - earlier for earlier, later in pairwise(usual))
    assert interrupted
    assert max(gaps) <= 2 * longest_before
    assert gaps[-1] <= longest_before  # and soon it is as it was


def test_a_tier_that_is_too_dear_from_the_start_is_measured_seldom_at_once() -> None:
    """Doubling with each sample: some dozen samples until the interval is long enough."""
    clock = Clock()
    budget = budget_by(clock, densest=Intervals(1, 10))
    shares = run(budget, clock, 2000, every=0.0, norms=0.1, dear=500.0, step=STEP)
    assert budget.intervals.dear == 320
    assert sum((share or 0) > 1 for share in shares) <= 12


class Training:
    """A training by clocks of its own: each step takes `step` without us, and `ours` in our code."""

    def __init__(self, *, process_share: float = 1.0) -> None:
        self.wall = self.thread = self.process = self.background = 0.0
        self._process_share = process_share
        self.budget = OverheadBudget(
            0.02,
            wall_clock=lambda: self.wall,
            thread_clock=lambda: self.thread,
            process_clock=lambda: self.process,
        )
        self.budget.threads.append(lambda: self.background)

    def spend(self, seconds: float) -> None:
        self.wall += seconds
        self.thread += seconds
        self.process += seconds

    def run(
        self, steps: int, *, ours: float, saved: float = 0.0, norms: float = 0.0, step: float = STEP
    ) -> list[float]:
        budget, meter = self.budget, self.budget.meter
        shares = []
        for number in range(steps):
            self.wall += step
            self.process += step * self._process_share
            if meter.is_on:
                meter.enter()
            self.spend(ours)  # nobody has put a timer around it
            for kind, cost, interval in ((SAVED, saved, 1), (NORMS, norms, budget.intervals.norms)):
                if cost and number % interval == 0:
                    started = budget.clock()
                    self.spend(cost)
                    budget.spend(kind, started)
            if meter.is_on:
                meter.leave()
                meter.enter()
            shares.append(budget.end_step() or 0.0)
            budget.begin_step(is_sampled=(number + 1) % 8 == 0)
            meter.leave()
        return shares


def test_all_of_our_code_counts_and_not_only_what_has_a_timer() -> None:
    training = Training()
    shares = training.run(200, ours=1.5, norms=0.9)
    assert training.budget.intervals.norms == 2
    assert shares[-1] == pytest.approx(0.015 + 0.009 / 2, rel=0.01)


def test_what_the_user_has_saved_thins_nothing() -> None:
    training = Training()
    shares = training.run(200, ours=0.5, norms=1.0, saved=30.0)
    assert training.budget.intervals == Intervals()
    assert shares[-1] == pytest.approx(1.5 / 130, rel=0.01)


def test_the_writers_time_counts() -> None:
    training = Training()
    for _ in range(20):
        training.run(16, ours=0.5, norms=0.9)
        training.background += 16 * 1.0
    assert training.budget.intervals.norms == 2
    assert training.run(16, ours=0.5, norms=0.9)[-1] == pytest.approx(0.5e-2 + 0.9e-2 / 2 + 1.0e-2, rel=0.02)


def test_a_burst_of_another_thread_of_ours_leaves_the_length_of_a_step_alone() -> None:
    training = Training(process_share=0.9)
    training.run(32, ours=0.5)
    training.process += 40 * STEP
    training.background += 40 * STEP
    for _ in range(3):
        assert all(share > 0 for share in training.run(16, ours=0.5))
        assert training.budget.costs is not None
        assert training.budget.costs.step == pytest.approx(0.9 * STEP)


@pytest.mark.parametrize(
    ("process_share", "norms"),
    [
        pytest.param(1.0, 1, id="the-machine-is-ours"),
        pytest.param(0.25, 4, id="other-processes-have-three-quarters"),
        pytest.param(8.0, 1, id="eight-threads-compute"),
    ],
)
def test_a_busy_machine_is_no_reason_to_spend_more(process_share: float, norms: int) -> None:
    """A step of 100 by the clock, of which the process has computed only a part: what the budget goes by."""
    training = Training(process_share=process_share)
    training.run(300, ours=0.1, norms=1.2)
    assert training.budget.intervals.norms == norms


def test_a_meter_counts_from_entry_to_end_only() -> None:
    clock = Clock()
    meter = ThreadMeter(clock)
    meter.start()
    clock.now += 1
    meter.leave()
    clock.now += 100
    meter.enter()
    clock.now += 2
    assert meter.take() == 3
    assert not meter.is_on
    meter.start()
    clock.now += 50
    assert meter.take() is None, "an adapter that notes no end"
