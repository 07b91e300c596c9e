"""Captures a training of MXNet 1.9 by Gluon: a step is an update of a `gluon.Trainer`.

The loss is the mean of what `backward` is called on. Weights and gradients are read right before the update. All three
are the same for imperative and hybridized networks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import mxnet
import numpy as np
from numpy.typing import NDArray

from trackside.adapters.mxnet.operators import OperatorProfiler
from trackside.contracts.run.uncaptured import UncapturedProcess
from trackside.environment import CaptureEnvironment
from trackside.frameworks.plain.adapter import PlainAdapter
from trackside.frameworks.plain.run import named
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace


class MXNetAdapter(PlainAdapter):
    """The adapter of MXNet; see `frameworks/shared/adapter.py`.

    Attributes:
        updates: The number of updates so far.
        awaited: The number of updates with numbers that are waited for.
    """

    def __init__(self, environment: CaptureEnvironment) -> None:
        self._profiler = OperatorProfiler()
        super().__init__(environment, framework="mxnet", begin_operators=self._profiler.begin)
        self.updates, self.awaited = 0, -1
        self.session.statistics.wait = lambda seconds: self._await_all()
        self._undo: Undo | None = None
        guard = self.session.guard
        self._passed_back = guard.protect("recording a loss", self._add_losses)
        self._updating = guard.protect("recording parameters", self._add_parameters)
        self._updated = guard.protect("ending a step", self._end_update)

    @property
    def has_begun(self) -> bool:
        """True once the first backward pass has begun."""
        return self.session.has_begun

    def signs(self) -> UncapturedProcess:
        """Return the signs of training before the first backward pass: none is known."""
        return UncapturedProcess()

    def install(self) -> None:
        """Listen to backward passes and updates. The first backward pass begins the run."""
        undo_backward = replace([(mxnet.nd.NDArray, "backward"), (mxnet.autograd, "backward")], self._passing_back)
        undo_update = replace([(mxnet.gluon.Trainer, "_update")], self._around_update)
        undo_profiler = self._profiler.listen()
        self._undo = lambda: (undo_profiler(), undo_update(), undo_backward())

    def uninstall(self) -> None:
        """Close the run, and leave MXNet as it was."""
        super().uninstall()
        if self._undo is not None:
            self._undo()
            self._undo = None

    def _passing_back(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(backward)
        def passed_back(heads: Any, *args: Any, **kwargs: Any) -> Any:
            if not args and not kwargs.keys() & {"out_grad", "head_grads"}:  # else it is no loss
                self._passed_back(heads)
            return backward(heads, *args, **kwargs)

        return passed_back

    def _around_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(update)
        def updated(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            self._updating(trainer)
            found = update(trainer, *args, **kwargs)
            self._updated()
            return found

        return updated

    def _add_losses(self, heads: Any) -> None:
        if in_charge.is_others(self):
            return
        if not self.session.has_begun:
            super().install()
        for head in heads if isinstance(heads, Iterable) and not isinstance(heads, mxnet.nd.NDArray) else [heads]:
            with mxnet.autograd.pause():
                self.add_loss("loss", Later(head.mean(), self))

    def _add_parameters(self, trainer: Any) -> None:
        if not self.session.has_begun or not self.takes_parameters:
            return
        factor = trainer._optimizer.rescale_grad  # of the size of the batch; the update applies it
        dense = [
            each
            for each in trainer._params
            if each.grad_req != "null" and each._stype == "default" and each._grad_stype == "default"
        ]
        weights = {each.name: each.list_data()[0].asnumpy() for each in dense}
        gradients = {each.name: each.list_grad()[0].asnumpy() * factor for each in dense}
        self.add_parameters(named(weights), named(gradients), {}, trainer.learning_rate)

    def _await_all(self) -> None:
        self.awaited = self.updates

    def _end_update(self) -> None:
        if self.session.has_begun:
            self.updates += 1
            self.end_step()


class Counting(Protocol):
    """An adapter that counts its steps.

    Attributes:
        updates: The number of steps so far.
        awaited: The number of steps with numbers that are waited for.
    """

    updates: int
    awaited: int


class Later:
    """A number that MXNet computes in the background. It is taken for computed one step later, or at the end."""

    def __init__(self, value: Any, adapter: Counting) -> None:
        self._value, self._adapter, self._at = value, adapter, adapter.updates

    def is_here(self) -> bool:
        """Return True if `get` hardly waits."""
        return self._adapter.updates > self._at + 1 or self._adapter.awaited >= self._at

    def get(self) -> NDArray[np.float64]:
        """Return it as an array of one element."""
        return np.asarray(self._value.asnumpy(), np.float64).reshape(1)
