"""Steps that an optimizer skips within its own `step`, because its gradients are not finite.

A step that uses such a gradient leaves a weight that is not finite, or at least another one. So where a gradient is not
finite, one such element of each tensor is looked at, and a few elements of the other weights, before the step and after
it. If all are finite and as they were, nothing used the gradients.

The look is taken where a number shows that it is due: a loss or a norm that is not finite, or a skipped step before.
Tensors on a device are left out, because training would wait for them, and so are sharded and sparse ones.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.ground.memory import has_memory, with_memory
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics
from trackside.frameworks.pytorch.statistics.update_size import chosen_weights, is_plain, some_elements

MOST_PLACES = 16  # tensors with a broken gradient: whatever spoils one of them is used or not used in all


class OwnSkips:
    """The looks at the steps of all optimizers of one training. Nothing raises: the first error ends this alone.

    Attributes:
        before_step: Takes the first part of the look, if it is due. Call it right before an optimizer's step, with the
            mode of the open step.
        found: Called right after each step that was skipped; set by who wants to know.
        are_used: True once an optimizer has used gradients that are not finite. More of them mean nothing new.

    Args:
        statistics: The readings of the steps.
        protect: Makes a function harmless.
    """

    def __init__(
        self, statistics: PyTorchStatistics, *, protect: Callable[[Callable[..., None]], Callable[..., None]]
    ) -> None:
        self._statistics, self._record = statistics, statistics.record
        self.are_used = False
        self.found: Callable[[], None] = lambda: None
        self._open: dict[int, _Look] = {}
        self._skipped: weakref.WeakSet[Optimizer] = weakref.WeakSet()  # their newest step
        self._answers: dict[int, bool] = {}
        self.before_step: Callable[[Optimizer, str], None] = protect(self._before_step)
        self._after_step = protect(self._answer)

    def answer(self, optimizer: Optimizer) -> bool | None:
        """Return whether the optimizer skipped the step that it has just made; None if nothing suggests it."""
        if not self._open:
            return None
        self._after_step(optimizer)
        return self._answers.pop(id(optimizer), None)

    def _before_step(self, optimizer: Optimizer, mode: str) -> None:
        self._open.pop(id(optimizer), None)
        if not self._record.is_on:
            return
        total = self._statistics.total_norm(optimizer)
        if total is not None and not _is_broken(total):
            self.are_used = False
            if optimizer not in self._skipped:
                return
        if not self.are_used and (self._is_suspect(total, mode) or optimizer in self._skipped):
            self._open[id(optimizer)] = _Look(optimizer, self._statistics.numbers.is_late)

    def _is_suspect(self, total: float | None, mode: str) -> bool:
        losses = self._record.recorder.losses.get(mode, ())
        return (total is not None and _is_broken(total)) or any(
            isinstance(loss, float) and _is_broken(loss) for _, loss in losses
        )

    def _answer(self, optimizer: Optimizer) -> None:
        look = self._open.pop(id(optimizer), None)
        if look is None:
            return
        is_skipped = self._answers[id(optimizer)] = look.are_unused()
        if is_skipped:
            self._skipped.add(optimizer)
            return
        self.are_used = look.has_broken
        self._skipped.discard(optimizer)


class _Look:
    """Elements of an optimizer's weights right before its step. `has_broken`: some gradient is not finite."""

    def __init__(self, optimizer: Optimizer, is_late: Callable[[torch.Tensor], bool]) -> None:
        with torch.no_grad():
            places = _broken_places(optimizer, is_late)
            self.has_broken = bool(places)
            sample = [some_elements(weight) for weight in chosen_weights(optimizer) if places and not is_late(weight)]
            self._views = with_memory([*places, *sample])
            self._before = [view.clone() for view in self._views]

    def are_unused(self) -> bool:
        """Return True if a gradient was broken, and all the elements are finite and as they were."""
        if not self.has_broken or not all(map(has_memory, self._views)):
            return False
        with torch.no_grad():
            pairs = zip(self._before, self._views, strict=True)
            return all(torch.equal(before, now) and bool(torch.isfinite(now).all()) for before, now in pairs)


def _broken_places(optimizer: Optimizer, is_late: Callable[[torch.Tensor], bool]) -> list[torch.Tensor]:
    """Return one weight with a broken gradient for each of the first such parameters; views of shape (1,)."""
    held = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    weights = [p for p in held if _is_readable(p, is_late) and _is_readable(p.grad, is_late)]
    gradients: list[torch.Tensor] = [weight.grad for weight in weights]
    largest = torch._foreach_norm(gradients, float("inf")) if gradients else []
    pairs = zip(weights, gradients, largest, strict=True)
    broken = [(weight, gradient) for weight, gradient, size in pairs if not torch.isfinite(size)]
    return [_place(weight, gradient) for weight, gradient in broken[:MOST_PLACES]]


def _is_readable(tensor: torch.Tensor, is_late: Callable[[torch.Tensor], bool]) -> bool:
    """Return True for a plain tensor in host memory."""
    return has_memory(tensor) and is_plain(tensor, is_trained=False) and not is_late(tensor)


def _place(weight: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    is_broken = torch.isfinite(gradient).logical_not_().view(torch.uint8)
    place = int(is_broken.view(-1).argmax())
    return weight.detach().view(-1)[place : place + 1]


def _is_broken(number: float) -> bool:
    return not math.isfinite(number)
