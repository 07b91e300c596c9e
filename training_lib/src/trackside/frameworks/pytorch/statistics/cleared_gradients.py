"""The check if the gradients of a step were cleared before those of the next were added to them.

After an optimizer's step two of its gradients are remembered: the object, and the number of writes to it. The backward
passes up to its next step show the rest. A gradient is kept if one of them added to the values that the step before had
used; it is cleared if, before that, it was gone, replaced or written to. So the place and the way of clearing do not
matter. Accumulation over several backward passes does not count, because only values that an optimizer has used already
do. Nothing is held, nothing is computed while all is as it should be, and no device is waited for.

A gradient that was gone before the last backward pass is expected to be gone before the next, as `zero_grad` leaves it:
then nothing is remembered, which takes longer than all else here. If it exists after all, its values alone decide.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.values import Values
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.statistics.device_numbers import DeviceNumbers

MOST_REMEMBERED = 2  # gradients of an optimizer
_MOST_LOOKED_AT = 1 << 12  # elements of a gradient that seems to be kept


class ClearedGradients:
    """The remembered gradients of each optimizer.

    `is_waiting`: some gradient was not yet seen to be cleared, so backward passes matter.
    """

    def __init__(self, numbers: DeviceNumbers) -> None:
        self.is_waiting = False
        self._numbers = numbers
        self._remembered: dict[int, OfOptimizer] = {}
        self._found: list[bool | torch.Tensor] = []  # of the open step: one for each step of an optimizer

    def before_backward(self) -> None:
        """Check the gradients. Call it right before they are computed, but not in a backward pass inside of another."""
        waiting = False
        for remembered in self._remembered.values():
            waiting |= remembered.before_backward(self._numbers.is_late)
        self.is_waiting = waiting

    def after_backward(self) -> None:
        """Check the gradients. Call it right after they are computed."""
        for remembered in self._remembered.values():
            remembered.after_backward()

    def forget(self) -> None:
        """Look at no gradient that is remembered any more."""
        self._remembered, self._found, self.is_waiting = {}, [], False

    def with_gradients(self) -> list[weakref.ref[torch.Tensor]]:
        """Return the parameters with a gradient that is remembered."""
        return [gradient.parameter for one in self._remembered.values() for gradient in one.gradients]

    def is_late(self, tensor: torch.Tensor) -> bool:
        """Return True if to read the tensor would make training wait for a device."""
        return self._numbers.is_late(tensor)

    def after_step(self, optimizer: Optimizer) -> None:
        """Remember the gradients. Call it right after each step of an optimizer."""
        number = id(optimizer)
        remembered = self._remembered.get(number)
        if remembered is None or remembered.optimizer() is not optimizer:
            table = self._remembered
            reference = weakref.ref(optimizer, lambda _: table.pop(number, None))
            remembered = table[number] = OfOptimizer(reference)
        else:
            answer = remembered.answer()
            if answer is not None:
                self._found.append(answer)
        remembered.remember(optimizer)
        self.is_waiting = True

    def end_step(self) -> float | Values | None:
        """Return 1 if any optimizer of the ended step reused gradients of its step before, 0 if none, None if unknown.

        On a device the number comes later.
        """
        found, self._found = self._found, []
        if not found:
            return None
        if len(found) == 1 and found[0] is False:  # nearly every step of nearly every training
            return 0.0
        late = [answer for answer in found if isinstance(answer, torch.Tensor)]
        if late and not _is_known(found):
            return self._numbers.take(torch.stack(late).any().reshape(1))
        return float(_is_known(found))


class OfOptimizer:
    """The remembered `gradients` of one optimizer. `is_open`: not all of them were seen to be cleared."""

    def __init__(self, optimizer: Callable[[], Optimizer | None]) -> None:
        self.optimizer = optimizer
        self.gradients: list[_Gradient] = []
        self.is_open = False

    def remember(self, optimizer: Optimizer) -> None:
        for gradient in self.gradients:
            if not gradient.remember():
                self.gradients = []
        if not self.gradients:
            chosen = [_Gradient(parameter) for parameter in _chosen(optimizer)]
            self.gradients = [gradient for gradient in chosen if gradient.remember()]
        self.is_open = bool(self.gradients)

    def before_backward(self, is_late: Callable[[torch.Tensor], bool]) -> bool:
        if not self.is_open:
            return False
        is_open = False
        for gradient in self.gradients:
            is_open = gradient.before_backward(is_late) or is_open
        self.is_open = is_open
        return is_open

    def after_backward(self) -> None:
        if self.is_open:
            for gradient in self.gradients:
                gradient.after_backward()

    def answer(self) -> bool | torch.Tensor | None:
        """Return True if gradients were kept; a tensor of one truth value on a device; None if unknown."""
        if not self.is_open:  # each is known to have been cleared, as it should be
            return False if self.gradients else None
        kept = [g.is_kept for g in self.gradients if not g.is_cleared and g.is_kept is not None]
        if _is_known(kept):
            return True
        late = [k for k in kept if isinstance(k, torch.Tensor)]
        if late:
            return late[0] if len(late) == 1 else torch.stack(late).any()
        return False if any(g.is_cleared for g in self.gradients) else None


def _chosen(optimizer: Optimizer) -> list[torch.Tensor]:
    """Return the parameters to look at: those with the smallest gradients."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    return sorted(parameters, key=lambda p: p.grad.numel())[:MOST_REMEMBERED]


