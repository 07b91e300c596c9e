"""Bursts and rest: all of ours is paid from the budget, and no rest is longer than half a second."""

from __future__ import annotations

import math

import pytest

from trackside.capture.ground.guard import Guard
from trackside.capture.statistics.budget import EVERY_STEP, NORMS
from trackside.capture.statistics.rest import (
    FEWEST_AT_REST,
    FEWEST_WATCHED,
    FIRST_SECONDS,
    FIRST_WATCHED,
    LEAST_BURST,
    LONGEST_REST_SECONDS,
    RESTED_KEY,
    Rest,
)
from trackside.capture.statistics.step_statistics import StepStatistics
from trackside.capture.steps.step_engine import StepEngine
from trackside.contracts.capture_request import CaptureRequest, StatisticsRequest

SHARE = 0.02
PLENTY = 10**6


class Training:
    """A training on clocks of its own.

    Args:
        seconds: Of a step, without us.
        watched: Seconds of ours at each watched step.
        norms: Seconds more at each that takes norms.
        other: Seconds of our other threads at each step.
        switch: Seconds of each way into a rest.
        waits: Seconds by the clock of each step in which it waits for something else.
        unseen: Seconds by which a watched step is slower, without any clock of ours seeing it.
    """

    def __init__(
        self,
        seconds: float,
        watched: float,
        *,
        norms: float = 0.0,
        other: float = 0.0,
        switch: float = 0.0,
        waits: float = 0.0,
        unseen: float = 0.0,
    ) -> None:
        self.seconds, self.watched, self.other, self.switch, self.waits = seconds, watched, other, switch, waits
        self.unseen, self.slower, self.norms = unseen, 0.0, norms
        self.now = self.process = self.ours = self.background = 0.0
        self.engine = StepEngine(CaptureRequest(()))
        request = StatisticsRequest(budget=SHARE, dense_start_steps=0, dense_after_steps=0)
        self.statistics = StepStatistics(request, Guard())
        budget = self.statistics.budget
        budget._wall_clock, budget._thread_clock = lambda: self.now, lambda: self.ours
        budget._process_clock = lambda: self.process
        budget.clock, budget.meter._clock = lambda: self.ours, lambda: self.ours
        budget.threads.append(lambda: self.background)
        self.rest = Rest(
            self.engine,
            self.statistics,
            clock=lambda: self.now,
            process_clock=lambda: self.process,
            thread_clock=lambda: self.ours,
        )
        self.watched_steps: list[int] = []

    def spend(self, seconds: float) -> None:
        self.now += seconds
        self.process += seconds
        self.ours += seconds

    def step(self, *, at_most: int = PLENTY) -> None:
        self.now += self.seconds + self.waits
        self.process += self.seconds + self.other
        self.background += self.other
        if self.rest.is_on:
            if self.rest.passed():
                with self.rest.ending():
                    pass
            return
        self.now += self.unseen
        self.process += self.unseen
        self.slower += self.unseen
        budget = self.statistics.budget
        budget.meter.leave()
        budget.meter.enter()
        started = budget.clock()
        self.spend(self.watched)
        started = budget.spend(EVERY_STEP, started)
        if self.norms and self.statistics.recorder.takes_norms:
            self.spend(self.norms)
            budget.spend(NORMS, started)
        self.watched_steps.append(self.engine.step)
        self.statistics.add_loss("loss", 1.0, mode="TRAIN")
        self.statistics.end_step(self.engine)
        self.engine.end_step()
        if self.rest.begin(at_most=at_most):
            with self.rest.beginning():
                self.spend(self.switch)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    @property
    def share(self) -> float:
        """Ours over the training's own."""
        ours = self.ours + self.background + self.slower
        return ours / (self.process - ours)


@pytest.mark.parametrize(
    "training",
    [
        pytest.param(Training(0.0005, 0.0002), id="half-a-millisecond"),
        pytest.param(Training(0.0005, 0.0002, switch=0.0003), id="dear-ways-in"),
        pytest.param(Training(0.002, 0.0003), id="two-milliseconds"),
        pytest.param(Training(0.002, 0.0003, other=0.00001), id="a-writer"),
        pytest.param(Training(0.01, 0.0004), id="ten-milliseconds"),
        pytest.param(Training(0.035, 0.003), id="long-steps-of-many-layers"),
        pytest.param(Training(0.035, 0.0006, norms=0.002), id="norms-that-the-part-of-each-step-leaves-no-room-for"),
        pytest.param(Training(0.09, 0.0035), id="steps-of-which-half-a-second-holds-five"),
        pytest.param(Training(0.16, 0.0065), id="steps-of-which-half-a-second-holds-three"),
        pytest.param(Training(0.002, 0.0003, waits=0.005), id="steps-that-wait"),
        pytest.param(Training(0.002, 0.0003, unseen=0.0006), id="cold-caches-after-us"),
        pytest.param(Training(0.035, 0.001, unseen=0.001), id="hooks-that-compiled-code-calls"),
    ],
)
def test_all_of_ours_takes_the_budget(training: Training) -> None:
    while (
        training.now < FIRST_SECONDS and training.engine.step < FIRST_WATCHED
    ) or training.engine.step < FEWEST_WATCHED:
        training.step()
    assert not training.rest.steps, "a short run is watched whole"
    training.ours = training.process = training.background = training.slower = 0.0  # the first steps are not paid for
    training.statistics.budget.seconds = 0.0
    began = training.process
    training.run(20_000)
    assert training.rest.steps > 9_000
    assert began == 0.0
    assert 0.5 * SHARE < training.share < 1.3 * SHARE


