"""Observation of calls of functions of torch.nn.functional, for as long as a validation lasts.

The code of a function is exchanged (its `__code__`), not the name in that module: scripts often take a function out of
it (`loss_fn = F.cross_entropy`, `from torch.nn.functional import cross_entropy`), and the function itself stays the
same object for code that compares, pickles or looks it up. In training nothing is exchanged: the graph shows the loss.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from trackside.frameworks.pytorch.compiling.tracing import skip_frame

Seen = Callable[[str, Any, Any, Any], None]


class _Exchange(NamedTuple):
    """The own code of a function, its code while watched, and the function that receives its calls."""

    function: Any  # of Python; with its own type, mypy binds it as a method
    own: CodeType
    watched: CodeType
    stand_in: Any

    def switch(self, *, on: bool) -> None:
        """Put the watched code in place, or the function's own."""
        name, names = _name_in_globals(self.function), self.function.__globals__
        if on and self.function.__code__ is self.own:
            names[name] = self.stand_in
            self.function.__code__ = self.watched
        elif not on and self.function.__code__ is self.watched:
            self.function.__code__ = self.own
            names.pop(name, None)


class FunctionCalls:
    """A switch that exchanges the code of functions, and restores it. Several captures may watch the same functions.

    `names` gives each function's name in torch.nn.functional its name here. `seen(name, args, kwargs, result)` must not
    raise.
    """

    def __init__(self, names: Mapping[str, str], seen: Seen) -> None:
        self.names, self.seen = names, seen
        self._is_on = False

    def switch(self, *, on: bool) -> None:
        """Start to observe calls, or stop."""
        if on is self._is_on:
            return
        self._is_on = on
        others = tuple(each for each in _watched.by if each is not self)
        _watched.by = (*others, self) if on else others
        for function_name in self.names:
            exchange = _watched.exchange(function_name)
            if exchange is not None:
                exchange.switch(on=any(function_name in each.names for each in _watched.by))


class _Watched:
    """The exchanges of this process.

    - `by`: the switches that are on
    - `depth`: how many watched functions are being called
    """

    def __init__(self) -> None:
        self.by: tuple[FunctionCalls, ...] = ()
        self.depth = 0
        self._exchanges: dict[str, _Exchange | None] = {}

    def exchange(self, function_name: str) -> _Exchange | None:
        """Return the exchange of a function of torch.nn.functional, the same each time; None if it cannot be watched.

        Code from torch.compile fits only the functions that it saw.
        """
        if function_name not in self._exchanges:
            function = getattr(functional, function_name, None)
            if isinstance(function, FunctionType) and not function.__code__.co_freevars:
                self._exchanges[function_name] = self._made(function_name, function)
            else:
                self._exchanges[function_name] = None
        return self._exchanges[function_name]

    def _made(self, function_name: str, function: FunctionType) -> _Exchange:
        stand_in = self._stand_in(function_name, function)
        return _Exchange(function, function.__code__, _calling_global(function), stand_in)

    def _stand_in(self, function_name: str, watched: FunctionType) -> Any:
        original = FunctionType(watched.__code__, watched.__globals__, watched.__name__, watched.__defaults__)
        original.__kwdefaults__ = watched.__kwdefaults__
        is_compiling = torch.compiler.is_compiling

        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or self.depth:
                return original(*args, **kwargs)
            self.depth += 1  # a tensor of a subclass has the function called again, inside of itself
            try:
                result = original(*args, **kwargs)
            finally:
                self.depth -= 1
            for each in self.by:
                if function_name in each.names:
                    each.seen(each.names[function_name], args, kwargs, result)
            return result

        skip_frame(function)
        return function


_watched = _Watched()


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
