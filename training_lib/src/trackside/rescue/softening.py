"""A lower rate, or clipped gradients, for the steps after a return: set before each step, and taken back after it."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import Optimizer


class Softening:
    """Changes what the optimizers do for some steps.

    Args:
        factor: Of the rate.
        most_rate: The largest rate; 0 for no limit. With it, the change lasts until the script's own rate is below.
        most_gradient: The largest norm of the gradients of an optimizer; 0 for no limit.
        steps: Steps of optimizers that it lasts, if it has no largest rate.
    """

    def __init__(self, *, factor: float, most_rate: float, most_gradient: float, steps: int) -> None:
        self._factor, self._most_rate, self._most_gradient = factor, most_rate, most_gradient
        self._left = steps
        self._own: list[tuple[dict[str, Any], Any]] = []  # groups, with the script's rates

    def before(self, optimizer: Optimizer) -> bool:
        """Change a step that is about to be made. Return False if the change is over."""
        self.after()  # a step that raised has left the rates lowered
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        is_below = not self._most_rate or (bool(rates) and max(rates) <= self._most_rate)
        if self._left <= 0 and is_below:
            return False
        self._left -= 1
        for group in optimizer.param_groups:
            if "lr" not in group:
                continue
            rate = float(group["lr"])
            new = min(rate * self._factor, self._most_rate or rate)
            if new != rate:
                self._own.append((group, group["lr"].clone() if isinstance(group["lr"], torch.Tensor) else group["lr"]))
                _set_rate(group, new)
        if self._most_gradient:
            self._clip(optimizer)
        return True

    def after(self) -> None:
        """Set the script's own rates again, after a step."""
        for group, rate in self._own:
            _set_rate(group, rate)
        self._own = []

    def _clip(self, optimizer: Optimizer) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if parameters:
            torch.nn.utils.clip_grad_norm_(parameters, self._most_gradient)


def _set_rate(group: dict[str, Any], rate: Any) -> None:
    held = group["lr"]
    if isinstance(held, torch.Tensor):
        held.fill_(float(rate))
    else:
        group["lr"] = rate