@pytest.mark.parametrize(
    "training",
    [
        pytest.param(Training(0.26, 0.02), id="steps-of-which-half-a-second-holds-one"),
        pytest.param(Training(0.01, 0.001, waits=0.25), id="the-same-where-most-of-a-step-is-waiting"),
        pytest.param(Training(0.035, 0.0003), id="long-steps-of-few-layers"),
        pytest.param(Training(0.002, 0.00002), id="watching-that-fits-into-the-budget"),
        pytest.param(Training(0.035, 0.0004), id="with-room-for-each-tier"),
    ],
)
def test_what_is_always_watched(training: Training) -> None:
    training.run(2_000)
    assert not training.rest.steps
    assert training.watched_steps == [*range(2_000)]


@pytest.mark.parametrize(
    ("seconds", "first"),
    [
        pytest.param(0.0005, FIRST_WATCHED, id="quick-steps"),
        pytest.param(0.04, int(FIRST_SECONDS / (0.04 * 1.06)), id="eight-seconds"),
        pytest.param(0.16, FEWEST_WATCHED, id="long-steps"),
    ],
)
def test_the_first_steps_are_watched(seconds: float, first: int) -> None:
    training = Training(seconds, 0.06 * seconds)
    training.run(FIRST_WATCHED + 2_000)
    assert training.rest.steps
    before_a_rest = next(step for step, at in enumerate(training.watched_steps) if step != at) - 1
    assert first - 2 <= before_a_rest <= first + 16


def test_bursts_come_at_least_twice_a_second() -> None:
    training = Training(0.0002, 0.004)
    training.run(FIRST_WATCHED + 20_000)
    bursts = [
        step
        for before, step in zip([-1, *training.watched_steps], training.watched_steps, strict=False)
        if step - before > 1
    ]
    gaps = [b - a for a, b in zip(training.watched_steps, training.watched_steps[1:], strict=False) if b - a > 1]
    assert len(bursts) > 5
    assert max(gaps) <= LONGEST_REST_SECONDS / 0.0002 + 2
    assert all({step, step + LEAST_BURST - 1} <= {*training.watched_steps} for step in bursts[:-1])


@pytest.mark.parametrize(
    ("seconds", "steps_a_look"),
    [pytest.param(0.002, 16, id="a-sixteenth-of-half-a-second"), pytest.param(0.00005, 64, id="at-most-64")],
)
def test_a_step_that_takes_long_ends_the_rest_at_the_next_look_at_the_clock(seconds: float, steps_a_look: int) -> None:
    training = Training(seconds, 0.0005)
    training.run(FIRST_WATCHED + 1)
    assert training.rest.is_on
    training.now += 2 * LONGEST_REST_SECONDS
    training.run(steps_a_look)
    assert FIRST_WATCHED + 1 < training.engine.step <= FIRST_WATCHED + 1 + steps_a_look
    assert training.rest.steps


@pytest.mark.parametrize(
    ("at_most", "rests"), [(0, False), (FEWEST_AT_REST - 1, False), (FEWEST_AT_REST, True), (PLENTY, True)]
)
def test_no_longer_than_the_adapter_allows(at_most: int, rests: bool) -> None:
    training = Training(0.0005, 0.0005)
    for _ in range(FIRST_WATCHED + 1):
        training.step(at_most=at_most)
    assert training.rest.is_on is rests
    training.run(at_most if rests and at_most < PLENTY else 0)
    assert training.rest.steps == (at_most if rests and at_most < PLENTY else 0)


def test_bursts_have_no_period() -> None:
    training = Training(0.001, 0.0003)
    training.run(FIRST_WATCHED + 40_000)
    steps = training.watched_steps[FIRST_WATCHED:]
    for period in (2, 3, 4, 5, 8, 10):
        met = [sum(step % period == turn for step in steps) / len(steps) * period for turn in range(period)]
        assert min(met) > 0.7


def test_counts_and_the_number_of_steps_left_out() -> None:
    training = Training(0.0005, 0.0005)
    training.run(FIRST_WATCHED + 1)
    assert training.rest.is_on
    numbers = [training.engine.position()]
    training.run(5)
    numbers.append(training.engine.position())
    assert [(each.step, each.mode_steps) for each in numbers] == [
        (FIRST_WATCHED + count, {"TRAIN": FIRST_WATCHED + count}) for count in (1, 6)
    ]
    training.statistics.add_loss("loss", 1.0, mode="TRAIN")
    training.rest.end_soon()
    training.step()
    recorder = training.statistics.recorder
    assert recorder.numbers.added == {RESTED_KEY: 7.0}
    assert not recorder.losses.get("TRAIN"), "what was added to a step at rest is none of the next one's"
    training.rest.leave_out(1)
    assert recorder.numbers.added == {RESTED_KEY: 8.0}
    assert training.engine.mode_step() == FIRST_WATCHED + 7


def test_an_unusual_loss_is_looked_at_closely() -> None:
    training = Training(0.0005, 0.0005)
    training.run(FIRST_WATCHED - 1)
    training.statistics.recorder._tiers.dense_until = math.inf  # type: ignore[assignment]
    training.run(50)
    assert not training.rest.is_on
