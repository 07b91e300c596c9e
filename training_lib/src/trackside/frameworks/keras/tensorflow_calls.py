"""The calls of TensorFlow that show a loop by hand: of a compiled function, and of a gradient tape."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Protocol

import keras

from trackside.frameworks.adapter import Undo
from trackside.frameworks.keras.replacement import replaced


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


def listen_to_tensorflow(listener: TapeListener) -> list[Undo]:
    """Call the listener from now on, if Keras runs on TensorFlow. Return the functions that undo it."""
    if keras.backend.backend() != "tensorflow":
        return []
    tensorflow = sys.modules["tensorflow"]
    tape = tensorflow.GradientTape
    return [
        replaced(
            type(tensorflow.function(_nothing)),
            "__call__",
            functools.partial(_function, listener, tensorflow.executing_eagerly),
        ),
        replaced(tape, "__enter__", functools.partial(_enter, listener)),
        replaced(tape, "__exit__", functools.partial(_exit, listener)),
        replaced(tape, "gradient", functools.partial(_gradient, listener)),
    ]


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
