"""The end of a training step: after the optimizer's step; with several optimizers, after each has stepped once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any


class StepBoundary:
    """The optimizers of a training and their steps. An optimizer is any object that can be weakly referenced.

    A step ends when every optimizer has stepped. Exceptions:

    - One that has not stepped when another steps again is not waited for any more (the generator behind five critic
      steps,
      an optimizer made for a later phase, a wrapper that never steps itself). Its steps then count to the open step.
    - One that has stepped and no longer exists at the next step was replaced, and is not waited for.

    No optimizer is kept alive by this object.

    Until then the step may or may not be over. After each step of an optimizer, `OpenStep.settle` marks the tensors
    that certainly belong to the step. Later ones belong to the next step if this one turns out to have ended.
    """

    def __init__(self) -> None:
        self._live: weakref.WeakSet[Any] = weakref.WeakSet()
        self._dormant: weakref.WeakSet[Any] = weakref.WeakSet()
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._skipped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._has_skipped = False  # perhaps: a look into the set takes longer
        self._known_to_step: weakref.WeakSet[Any] = weakref.WeakSet()  # seen to, since there were several
        self._steps = 0  # how many were put into `_stepped`, the dead ones too
        self._latest = 0

    @property
    def is_open(self) -> bool:
        """True if an optimizer has stepped since the last boundary."""
        return self._steps > 0

    @property
    def has_one(self) -> bool:
        """True if at most one optimizer exists, so that each of its steps ends a training step."""
        return len(self._live) <= 1

    def created(self, optimizer: Any) -> None:
        """Add a new optimizer."""
        self._live.add(optimizer)

    def forget(self, optimizer: Any) -> None:
        """Leave an optimizer out: it trains another model."""
        self._live.discard(optimizer)

    def contains(self, optimizer: Any) -> bool:
        """Return True if the optimizer was added, or has stepped."""
        return optimizer in self._live

    def ends_before(self, optimizer: Any) -> bool:
        """Return True if the step that `optimizer` is about to make is its second: the open step had ended already."""
        if id(optimizer) != self._latest:
            self._latest = id(optimizer)
            self._live.add(optimizer)  # a copy of one was never created
        if not (self._steps or self._has_skipped):  # the ordinary case, on every step of every training
            return False
        if optimizer in self._skipped:  # a new round
            self._clear_skipped()
            return self._ends_here() if self._steps else False
        if not self._steps or (optimizer not in self._stepped and len(self._stepped) == self._steps):
            return False
        return self._ends_here()

    def ends_with_validation(self) -> bool:
        """Return True if the open step has ended because a validation begins: the awaited ones have never stepped."""
        if not self._steps or any(other in self._known_to_step for other in self._awaited()):
            return False
        return self._ends_here()

    def skipped(self, optimizer: Any) -> bool:
        """Note that a step of `optimizer` was skipped: it is not waited for. Return True if that ends the open step."""
        if len(self._live) <= 1 or optimizer not in self._live:
            return False
        if optimizer in self._skipped:
            self._skipped.clear()
        self._skipped.add(optimizer)
        self._has_skipped = True
        self._known_to_step.add(optimizer)
        return bool(self._steps) and self._is_complete()

    def ends_after(self, optimizer: Any) -> bool:
        """Return True if the step that `optimizer` has just made was the last one awaited."""
        if len(self._live) <= 1:  # the ordinary case
            return True
        self._stepped.add(optimizer)
        self._known_to_step.add(optimizer)
        self._steps += 1
        return self._is_complete()

    def _is_complete(self) -> bool:
        if self._steps + len(self._skipped) < len(self._live) - len(self._dormant):
            return False
        if any(other not in self._dormant for other in self._awaited()):
            return False
        self._clear()
        return True

    def _awaited(self) -> Iterator[Any]:
        return (other for other in self._live if other not in self._stepped and other not in self._skipped)

    def _ends_here(self) -> bool:
        for other in self._awaited():
            self._dormant.add(other)
        self._clear()
        return True

    def _clear(self) -> None:
        self._stepped.clear()
        self._clear_skipped()
        self._steps = 0

    def _clear_skipped(self) -> None:
        self._skipped.clear()
        self._has_skipped = False
