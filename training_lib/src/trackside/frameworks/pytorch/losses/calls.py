"""Observation of calls of functions of torch.nn.functional, for as long as a validation lasts.

The code of a function is exchanged (its `__code__`), not the name in that module: scripts often take a function out of
it (`loss_fn = F.cross_entropy`, `from torch.nn.functional import cross_entropy`), and the function itself stays the
same object for code that compares, pickles or looks it up. In training nothing is exchanged: the graph shows the loss.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from trackside.frameworks.pytorch.compiling.tracing import skip_frame

Seen = Callable[[str, Any, Any, Any], None]


class _Exchange(NamedTuple):
    """The own code of a function, its code while watched, and the function that receives its calls."""

    function: FunctionType
    own: CodeType
    watched: CodeType
    stand_in: Any


class FunctionCalls:
    """A switch that exchanges the code of functions, and restores it.

    `names` gives each function's name in torch.nn.functional its name here. `seen(name, args, kwargs, result)` must not
    raise.
    """

    def __init__(self, names: Mapping[str, str], seen: Seen) -> None:
        self._names, self._seen = names, seen
        self._depth = 0
        self._is_on = False

    def switch(self, *, on: bool) -> None:
        """Start to observe calls, or stop."""
        if on is self._is_on:
            return
        self._is_on = on
        for function, own, watched, stand_in in self._exchanges:
            name, names = _name_in_globals(function), function.__globals__
            if on and function.__code__ is own:
                names[name] = stand_in
                function.__code__ = watched
            elif not on and function.__code__ is watched:
                function.__code__ = own
                names.pop(name, None)

    @functools.cached_property
    def _exchanges(self) -> Sequence[_Exchange]:
        """The exchanges, the same at each validation: code from torch.compile fits only the functions that it saw."""
        named = ((getattr(functional, name, None), loss_name) for name, loss_name in self._names.items())
        return [
            _Exchange(function, function.__code__, _calling_global(function), self._stand_in(function, loss_name))
            for function, loss_name in named
            if isinstance(function, FunctionType) and not function.__code__.co_freevars
        ]

    def _stand_in(self, watched: FunctionType, loss_name: str) -> Any:
        original = FunctionType(watched.__code__, watched.__globals__, watched.__name__, watched.__defaults__)
        original.__kwdefaults__ = watched.__kwdefaults__
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

        skip_frame(function)
        return function


def _name_in_globals(function: FunctionType) -> str:
    return f"_trackside_{function.__name__}"


def _calling_global(function: FunctionType) -> CodeType:
    """Return code with the parameters of `function` that passes all of them to its stand-in among the globals.

    It claims the place of the function: `inspect.getsource` and torch.jit look up the source by it.
    """
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    bare = [each.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty) for each in parameters]
    arguments = ", ".join(
        each.name if place < 2 else f"{each.name}={each.name}" for place, each in enumerate(parameters)
    )
    source = f"def {function.__name__}{inspect.Signature(bare)}: return {_name_in_globals(function)}({arguments})"
    made: dict[str, Any] = {}
    exec(source, made)  # noqa: S102  the names are those of torch's own function
    code: CodeType = made[function.__name__].__code__
    own = function.__code__
    return code.replace(co_filename=own.co_filename, co_firstlineno=own.co_firstlineno)
