"""A lower rate, or clipped gradients, for the steps after a return: set before each step, and taken back after it."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse


class Softening:
    """Changes what the optimizers do for some steps.

    Args:
        factor: Of the rate.
        most_rate: The largest rate; 0 for no limit. With it, the change lasts until the script's own rate is below.
        most_gradient: The largest norm of the gradients of an optimizer; 0 for no limit.
        steps: Steps of optimizers that it lasts, if there is no largest rate.
        fuse: Keeps its errors from the training.
    """

    def __init__(self, *, factor: float, most_rate: float, most_gradient: float, steps: int, fuse: Fuse) -> None:
        self._factor, self._most_rate, self._most_gradient = factor, most_rate, most_gradient
        self._left = steps
        self._own: list[tuple[dict[str, Any], Any]] = []  # groups, with the script's rates
        before = untraced(fuse.protect(self._before))

        def before_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
            before(optimizer)

        skip_frame(before_step)
        self._handle: Any = register_optimizer_step_pre_hook(before_step)

    @property
    def is_on(self) -> bool:
        """True until it has ended."""
        return self._handle is not None

    def after(self) -> None:
        """Set the script's own rates again, after a step."""
        for group, rate in self._own:
            _set_rate(group, rate)
        self._own = []

    def end(self) -> None:
        """Let the optimizers be."""
        self.after()
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _before(self, optimizer: Optimizer) -> None:
        self.after()  # a step that raised has left the rates lowered
        rates = [float(group["lr"]) for group in optimizer.param_groups if "lr" in group]
        if self._most_rate and rates and max(rates) <= self._most_rate and self._left <= 0:
            self.end()
            return
        if not self._most_rate and self._left <= 0:
            self.end()
            return
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
