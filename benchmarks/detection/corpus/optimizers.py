"""Optimizers and learning-rate schedules with their settings, to be given the parameters later."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import optim
from torch.optim import Optimizer, lr_scheduler

from benchmarks.detection.corpus.supervised import Schedule

sgd = partial(optim.SGD)
momentum = partial(optim.SGD, momentum=0.9)
nesterov = partial(optim.SGD, momentum=0.9, nesterov=True)
adam = partial(optim.Adam)
adamw = partial(optim.AdamW, weight_decay=0.01)


def by_step(factor: Callable[[int, int], float]) -> Schedule:
    """The rate times a factor of the step and of how many there will be."""
    return lambda optimizer, steps: lr_scheduler.LambdaLR(optimizer, lambda step: factor(step, steps))


def warmup_cosine(warmup: int = 40, floor: float = 0.0) -> Schedule:
    """Up in a straight line, down along a cosine."""

    def factor(step: int, steps: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return floor + (1 - floor) * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup)))) / 2

    return by_step(factor)


def cosine(optimizer: Optimizer, steps: int) -> Any:
    """Down along a cosine to 0."""
    return lr_scheduler.CosineAnnealingLR(optimizer, steps)


def one_cycle(highest: float) -> Schedule:
    """Up to `highest` and down to almost nothing."""
    return lambda optimizer, steps: lr_scheduler.OneCycleLR(optimizer, highest, total_steps=steps + 1)


def triangles(lowest: float, highest: float, half: int) -> Schedule:
    """Up and down again and again."""
    return lambda optimizer, _: lr_scheduler.CyclicLR(
        optimizer, lowest, highest, step_size_up=half, cycle_momentum=False
    )


def restarts(period: int) -> Schedule:
    """Down along a cosine, and back to the start at once, every `period` steps."""
    return lambda optimizer, _: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, period)


def drops(*shares: float, factor: float = 0.1) -> Schedule:
    """A tenth at these shares of the training."""
    return lambda optimizer, steps: lr_scheduler.MultiStepLR(
        optimizer, [int(share * steps) for share in shares], gamma=factor
    )


def decaying(factor: float) -> Schedule:
    """A little less at each step."""
    return lambda optimizer, _: lr_scheduler.ExponentialLR(optimizer, factor)
