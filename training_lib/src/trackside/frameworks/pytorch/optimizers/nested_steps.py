"""Steps of an optimizer within another `step`, which are part of one step of the training.

- Within its own, as where a subclass calls `super().step()`. PyTorch puts its hooks around `step` of each class that
  has been made an optimizer of. So they are met twice in such a step, once for each class, if the script has an
  optimizer of the class above, too.
- Within that of a wrapper, which may call it several times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from torch.optim.optimizer import Optimizer

MOST_FRAMES = 200
_HOOKED = Optimizer.profile_hook_step(lambda _: None).__code__  # of each `step` with hooks around it


def nests(optimizer: Optimizer) -> bool:
    """Return True if a step of this optimizer may meet the hooks more than once."""
    return sum(hasattr(vars(kind).get("step"), "hooked") for kind in type(optimizer).__mro__) > 1


def is_within_own_step(optimizer: Optimizer) -> bool:
    """Return True, for a hook of a step that is being called, if the step is part of one of the same optimizer."""
    if not nests(optimizer):
        return False
    found, frame = 0, sys._getframe(1)
    for _ in range(MOST_FRAMES):
        found += frame.f_code is _HOOKED and frame.f_locals.get("self") is optimizer
        if found > 1 or frame.f_back is None:
            break
        frame = frame.f_back
    return found > 1


class WrappedSteps:
    """The steps of optimizers within one call of a wrapper's `step`: those after the first begin nothing new.

    A wrapper is another optimizer, or an object with the methods `step` and `zero_grad`. A script that steps twice by
    itself is none.

    Attributes:
        are_known: True once there was a further step.
    """

    def __init__(self) -> None:
        self.are_known = False
        self._outer = 0  # id of the optimizer whose step is under way
        self._made: set[int] = set()  # ids of others that have stepped within
        self._newest = (0, -1)  # id of the optimizer that stepped last, and the backward passes until then
        self._further = 0  # id of the optimizer with a further step under way

    def before(self, optimizer: Optimizer, passes: int, *, has_closure: bool = False) -> bool:
        """Return True if a step that begins is part of one: within the optimizer's own, or a further one.

        Args:
            optimizer: The optimizer.
            passes: Number of backward passes so far.
            has_closure: The step gets a closure: its own pass is still to come, as in every step of Lightning.
        """
        if is_within_own_step(optimizer):
            return True
        number = id(optimizer)
        if not self._outer or number == self._outer:
            if (number, passes) == self._newest and not has_closure and _is_wrapped(optimizer):
                return self._is_further(number)
            self._outer, self._made = number, set()
            return False
        if number not in self._made:
            return False
        if any(id(frame.f_locals.get("self")) == self._outer for frame in _frames() if frame.f_code is _HOOKED):
            return self._is_further(number)
        self._outer, self._made = number, set()  # that step has raised
        return False

    def after(self, optimizer: Optimizer, passes: int) -> bool:
        """Return True if a step that ends is part of one. Arguments as `before`."""
        if is_within_own_step(optimizer):
            return True
        number = id(optimizer)
        if number == self._further:
            self._further = 0
            return True
        self._newest = number, passes
        if number == self._outer:
            self._outer = 0
        else:
            self._made.add(number)
        return False

    def _is_further(self, number: int) -> bool:
        self.are_known, self._further = True, number
        return True


def _is_wrapped(optimizer: Optimizer) -> bool:
    """Return True within `step` of another object that is used in the place of an optimizer."""
    for frame in _frames():
        code = frame.f_code
        own = frame.f_locals.get(code.co_varnames[0]) if code.co_name == "step" and code.co_argcount else None
        if own is not None and own is not optimizer and hasattr(type(own), "zero_grad") and hasattr(type(own), "step"):
            return True
    return False


def _frames() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MOST_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back
