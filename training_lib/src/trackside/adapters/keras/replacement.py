"""The replacement of a method in the class that defines it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import ReplacedFunction


def replaced(owner: type, name: str, wrap: Callable[[Any], Any]) -> Undo:
    """Replace a method in the class that defines it. Return the function that undoes it."""
    method = replacement(owner, name, wrap)
    method.put_in()
    return method.take_out


def replacement(owner: type, name: str, wrap: Callable[[Any], Any]) -> ReplacedFunction:
    """Return the same, to be put in and taken out."""

    def signed(original: Any) -> Any:
        wrapped = wrap(original)
        wrapped.__signature__ = inspect.signature(original)  # Keras looks at arguments, and not through wrappers
        return wrapped

    return ReplacedFunction(next(kind for kind in owner.__mro__ if name in vars(kind)), name, signed)
