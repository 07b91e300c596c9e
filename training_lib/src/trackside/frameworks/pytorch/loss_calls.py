"""Sees calls of the loss functions of torch.nn.functional, for as long as an evaluation lasts.

They are replaced in that module's namespace only, so a script that took a function out of it before (`from
torch.nn.functional import cross_entropy`) calls the original and is not seen. `torch.jit.script` finds the original
through `__prepare_scriptable__`. In training nothing is replaced: there the graph tells the loss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from trackside.frameworks.pytorch.losses import LOSS_OF_FUNCTION
from trackside.frameworks.pytorch.tracing import skip_frame

Seen = Callable[[str, Any, Any, Any], None]


class LossCalls:
    """Replaces the functions and puts them back. `seen(loss_name, args, kwargs, result)` must not raise."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._depth = 0
        self._replaced: dict[str, tuple[Any, Any]] = {}

    def switch(self, *, on: bool) -> None:
        """Makes calls seen, or no longer seen."""
        if on and not self._replaced:
            for name, loss_name in LOSS_OF_FUNCTION.items():
                original = getattr(functional, name, None)
                if original is not None:
                    stand_in = self._stand_in(original, loss_name)
                    self._replaced[name] = (original, stand_in)
                    setattr(functional, name, stand_in)
        elif not on:
            for name, (original, stand_in) in self._replaced.items():
                if getattr(functional, name) is stand_in:
                    setattr(functional, name, original)
            self._replaced = {}

    def _stand_in(self, original: Any, loss_name: str) -> Any:
        is_compiling = torch.compiler.is_compiling

        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self._depth:
                return original(*args, **kwargs)
            self._depth += 1  # a tensor of a subclass has the function called again, inside of itself
            try:
                result = original(*args, **kwargs)
            finally:
                self._depth -= 1
            self._seen(loss_name, args, kwargs, result)
            return result

        function.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined] # torch.jit asks for it
        skip_frame(function)
        return function
