"""The order of backward passes and optimizer steps: a count of passes, and steps that found no gradient at all.

It costs an addition at each pass and a subtraction at each step. Nothing is held, and no device is waited for.

Gradients may come another way than by a pass: from `torch.autograd.grad`, by hand, from a graph of CUDA. So a step
without a pass counts only if its gradients are the very ones of the step before: the same objects, not written to since
except by clipping.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.statistics.cleared_gradients import MOST_REMEMBERED, can_be_remembered

FEWEST_WITHOUT_STEP = 50  # backward passes without a step, before they are reported
MANY_STEPS = 10  # and they are as many as the most passes of a step, times this


class StepOrder:
    """The backward passes since each optimizer's step before, and the gradients that a step found.

    Attributes:
        passes: Number of backward passes so far in this process.
        at_newest_step: The same when an optimizer stepped last.
        limit: Number of passes at which `report` is to be called, because no step came.

    `without_step(passes)` is called once many backward passes were followed by no step, and again each time that their
    number has doubled.
    """

    def __init__(self, without_step: Callable[[int], None]) -> None:
        self._without_step = without_step
        self.passes = 0  # so far in this process
        self.limit = sys.maxsize  # number of passes at which to report that no step came; not before the first step
        self.at_newest_step = 0
        self._most = 1  # passes of a step
        self._at_step: dict[int, int] = {}  # optimizer -> passes when it stepped
        self._used: dict[int, list[tuple[weakref.ref[torch.Tensor], int]]] = {}  # gradients that steps used, and writes
        self._clippings = 0  # so far in this process
        self._fewest: int | None = None  # of the optimizers in the open step
        self._is_without: bool | None = None  # None: no optimizer of the open step was looked at

    def backward_ended(self) -> None:
        """Count a backward pass that has ended. One inside of another, as of a reentrant checkpoint, does not count."""
        if torch._C._current_graph_task_id() == -1:
            self.passes += 1
            if self.passes >= self.limit:
                self.report()

    def report(self) -> None:
        """Report the passes without a step, as many as `limit`."""
        count = self.passes - self.at_newest_step
        self.limit = self.passes + count
        self._without_step(count)

    def before_step(self, optimizer: Optimizer) -> None:
        """Look for a gradient. Call it right before an optimizer's step, unless its closure computes the gradients."""
        is_without = all(p.grad is None for group in optimizer.param_groups for p in group["params"])
        self._is_without = is_without and self._is_without is not False

    def after_step(self, optimizer: Optimizer) -> None:
        """Count the passes since the optimizer's step before. Call it right after each of its steps."""
        number, passes = id(optimizer), self.passes
        before = self._at_step.get(number)
        self._at_step[number] = self.at_newest_step = passes
        came = 0 if before is None else passes - before
        if before == passes or number in self._used:
            is_new = self._has_new(optimizer)
            if before == passes and is_new is not False:
                before, came = (None, 0) if is_new is None else (before, 1)
        if before is not None and (self._fewest is None or came < self._fewest):
            self._fewest = came
            self._most = max(self._most, self._fewest)
        self.limit = passes + max(FEWEST_WITHOUT_STEP, MANY_STEPS * self._most)

    def clipped(self) -> None:
        """Note that gradients were clipped, which writes to each of them once."""
        self._clippings += 1

    def _has_new(self, optimizer: Optimizer) -> bool | None:
        """Return False if the optimizer's gradients are those of its last step with this call, or if it has none.

        None if they cannot be compared.
        """
        held = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        before = self._used.get(id(optimizer), [])
        now = [(g, g._version - self._clippings) for g in held if can_be_remembered(g)][:MOST_REMEMBERED]
        self._used[id(optimizer)] = [(weakref.ref(gradient), writes) for gradient, writes in now]
        if not held:
            return False
        if not before or not now:
            return None
        return not any(
            one() is gradient and writes <= seen for (one, seen), (gradient, writes) in zip(before, now, strict=False)
        )

    def forget(self) -> None:
        """Forget all steps so far: those to come are the first ones again. No step is missed while none is counted."""
        self._at_step, self._used, self._fewest, self._is_without = {}, {}, None, None
        self.limit = sys.maxsize

    def forget_passes(self) -> None:
        """Count the passes so far to no step: their gradients were cleared before any optimizer used them."""
        self._at_step = dict.fromkeys(self._at_step, self.passes)

    def end_step(self) -> tuple[float | None, bool]:
        """Return the fewest passes of the step's optimizers, and whether none of these had a gradient.

        The number is 1 where new gradients came another way. It is None at the first step of an optimizer, where that
        cannot be known, and while no backward pass was ever seen.
        """
        fewest, is_without = self._fewest, self._is_without is True
        self._fewest = self._is_without = None
        return float(fewest) if fewest is not None and self.passes else None, is_without
