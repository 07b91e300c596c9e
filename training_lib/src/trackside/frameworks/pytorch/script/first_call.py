"""The moment right before the first call of a module, at which a capture that the script directs begins."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.pytorch.optimizers.closures import closure_of, with_closure


class FirstCall:
    """A wrapper that calls `begin` once.

    The moment is right before the first call of a module for which `is_one` is True, or before the first backward pass
    if `may_be_loss` is True. If it lies within the closure of an optimizer's step, `before_step` is called next: with
    the optimizer and the arguments of its step, of which it returns others, or None.
    """

    def __init__(
        self,
        begin: Callable[[], object],
        *,
        is_one: Callable[[torch.nn.Module], bool],
        may_be_loss: Callable[[], bool],
        before_step: Callable[[Optimizer, Any, Any], tuple[Any, Any] | None],
    ) -> None:
        self._begin, self._is_one, self._may_be_loss = begin, is_one, may_be_loss
        self._before_step = before_step
        self._is_pending = True
        self._undo = [
            _replaced(torch.nn.Module, "__call__", self._call_wrapper),
            _replaced(torch.autograd, "backward", self._backward_wrapper),
            register_optimizer_step_pre_hook(self._step_begins).remove,
        ]

    def remove(self) -> None:
        """Remove the wrapper."""
        self._is_pending = False
        for undo in self._undo:
            undo()

    def _is_due(self) -> bool:
        if not self._is_pending or torch.compiler.is_compiling():
            return False
        return torch.utils.data.get_worker_info() is None

    def _step_begins(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Wrap the closure of an optimizer's step: the first call of the model may lie within it."""
        closure = closure_of(args, kwargs) if self._is_due() else None
        if closure is None:
            return None
        chosen: list[Callable[..., Any]] = []  # the one to call from then on

        @functools.wraps(closure, updated=())
        def observed(*closure_args: Any, **closure_kwargs: Any) -> Any:
            if not chosen:
                chosen.append(closure)
                if self._is_pending:
                    self.remove()
                    self._begin()
                    given = self._before_step(optimizer, *with_closure(closure, args, kwargs))
                    chosen[0] = closure if given is None else closure_of(*given) or closure
            return chosen[0](*closure_args, **closure_kwargs)

        return with_closure(observed, args, kwargs)

    def _call_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        first = self

        @functools.wraps(original)
        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it replaces one
            if not first._is_due() or not first._is_one(self):
                return original(self, *args, **kwargs)
            first.remove()
            first._begin()
            # What the capture has just put in place must see this call too.
            return torch.nn.Module.__call__(self, *args, **kwargs)

        return __call__

    def _backward_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not self._is_due() or not self._may_be_loss():
                return original(*args, **kwargs)
            self.remove()
            self._begin()
            return torch.autograd.backward(*args, **kwargs)

        return backward


def _replaced(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[], None]:
    """Replace a function by a wrapper.

    Return the function that undoes it; below another library's wrapper it stays, inert.
    """
    original = getattr(owner, name)
    stand_in = wrapper(original)
    skip_frame(stand_in)
    setattr(owner, name, stand_in)

    def undo() -> None:
        if getattr(owner, name) is stand_in:
            setattr(owner, name, original)

    return undo
