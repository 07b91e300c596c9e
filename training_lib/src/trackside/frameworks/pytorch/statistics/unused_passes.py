"""Backward passes with gradients that were cleared before an optimizer used them, as a loop skips a step by hand.

`if torch.isfinite(loss): optimizer.step()` is such a loop. What led to the gradients belongs to no step then. It shows
as the next pass begins: the gradients that the pass before had left are gone, or written over with zeros.

Some methods clear gradients in every step that they make, after they have read them: sharpness-aware minimisation, and
surgery on the gradients of several tasks. So nothing counts before a step was made without it. What a closure computes
within a step does not count either.

A loop that accumulates gradients and clears them before each pass steps on those of the last one alone. That shows in
each of its steps: batches were drawn between passes whose gradients were cleared, the weights stayed as they were in
between, and the optimizer used what the last pass had left. Methods of the kind above change the weights, write
gradients of their own, or stay with one batch. Where no DataLoader draws, the rows in the graphs tell batches apart:
they are read for some passes once gradients were cleared between two.

An optimizer that holds copies of the weights has no gradients of its own until its step. Then those of the model, which
no optimizer holds, are looked at.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import Optimizer

from trackside.frameworks.pytorch.statistics.cleared_gradients import (
    MOST_REMEMBERED,
    ClearedGradients,
    is_anywhere_nonzero,
)
from trackside.frameworks.pytorch.statistics.rows_of_passes import rows_of

_MOST_READ = 400  # passes with rows that are read, while no step is found
_FEWEST_BY_ROWS = 2  # cleared passes of a step: one may be for another purpose, as to measure a gradient
_CERTAIN = 40  # steps of cleared batches, after which their rows are read no more
_Reference = Callable[[], torch.Tensor | None]
_Left = tuple[_Reference, int]  # a parameter, and the writes to its gradient
_Seen = tuple[_Reference | None, int]  # a gradient, and the writes to it; None, 0 without one


class _Passed(NamedTuple):
    """A parameter right after a backward pass, the writes to it, its gradient, and the writes to that."""

    parameter: _Reference
    writes: int
    gradient: _Reference
    gradient_writes: int

    @classmethod
    def of(cls, parameter: torch.Tensor) -> _Passed:
        gradient: Any = parameter.grad
        return cls(weakref.ref(parameter), parameter._version, weakref.ref(gradient), gradient._version)

    def has_stayed(self) -> bool:
        """Return True if nothing has written to the parameter."""
        parameter = self.parameter()
        return parameter is not None and parameter._version == self.writes

    def is_as_left(self, *, is_clipped: bool) -> bool:
        """Return True if the gradient is the one that the pass left, clipped at most."""
        parameter, gradient = self.parameter(), self.gradient()
        if parameter is None or gradient is None or parameter.grad is not gradient:
            return False
        return 0 <= gradient._version - self.gradient_writes <= is_clipped


class UnusedPasses:
    """The passes since the newest step. Call the methods of passes around each, and `step_ended` after each step.

    Attributes:
        is_stepping: True within an optimizer's step.
        reads_rows: True while the rows of passes are read.
        is_certain: True once passes without a step are known to be none of a method's own.
        found: Called with each group of passes that led to no step; set by who wants to know.
        may_read: Returns True if no other thread can be writing gradients of an optimizer's parameters, or for None of
            those that none holds.

    Args:
        cleared: Holds the parameters of optimizers whose gradients are looked at.
        outside: Returns the trained parameters that no optimizer holds.
        protect: Makes a function harmless.
    """

    def __init__(
        self,
        cleared: ClearedGradients,
        *,
        outside: Callable[[], Iterable[torch.Tensor]],
        protect: Callable[[Callable[..., None]], Callable[..., None]],
    ) -> None:
        self._cleared, self._outside = cleared, outside
        self._copied: list[_Reference] = []  # parameters of which the optimizers hold copies
        self._before: dict[int, _Seen] = {}  # the gradients before the pass, by the id of their parameter
        self.is_stepping = self.is_certain = False
        self.found: Callable[[], None] = lambda: None
        self.may_read: Callable[[Optimizer | None], bool] = lambda optimizer: True
        self._left: list[_Left] = []
        self._is_cleared_within = False  # between two passes of the open step
        self._passed: list[_Passed] = []  # since the newest pass
        self._is_drawn = self._is_clipped = False  # a batch, or the gradients, since then
        self._wasted = 0  # passes of the open step whose gradients were cleared, before one of another batch
        self.reads_rows = False
        self._to_read, self._steps_by_rows = _MOST_READ, 0
        self._rows = frozenset[bytes]()  # of the newest pass
        self._cleared_rows: list[frozenset[bytes]] = []  # of passes of the open step whose gradients were cleared
        self.before_backward = protect(self._before_backward)
        self.after_backward = protect(self._after_backward)

    def forget(self) -> None:
        """Begin anew: the passes so far have led to a step, or are counted."""
        self._left, self._passed, self._wasted = [], [], 0
        self._cleared_rows = []

    def batch_drawn(self) -> None:
        """Note that a DataLoader has returned a batch for the training."""
        self._is_drawn = True

    def clipped(self) -> None:
        """Note that gradients were clipped."""
        self._is_clipped = True

    def step_ended(self) -> int:
        """Note that an optimizer has used the gradients.

        Return the number of passes of other batches that led to none of them.
        """
        by_rows = self._wasted_by_rows()
        wasted, self._wasted = self._wasted + by_rows, 0
        is_as_left = wasted and all(each.is_as_left(is_clipped=self._is_clipped) for each in self._passed)
        if is_as_left and by_rows:
            self._steps_by_rows, self._to_read = self._steps_by_rows + 1, _MOST_READ
            self.reads_rows = self._steps_by_rows < _CERTAIN
        self._passed = []
        self.is_certain = self.is_certain or (bool(self._left) and not self._is_cleared_within)
        self.is_stepping = self._is_cleared_within = False
        self._left = []
        return wasted if is_as_left else 0

    def _before_backward(self, loss: Any = None) -> None:
        if self.is_stepping or torch._C._current_graph_task_id() != -1:
            return
        self._find_cleared()
        parameters = [p for reference in self._cleared.with_gradients() if (p := reference()) is not None]
        self._before = {id(parameter): _seen(parameter) for parameter in parameters}
        if self.reads_rows:
            self._read_rows(loss)

    def _find_cleared(self) -> None:
        if self._left and all(self._is_gone(*left) for left in self._left):
            self._left, self._is_cleared_within = [], True
            if all(each.has_stayed() for each in self._passed):
                if self._is_drawn or self._steps_by_rows >= _CERTAIN:
                    self._wasted += 1
                elif self._to_read:
                    self.reads_rows = True
                    self._cleared_rows.append(self._rows)
            if self.is_certain:
                self.found()
                self._is_cleared_within = False

    def _read_rows(self, loss: Any) -> None:
        self._to_read -= 1
        self.reads_rows = self._to_read > 0
        try:
            self._rows = rows_of(loss) if self.reads_rows else frozenset()
        except RuntimeError:  # the script has written over what the graph keeps
            self._rows = frozenset()

    def _wasted_by_rows(self) -> int:
        """Return the number of cleared passes of the step with rows that are none of those of the last pass."""
        cleared, self._cleared_rows = self._cleared_rows, []
        count = sum(bool(rows and self._rows) and rows.isdisjoint(self._rows) for rows in cleared)
        return count if count >= _FEWEST_BY_ROWS else 0

    def _after_backward(self) -> None:
        if self.is_stepping or torch._C._current_graph_task_id() != -1:
            return
        watched: list[_Reference] = [*self._cleared.with_gradients()]
        self._left = [(one, gradient._version) for one in watched if (gradient := self._new_gradient(one)) is not None]
        if watched and not self._left:
            self._left = self._left_outside()
        self._passed = [_Passed.of(parameter) for one, _ in self._left if (parameter := one()) is not None]
        self._is_drawn = self._is_clipped = False

    def _new_gradient(self, reference: _Reference) -> torch.Tensor | None:
        """Return the gradient of a parameter, if the pass wrote to it."""
        parameter = reference()
        gradient = None if parameter is None else parameter.grad
        if gradient is None:
            return None
        before, writes = self._before.get(id(parameter), (None, 0))
        is_old = before is not None and before() is gradient and gradient._version == writes
        return None if is_old else gradient

    def _left_outside(self) -> list[_Left]:
        """Return the gradients that the pass left in parameters that no optimizer holds."""
        if not self.may_read(None):
            return []
        held = [(one, parameter) for one in self._copied if (parameter := one()) is not None]
        if not held:
            found = itertools.islice((p for p in self._outside() if p.grad is not None), MOST_REMEMBERED)
            held = [(weakref.ref(parameter), parameter) for parameter in found]
            self._copied = [one for one, _ in held]
        return [(one, parameter.grad._version) for one, parameter in held if parameter.grad is not None]

    def _is_gone(self, reference: Callable[[], torch.Tensor | None], writes: int) -> bool:
        parameter = reference()
        gradient = None if parameter is None else parameter.grad
        if gradient is None:
            return True
        if gradient._version == writes or self._cleared.is_late(gradient):
            return False
        return is_anywhere_nonzero(gradient, self._cleared.is_late) is False


def _seen(parameter: torch.Tensor) -> _Seen:
    gradient = parameter.grad
    return (None, 0) if gradient is None else (weakref.ref(gradient), gradient._version)
