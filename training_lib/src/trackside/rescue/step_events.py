"""The steps of all optimizers of a process: PyTorch's, those that a gradient scaler leaves out, and Keras's."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.shared.replaced_methods import ReplacedFunction

Handler = Callable[[Optimizer], object]


class StepEvents:
    """Calls handlers around each step.

    Args:
        before: Handles the moment before a step.
        after: Handles the moment after a step.
        skipped: Handles the moment after a gradient scaler has left a step out, as a gradient was not finite.
    """

    def __init__(self, before: Handler, after: Handler, skipped: Handler) -> None:
        self._before, self._after, self._skipped = before, after, skipped
        self._made = 0
        self._handles: list[Any] = []
        self._of_scaler = ReplacedFunction(torch.amp.grad_scaler.GradScaler, "step", self._watched_scaler)
        self._of_keras: ReplacedFunction | None = None
        self._stand_ins: weakref.WeakKeyDictionary[Any, KerasOptimizer] = weakref.WeakKeyDictionary()

    def put_in(self) -> None:
        """Begin."""

        def before_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
            self._before(optimizer)

        def after_step(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
            self._made += 1
            self._after(optimizer)

        skip_frame(before_step)
        skip_frame(after_step)
        self._handles = [register_optimizer_step_pre_hook(before_step), register_optimizer_step_post_hook(after_step)]
        self._of_scaler.put_in()

    def watch_keras(self) -> None:
        """Begin with the optimizers of Keras on PyTorch, once it is imported."""
        keras = sys.modules.get("keras")
        if keras is None or self._of_keras is not None or not hasattr(keras, "Optimizer"):
            return
        owner = next((kind for kind in keras.Optimizer.__mro__ if "apply" in vars(kind)), None)
        if owner is not None and keras.backend.backend() == "torch":
            self._of_keras = ReplacedFunction(owner, "apply", self._watched_apply)
            self._of_keras.put_in()

    def take_out(self) -> None:
        """End. Only tests need it: PyTorch's tables of hooks must not change while they are called."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._of_scaler.take_out()
        if self._of_keras is not None:
            self._of_keras.take_out()

    def _watched_scaler(self, original: Any) -> Any:
        events = self

        @functools.wraps(original)
        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            made = events._made
            result = original(self, *args, **kwargs)
            optimizer = kwargs.get("optimizer", args[0] if args else None)
            if events._made == made and isinstance(optimizer, Optimizer):
                events._skipped(optimizer)
            return result

        skip_frame(step)
        return step

    def _watched_apply(self, original: Any) -> Any:
        events = self

        @functools.wraps(original)
        def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
            stand_in = events._stand_ins.get(self)
            if stand_in is None:
                stand_in = events._stand_ins[self] = KerasOptimizer(self)
            events._before(stand_in)
            result = original(self, *args, **kwargs)
            events._after(stand_in)
            return result

        skip_frame(apply)
        return apply


class KerasOptimizer(Optimizer):
    """An optimizer of PyTorch in the place of one of Keras, with its weights, rate and state. It never steps.

    Args:
        original: Keras's. It is not kept alive.
    """

    def __init__(self, original: Any) -> None:  # the base's would copy the groups
        self._original = weakref.ref(original)
        self.defaults: dict[str, Any] = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override] # the base stores them
        """The trained weights and the rate, in the optimizer's own tensor unless a schedule computes it."""
        original = self._original()
        if original is None:
            return []
        rate = getattr(original, "learning_rate", 0.0)
        weights = [each.value for each in getattr(original, "_trainable_variables", ())]
        return [{"params": weights, "lr": getattr(rate, "value", rate)}]

    @property
    def state(self) -> dict[Any, Any]:  # type: ignore[override] # as above
        """All variables of the optimizer, by their numbers."""
        original = self._original()
        return dict(enumerate(each.value for each in original.variables)) if original is not None else {}
