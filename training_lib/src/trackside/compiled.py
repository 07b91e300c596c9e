"""The compiled code of the wheel `trackside-native`, where it is installed. All works without it, at a higher price."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

INTERFACE = 3  # of the compiled code that is called


@cache
def library() -> ctypes.CDLL | None:
    """Return the library of the installed wheel; None if it is missing, or not made for this interface or machine.

    The interpreter's lock is released while a function of it runs.
    """
    try:
        from trackside_native import LIBRARY

        found = ctypes.CDLL(str(LIBRARY))
        return found if found.trackside_interface() == INTERFACE else None
    except (ImportError, OSError, AttributeError):
        return None


def declared(function: Any, *types: Any, result: Any = None) -> Any:
    """Return a function of the library with the types of its arguments and its result declared."""
    function.argtypes, function.restype = types, result
    return function
