"""Losses of an optimizer's state within a process, found by looks at one parameter's part of it."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import STATE_LOST_EVERY
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.shared.detectors import watches

FEWEST = 3  # looks that found it emptied, before it is reported


@dataclass
class _Kept:
    """The state as a step ended: all of it, and the part of one parameter, which is held so that it stays the same.

    losses, at   looks that found it emptied, and the step of the newest
    """

    whole: Any
    part: Any
    losses: int = 0
    at: int = 0


@watches(STATE_LOST_EVERY)
class LostStates:
    """The looks at optimizers' states, before some of their steps and as these end.

    `state.clear()` leaves the dictionary of all parameters and takes their own ones from it. `load_state_dict` makes
    another dictionary, and is no loss.
    """

    def __init__(self, watch: Watch) -> None:
        self._steps = watch.steps
        self._kept: weakref.WeakKeyDictionary[Optimizer, _Kept] = weakref.WeakKeyDictionary()
        self._every: weakref.WeakKeyDictionary[Optimizer, int] = weakref.WeakKeyDictionary()

    def before_step(self, optimizer: Optimizer) -> None:
        """Count a loss if the state is not the one that `after_step` saw."""
        kept = self._kept.get(optimizer)
        if kept is None or kept.part is None or kept.whole is not optimizer.state or optimizer in self._every:
            return
        if kept.whole.get(smallest_parameter(optimizer)) is not kept.part:
            kept.losses += 1
            step = self._steps()
            if kept.losses >= FEWEST:
                self._every[optimizer] = step - kept.at
            kept.at = step

    def after_step(self, optimizer: Optimizer) -> None:
        """Keep the state until the next look."""
        whole = attribute_of(optimizer, "state")
        if not isinstance(whole, dict) or not whole or optimizer in self._every:
            return
        kept = self._kept.setdefault(optimizer, _Kept(whole, None))
        kept.whole, kept.part = whole, whole.get(smallest_parameter(optimizer))

    def of(self, optimizer: Optimizer) -> int:
        """Return the steps between the last two losses of an optimizer that is known to lose its state; else 0."""
        return self._every.get(optimizer, 0)


def smallest_parameter(optimizer: Optimizer) -> Any:
    """Return the parameter with the fewest elements, of which a part of the state may be held; None without one.

    Args:
        optimizer: The optimizer that holds it.
    """
    return min((p for group in optimizer.param_groups for p in group["params"]), key=torch.Tensor.numel, default=None)
