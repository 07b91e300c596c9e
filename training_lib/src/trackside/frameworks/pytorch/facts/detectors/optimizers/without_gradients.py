"""Optimizers that step, and none of their parameters ever had a gradient."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import NEVER_HAD_GRADIENT
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.shared.detectors import watches

FEWEST_STEPS = 30  # between the first look and the newest: before, a warm-up may be going on
FEWEST_LOOKS = 5


class _Looks(NamedTuple):
    """Looks that found no gradient, and the steps of the first and the newest of them."""

    number: int
    first: int
    newest: int


@watches(NEVER_HAD_GRADIENT)
class WithoutGradients:
    """The looks at optimizers before some of their steps, as long as these found no gradient."""

    def __init__(self, watch: Watch) -> None:
        self._steps = watch.steps
        self._looks: weakref.WeakKeyDictionary[Optimizer, _Looks] = weakref.WeakKeyDictionary()
        self._had_one: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def before_step(self, optimizer: Optimizer) -> None:
        """Look for a gradient, unless one was found before, or none is required."""
        if optimizer in self._had_one:
            return
        held: list[Any] = [p for group in optimizer.param_groups for p in group["params"]]
        if any(p.grad is not None for p in held):
            self._had_one.add(optimizer)
            self._looks.pop(optimizer, None)
        elif any(p.requires_grad for p in held):
            now = self._steps()
            before = self._looks.get(optimizer, _Looks(0, now, now))
            self._looks[optimizer] = _Looks(before.number + 1, before.first, now)
        else:
            self._looks.pop(optimizer, None)  # frozen on purpose: its turn may come

    def of(self, optimizer: Optimizer) -> bool:
        """Return True if no look found a gradient, and enough looks came."""
        looks = self._looks.get(optimizer, _Looks(0, 0, 0))
        return looks.number >= FEWEST_LOOKS and looks.newest - looks.first >= FEWEST_STEPS
