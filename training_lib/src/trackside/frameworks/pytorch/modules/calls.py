"""Observation of the calls of all modules, only while it is needed.

`torch.nn.Module.__call__` is replaced for as long as calls are wanted. Against hooks on modules this has four merits:
nothing is on the user's objects, so that pickling, copying and scripting a model never meet anything of ours; arming
costs the same for a thousand modules as for one; a call costs a fifth of one with a hook, which leaves PyTorch's fast
path; and `torch.compile` neither warns (as it does of global hooks) nor recompiles.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from trackside.frameworks.pytorch.compiling.tracing import skip_frame

# Each switch makes CPython forget what it had cached about every class of modules, and from 3.13 on a class is
# cached at most a thousand times. After so many switches the replacement stays, inert (0.2 us per call).
_MOST_SWITCHES = 200


class CallObserver(Protocol):
    """An observer of calls. Neither method may raise."""

    def before_call(self, module: torch.nn.Module, args: Any, kwargs: Any, *, is_outermost: bool) -> None:
        """Read the arguments of the module, before it can write over them."""

    def after_call(self, module: torch.nn.Module, output: Any) -> None:
        """Read the output of the module. Not called if the module raised."""


class _Depth(threading.local):
    """The number of open calls in this thread; replicas of DataParallel run in threads of their own."""

    value = 0


class ModuleCalls:
    """The switch, and the replacement of `Module.__call__` while it is on."""

    def __init__(self, observer: CallObserver) -> None:
        self.is_on = False
        self._observer = observer
        self._depth = _Depth()
        self._switches = 0

    def switch(self, *, on: bool) -> None:
        """Start to observe calls, or stop."""
        if on == self.is_on:
            return
        self.is_on = on
        if on:
            self._place()
        elif not on and self._switches < _MOST_SWITCHES:
            self._remove()

    def remove(self) -> None:
        """Leave PyTorch as it was."""
        self.is_on = False
        self._remove()

    @contextmanager
    def absent(self) -> Iterator[None]:
        """Remove every trace of ours within the block, so that code which looks `Module.__call__` up cannot keep it."""
        was_placed = _placed.calls is self
        self._remove()
        try:
            yield
        finally:
            if was_placed:
                self._place()

    def _place(self) -> None:
        if _placed.calls is not None:
            if not _placed.calls.is_on:  # it stayed below another library's wrapper
                _placed.calls = self
            return  # else there is a second capture in this process, and the first one stays
        _placed.original = torch.nn.Module.__call__
        _placed.calls = self
        self._switches += 1
        setattr(torch.nn.Module, "__call__", functools.wraps(_placed.original)(_stand_in))  # noqa: B010 - for mypy

    def _remove(self) -> None:
        # Below another library's wrapper ours stays, inert.
        if _placed.calls is self and torch.nn.Module.__call__ is _stand_in:
            setattr(torch.nn.Module, "__call__", _placed.original)  # noqa: B010 - as above
            _placed.calls = None

    def observe(self, module: torch.nn.Module, args: Any, kwargs: Any, original: Callable[..., Any]) -> Any:
        """Call the module, with calls of the observer before and after."""
        depth = self._depth
        is_outermost = depth.value == 0
        depth.value += 1
        try:
            self._observer.before_call(module, args, kwargs, is_outermost=is_outermost)
            output = original(module, *args, **kwargs)
            self._observer.after_call(module, output)
        finally:
            depth.value -= 1
        return output


class _Placed:
    """The replaced function, and the observation that replaced it.

    - `original`: PyTorch's own, kept until the process ends
    - `calls`: None while nothing is replaced
    """

    original: Callable[..., Any] = staticmethod(torch.nn.Module.__call__)
    calls: ModuleCalls | None = None


_placed = _Placed()


def _stand_in(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    # One function without a closure: the compiler remembers what it has seen in one, and would compile again.
    if torch.compiler.is_compiling():
        return _placed.original(self, *args, **kwargs)
    calls = _placed.calls
    if calls is None or not calls.is_on:
        return _placed.original(self, *args, **kwargs)
    return calls.observe(self, args, kwargs, _placed.original)


skip_frame(_stand_in)
skip_frame(ModuleCalls.observe)
