"""Steps that run eagerly where torch.compile is in use, so that the modules inside can be seen."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from trackside.frameworks.pytorch.compiling.tracing import skip_frame


class EagerSteps:
    """A switch of the compiler's stance to `force_eager` for a while, and back to the user's own.

    `torch.compile` is wrapped to learn that the compiler is in use: importing the compiler to find out would take
    seconds. With `is_allowed` False the stance is never touched.
    """

    def __init__(self, *, is_allowed: bool) -> None:
        self.is_compiler_used = False
        self.used: Callable[[], object] = lambda: None  # called with the first use
        self.is_allowed = is_allowed
        self._is_wanted = False
        self._stance: Any = None

    def install(self, absent: Callable[[], AbstractContextManager[None]]) -> Callable[[], None]:
        """Wrap `torch.compile`; while it runs, `absent` holds. Return the function that undoes it."""
        original = torch.compile
        met = self._compiler_met

        @functools.wraps(original)
        def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001 - it replaces one
            with absent():
                result = original(*args, **kwargs)
            met()
            return result

        skip_frame(compile)
        torch.compile = compile
        return functools.partial(setattr, torch, "compile", original)

    def switch(self, *, on: bool) -> None:
        """Request eager execution from now on, or end it."""
        self._is_wanted = on
        if on:
            self._enter()
        else:
            self._leave()

    def _compiler_met(self) -> None:
        if not self.is_compiler_used:
            self.is_compiler_used = True
            self.used()
        if self._is_wanted:
            self._enter()

    def _enter(self) -> None:
        can_be_set = self.is_allowed and "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance")
        if self._stance is None and can_be_set:
            self._stance = torch.compiler.set_stance("force_eager")

    def _leave(self) -> None:
        stance, self._stance = self._stance, None
        if stance is None:
            return
        current = getattr(sys.modules["torch._dynamo.eval_frame"], "_stance", stance.stance)
        if current is stance.stance:  # else the user has set another in the meantime, and it is the user's
            stance.__exit__(None, None, None)
