"""A flag that shows if any module was called since it was last reset: one comparison for each call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from trackside.frameworks.pytorch.compiling.tracing import skip_frame


class CallFlag:
    """A flag: set `was_called` to False, and it becomes True once a module is called."""

    def __init__(self) -> None:
        self.was_called = False
        self._original = torch.nn.Module.__call__
        self._stand_in = self._wrapper(self._original)
        setattr(torch.nn.Module, "__call__", self._stand_in)  # noqa: B010 - mypy forbids assigning to a method

    def remove(self) -> None:
        """Remove the wrapper. Below another library's wrapper it stays, inert."""
        self.was_called = True
        if torch.nn.Module.__call__ is self._stand_in:
            setattr(torch.nn.Module, "__call__", self._original)  # noqa: B010 - as above

    def _wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        flag = self

        @functools.wraps(original)
        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it replaces one
            if not flag.was_called and not torch.compiler.is_compiling():
                flag.was_called = True
            return original(self, *args, **kwargs)

        skip_frame(__call__)
        return __call__
