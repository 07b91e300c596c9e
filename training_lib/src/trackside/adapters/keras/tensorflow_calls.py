"""The calls of TensorFlow that show a loop by hand: of a compiled function, and of a gradient tape."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Protocol

import keras

from trackside.adapters.keras.replacement import replaced, replacement
from trackside.frameworks.shared.adapter import StepHook, Undo


class TapeListener(Protocol):
    """A receiver of these calls. Only `function_called` raises, and only what the function raises."""

    def function_called(self, function: Any, call: Callable[[], Any], argument: Any) -> Any:
        """Make `call`, once, which calls a function that TensorFlow compiles, with this first argument.

        Return its result.
        """

    def tape_began(self) -> None:
        """Handle the start of a tape's recording."""

    def tape_ended(self) -> None:
        """Handle its end."""

    def slopes_requested(self, target: Any, sources: Any) -> None:
        """Handle a request for the gradients of a target."""


def listen_to_functions(listener: TapeListener) -> list[Undo]:
    """Call the listener at compiled functions from now on, on TensorFlow. Return the functions that undo it."""
    if keras.backend.backend() != "tensorflow":
        return []
    tensorflow = sys.modules["tensorflow"]
    called = functools.partial(_function, listener, tensorflow.executing_eagerly)
    return [replaced(type(tensorflow.function(_nothing)), "__call__", called)]


def tape_hooks(listener: TapeListener) -> list[StepHook]:
    """Return the replaced methods of gradient tapes, on TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        return []
    wraps = {"__enter__": _enter, "__exit__": _exit, "gradient": _gradient}
    tape = sys.modules["tensorflow"].GradientTape
    return [replacement(tape, name, functools.partial(wrap, listener)) for name, wrap in wraps.items()]


def _nothing() -> None:
    """Do nothing: the class of compiled functions is found by this one."""


def _function(listener: TapeListener, is_outermost: Callable[[], bool], original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_outermost():  # but a part of a graph, as in the `map` of a data set
            return original(self, *args, **kwargs)
        argument = args[0] if args else None
        return listener.function_called(self, functools.partial(original, self, *args, **kwargs), argument)

    return call


def _enter(listener: TapeListener, original: Any) -> Any:
    @functools.wraps(original)
    def enter(self: Any) -> Any:
        listener.tape_began()
        return original(self)

    return enter


def _exit(listener: TapeListener, original: Any) -> Any:
    @functools.wraps(original)
    def leave(self: Any, *error: Any) -> Any:
        listener.tape_ended()
        return original(self, *error)

    return leave


def _gradient(listener: TapeListener, original: Any) -> Any:
    @functools.wraps(original)
    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        listener.slopes_requested(target, sources)
        return original(self, target, sources, *args, **kwargs)

    return gradient
