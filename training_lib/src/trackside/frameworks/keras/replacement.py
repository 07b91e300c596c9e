"""The replacement of a method in the class that defines it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from trackside.frameworks.adapter import Undo


def replaced(owner: type, name: str, wrap: Callable[[Any], Any]) -> Undo:
    """Replace a method in the class that defines it. Return the function that undoes it."""
    home = next(kind for kind in owner.__mro__ if name in vars(kind))
    original = vars(home)[name]
    wrapped = wrap(original)
    wrapped.__signature__ = inspect.signature(original)  # Keras looks at arguments, and not through wrappers
    setattr(home, name, wrapped)

    def undo() -> None:
        if vars(home).get(name) is wrapped:
            setattr(home, name, original)

    return undo
