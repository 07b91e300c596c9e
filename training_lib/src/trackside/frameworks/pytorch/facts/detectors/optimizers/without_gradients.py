"""Optimizers that step, and none of their parameters ever had a gradient."""

from __future__ import annotations

import weakref
from typing import Any

from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import NEVER_HAD_GRADIENT
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.shared.detectors import watches

FEWEST_STEPS = 30  # between the first look and the newest: before, a warm-up may be going on
FEWEST_LOOKS = 5


@watches(NEVER_HAD_GRADIENT)
class WithoutGradients:
    """The looks at optimizers before some of their steps, as long as these found no gradient."""

    def __init__(self, watch: Watch) -> None:
        self._steps = watch.steps
        self._looks: weakref.WeakKeyDictionary[Optimizer, list[int]] = weakref.WeakKeyDictionary()  # at steps
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
            self._looks.setdefault(optimizer, []).append(self._steps())
        else:
            self._looks.pop(optimizer, None)  # frozen on purpose: its turn may come

    def of(self, optimizer: Optimizer) -> bool:
        """Return True if no look found a gradient, and enough looks came."""
        looks = self._looks.get(optimizer, [])
        return len(looks) >= FEWEST_LOOKS and looks[-1] - looks[0] >= FEWEST_STEPS