class _Gradient:
    """The gradient of a parameter, from an optimizer's step to its next.

    - `is_kept`: None if no backward pass has reached it
    - `was_gone`: True if it was gone right before the last backward pass began
    """

    __slots__ = ("_seen", "_suspect", "_version", "is_cleared", "is_kept", "parameter", "was_gone")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.parameter = weakref.ref(parameter)
        self.was_gone = False
        self._seen: weakref.ref[torch.Tensor] | None = None
        self._version = 0

    def remember(self) -> bool:
        """Start again with the gradient as it is now. Return False if it is gone."""
        parameter = self.parameter()
        gradient = None if parameter is None else parameter.grad
        if gradient is None or not (gradient.is_cpu or can_be_remembered(gradient)):
            return False
        if self.was_gone:
            self._seen = None
        else:
            self._seen, self._version = weakref.ref(gradient), gradient._version
        self._suspect: bool | torch.Tensor = False
        self.is_cleared = False
        self.is_kept: bool | torch.Tensor | None = None
        return True

    def before_backward(self, is_late: Callable[[torch.Tensor], bool]) -> bool:
        """Return False once the gradient is known to have been cleared."""
        if self.is_cleared:
            return False
        parameter = self.parameter()
        gradient = None if parameter is None else parameter.grad
        self.was_gone = gradient is None
        if gradient is None or self._has_changed(gradient):
            self.is_cleared = True
            return False
        self._seen, self._version = weakref.ref(gradient), gradient._version
        # What is written through `.data` is not counted, so that an old script's `p.grad.data.zero_()` is seen here.
        self._suspect = is_anywhere_nonzero(gradient, is_late)
        self.is_cleared = self._suspect is False
        return not self.is_cleared

    def after_backward(self) -> None:
        if self.is_cleared:
            return
        gradient = self._gradient()
        if gradient is None:
            self.is_cleared = True
            return
        # One that no backward pass adds to (the master copies of hand-made mixed precision) is none of ours.
        if self._has_changed(gradient):
            self.is_kept = self._suspect if self.is_kept is None else self.is_kept
            self._seen, self._version = weakref.ref(gradient), gradient._version

    def _has_changed(self, gradient: torch.Tensor) -> bool:
        """Return True if the gradient is another object than the remembered one, or was written to since."""
        return self._seen is not None and (gradient is not self._seen() or gradient._version != self._version)

    def _gradient(self) -> torch.Tensor | None:
        parameter = self.parameter()
        return None if parameter is None else parameter.grad


def _is_known(answers: list[bool | torch.Tensor]) -> bool:
    """Return True if one is true without asking a device. `True in answers` would compare, and wait for it."""
    return any(answer is True for answer in answers)


def can_be_remembered(gradient: torch.Tensor) -> bool:
    """Return True if writes to a gradient are counted."""
    return not gradient.is_meta and not is_in_cuda_graph(gradient)


def is_anywhere_nonzero(gradient: torch.Tensor, is_late: Callable[[torch.Tensor], bool]) -> bool | torch.Tensor:
    """Return True if a gradient is not all zero; for a large one, the first row of the last dimensions.

    A gradient without memory holds nothing that could be kept.
    """
    if not has_memory(gradient):
        return False
    with torch.no_grad():
        part: Any = gradient.detach()
        if hasattr(part, "to_local"):
            part = part.to_local()
        if part.layout != torch.strided:
            part = part._values() if part.layout == torch.sparse_coo else part.to_dense()
        while part.dim() > 1 and part.numel() > _MOST_LOOKED_AT:
            part = part[0]
        found = part[:_MOST_LOOKED_AT].any() if part.dim() else part != 0
        return found if is_late(found) else bool(found)
