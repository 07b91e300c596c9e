"""The learning-rate schedules that a script makes, and how often it steps them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.facts.detectors.optimizers.schedules import Schedules
from trackside.frameworks.shared.replaced_methods import StepHooks

RATE, TURNS = 0.1, 8
Make = Callable[[torch.optim.Optimizer], Any]


class Loop:
    """Turns of a training, each of which has a backward pass."""

    def __init__(self) -> None:
        self.passes = self.changes = 0
        self.schedules = Schedules(Watch(passes=lambda: self.passes, changed=self._changed))
        self.hooks = StepHooks([*self.schedules.step_hooks()])
        self.optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=RATE)

    def _changed(self) -> None:
        self.changes += 1

    def run(self, make: Make, calls: Callable[[Any, int], None]) -> Any:
        schedule = make(self.optimizer)
        for turn in range(TURNS):
            self.passes += 1
            self.optimizer.step()
            calls(schedule, turn)
        return schedule


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = Loop()
    found.hooks.put_in()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield found
    found.hooks.take_out()


def times(count: int) -> Callable[[Any, int], None]:
    def step(schedule: Any, _: int) -> None:
        for _ in range(count):
            schedule.step()

    return step


def warm(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)


def in_sequence(optimizer: torch.optim.Optimizer) -> Any:
    parts = [warm(optimizer), lr_scheduler.CosineAnnealingLR(optimizer, 50)]
    return lr_scheduler.SequentialLR(optimizer, parts, [20])


def restarts(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5)


def chained(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.ChainedScheduler([warm(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.9)])


CASES = [
    pytest.param(warm, times(10), 10, id="ten times"),
    pytest.param(restarts, times(2), 2, id="restarts, twice"),
    pytest.param(in_sequence, times(3), 3, id="a sequence, three times"),
    pytest.param(chained, times(4), 4, id="a chain, four times"),
    pytest.param(warm, lambda s, turn: times(5)(s, turn) if turn % 2 else None, 5, id="five times every other turn"),
    pytest.param(warm, lambda *_: None, 0, id="never"),
    pytest.param(in_sequence, lambda *_: None, 0, id="a sequence, never"),
    pytest.param(warm, times(1), 1, id="once"),
    pytest.param(restarts, times(1), 1, id="restarts, once"),
    pytest.param(in_sequence, times(1), 1, id="a sequence, once"),
    pytest.param(chained, times(1), 1, id="a chain, once"),
    pytest.param(warm, lambda s, turn: s.step() if turn == 4 else None, 1, id="once per epoch"),
    pytest.param(warm, lambda s, turn: times(30 if turn == 0 else 1)(s, turn), 1, id="wound on at a resume"),
    pytest.param(restarts, lambda s, turn: s.step(turn + 0.5), 1, id="set to a place"),
    pytest.param(warm, lambda s, turn: s.step(7 * turn), 1, id="set to places far apart"),
]


@pytest.mark.parametrize(("make", "calls", "expected"), CASES)
def test_the_calls_of_a_turn(loop: Loop, make: Make, calls: Callable[[Any, int], None], expected: int) -> None:
    loop.run(make, calls)
    facts = loop.schedules.of(loop.optimizer)
    assert facts is not None
    assert facts.calls == expected
    assert loop.changes <= 6, "a change is looked at"


@pytest.mark.parametrize(
    ("make", "highest"),
    [
        (warm, RATE),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.5, total_steps=50), 0.5),
        (lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.3, cycle_momentum=False), 0.3),
        (lambda o: lr_scheduler.LambdaLR(o, lambda step: step / 10), RATE),
    ],
    ids=["warm-up", "one cycle", "cycles", "by hand"],
)
def test_the_highest_rate(loop: Loop, make: Make, highest: float) -> None:
    loop.run(make, times(1))
    facts = loop.schedules.of(loop.optimizer)
    assert facts is not None
    assert facts.highest == pytest.approx(highest)


def test_a_schedule_that_follows_a_measure_is_not_seen(loop: Loop) -> None:
    loop.run(lr_scheduler.ReduceLROnPlateau, lambda schedule, _: schedule.step(1.0))
    assert loop.schedules.of(loop.optimizer) is None


def test_undone_and_equal_to_the_original(loop: Loop) -> None:
    schedule = loop.run(warm, times(1))
    watched = schedule.get_last_lr()
    hooks = StepHooks([*Schedules(Watch()).step_hooks()])
    hooks.put_in()
    assert hooks.take_out()
    bare = Loop().run(warm, times(1))
    assert watched == bare.get_last_lr()


@pytest.mark.parametrize("calls", [pytest.param(1, id="once"), pytest.param(3, id="three-times-at-each-step")])
def test_calls_at_rest_are_not_calls_of_one_turn(loop: Loop, calls: int) -> None:
    schedule = loop.run(warm, times(calls))
    for _ in range(6):
        loop.hooks.take_out()
        times(4 * calls)(schedule, 0)
        loop.hooks.put_in()
        loop.schedules.rest_ended(4)
        times(calls)(schedule, 0)  # after the last step at rest
    loop.passes += 1
    times(calls)(schedule, 0)
    facts = loop.schedules.of(loop.optimizer)
    assert facts is not None
    assert facts.calls == calls


@pytest.mark.parametrize(
    ("make", "length"),
    [
        pytest.param(lambda o: lr_scheduler.CosineAnnealingLR(o, 50), 50, id="a cosine"),
        pytest.param(lambda o: lr_scheduler.CosineAnnealingLR(o, float("inf")), 0, id="one without an end"),
        pytest.param(restarts, 0, id="restarts"),
        pytest.param(warm, 0, id="a warm-up"),
        pytest.param(in_sequence, 0, id="several in sequence"),
    ],
)
def test_the_length_of_what_is_to_fall_once(loop: Loop, make: Make, length: int) -> None:
    loop.run(make, times(1))
    found = loop.schedules.of(loop.optimizer)
    assert found is not None
    assert found.length == length
