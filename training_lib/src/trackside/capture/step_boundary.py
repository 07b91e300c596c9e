"""When a training step ends: after the optimizer's step; with several optimizers, after each has stepped once."""

from __future__ import annotations

import weakref
from typing import Any


class StepBoundary:
    """Watches optimizers come and step; each is any object that can be weakly referenced.

    A step ends when every optimizer has stepped. One that stays behind when another already steps again is not waited
    for any more (the generator behind five critic steps, an optimizer made for a later phase, a wrapper that never
    steps itself); its steps then count to the step that is open. So is it when one that has stepped is gone by the next
    step: it was replaced. None is kept alive by this.
    """

    def __init__(self) -> None:
        self._live: weakref.WeakSet[Any] = weakref.WeakSet()
        self._dormant: weakref.WeakSet[Any] = weakref.WeakSet()
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._steps = 0  # how many were put into `_stepped`, the dead ones too
        self._latest = 0

    @property
    def is_open(self) -> bool:
        """True if an optimizer has stepped since the last boundary."""
        return self._steps > 0

    def created(self, optimizer: Any) -> None:
        """Tells of a new optimizer."""
        self._live.add(optimizer)

    def knows(self, optimizer: Any) -> bool:
        """True if it was told of, or has stepped."""
        return optimizer in self._live

    def ends_before(self, optimizer: Any) -> bool:
        """True if this step about to be made is the second of `optimizer`: the open step had ended already."""
        if id(optimizer) != self._latest:
            self._latest = id(optimizer)
            self._live.add(optimizer)  # a copy of one was never created
        if not self._steps or (optimizer not in self._stepped and len(self._stepped) == self._steps):
            return False
        for other in self._live:
            if other not in self._stepped:
                self._dormant.add(other)
        self._clear()
        return True

    def ends_after(self, optimizer: Any) -> bool:
        """True if the step that `optimizer` has just made was the last one waited for."""
        if len(self._live) <= 1:  # the ordinary case, on every step of every training
            return True
        self._stepped.add(optimizer)
        self._steps += 1
        if self._steps < len(self._live) - len(self._dormant):
            return False
        if any(other not in self._stepped for other in self._live if other not in self._dormant):
            return False
        self._clear()
        return True

    def _clear(self) -> None:
        self._stepped.clear()
        self._steps = 0
