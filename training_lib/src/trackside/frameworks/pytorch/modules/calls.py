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

    @property
    def depth(self) -> int:
        """Number of open calls of this thread, the newest included."""
        return self._depth.value

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
        calls, _placed.calls = _placed.calls, ()
        _restore()
        try:
            yield
        finally:
            for each in calls:
                each._place()

    def _place(self) -> None:
        if not _placed.is_placed:
            _placed.original, _placed.is_placed = torch.nn.Module.__call__, True
            self._switches += 1
            setattr(torch.nn.Module, "__call__", functools.wraps(_placed.original)(_stand_in))  # noqa: B010 - for mypy
        if self not in _placed.calls:
            _placed.calls = (*_placed.calls, self)

    def _remove(self) -> None:
        _placed.calls = tuple(each for each in _placed.calls if each is not self)
        if not _placed.calls:
            _restore()

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
    """The replaced function, and the observations that replaced it.

    - `original`: PyTorch's own, kept until the process ends
    - `is_placed`: True while the replacement is in place, perhaps below another library's wrapper
    - `calls`: one for each capture in the process that observes, or has observed, calls
    """

    original: Callable[..., Any] = staticmethod(torch.nn.Module.__call__)
    is_placed = False
    calls: tuple[ModuleCalls, ...] = ()


_placed = _Placed()


def _restore() -> None:
    """Put PyTorch's function back. Below another library's wrapper ours stays, inert."""
    if _placed.is_placed and torch.nn.Module.__call__ is _stand_in:
        setattr(torch.nn.Module, "__call__", _placed.original)  # noqa: B010 - for mypy
        _placed.is_placed = False


def _stand_in(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    # One function without a closure: the compiler remembers what it has seen in one, and would compile again.
    if torch.compiler.is_compiling():
        return _placed.original(self, *args, **kwargs)
    calls = _placed.calls
    if len(calls) != 1:
        return _observed(calls, self, args, kwargs)
    only = calls[0]
    return only.observe(self, args, kwargs, _placed.original) if only.is_on else _placed.original(self, *args, **kwargs)


def _observed(calls: tuple[ModuleCalls, ...], module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    """Call the module, observed by each of these captures."""
    while calls and not calls[0].is_on:
        calls = calls[1:]
    if not calls:
        return _placed.original(module, *args, **kwargs)
    if len(calls) == 1:
        return calls[0].observe(module, args, kwargs, _placed.original)
    others = calls[1:]

    def by_others(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return _observed(others, module, args, kwargs)

    skip_frame(by_others)
    return calls[0].observe(module, args, kwargs, by_others)


skip_frame(_stand_in)
skip_frame(_observed)
skip_frame(ModuleCalls.observe)
