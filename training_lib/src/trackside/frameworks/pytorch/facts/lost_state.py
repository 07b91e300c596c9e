"""Losses of an optimizer's state within a process, found by looks at one parameter's part of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.script_objects import attribute_of

FEWEST = 3  # looks that found it emptied, before it is reported


Smallest = Callable[[], Any]  # returns the parameter of which a part of the state may be held in memory


@dataclass
class _Kept:
    """The state as a step ended: all of it, and the part of one parameter, which is held so that it stays the same.

    losses, at   looks that found it emptied, and the step of the newest
    """

    whole: Any
    part: Any
    losses: int = 0
    at: int = 0


class LostStates:
    """The looks at optimizers' states, before some of their steps and as these end.

    `state.clear()` leaves the dictionary of all parameters and takes their own ones from it. `load_state_dict` makes
    another dictionary, and is no loss.

    Attributes:
        count: Optimizers so far that are known to lose their state.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: weakref.WeakKeyDictionary[Optimizer, _Kept] = weakref.WeakKeyDictionary()
        self._every: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()

    def before_step(self, optimizer: Optimizer, step: int, smallest: Smallest) -> None:
        """Count a loss if the state is not the one that `step_ended` saw."""
        kept = self._kept.get(optimizer)
        if kept is None or kept.part is None or kept.whole is not optimizer.state or optimizer in self._every:
            return
        if kept.whole.get(smallest()) is not kept.part:
            kept.losses += 1
            if kept.losses >= FEWEST:
                self._every[optimizer] = step - kept.at
                self.count += 1
            kept.at = step

    def step_ended(self, optimizer: Optimizer, smallest: Smallest) -> None:
        """Keep the state until the next look."""
        whole = attribute_of(optimizer, "state")
        if not isinstance(whole, dict) or not whole or optimizer in self._every:
            return
        kept = self._kept.setdefault(optimizer, _Kept(whole, None))
        kept.whole, kept.part = whole, whole.get(smallest())

    def every(self, optimizer: Optimizer) -> int:
        """Return the steps between the last two losses of an optimizer that is known to lose its state; else 0."""
        return self._every.get(optimizer, 0)
