"""`functools.cached_property` as Python has it from 3.12 on: without a lock.

Before 3.12 one lock serves a property of all objects of a class, and is held while the value is computed. A rule in a
thread of its own that waits for the run while it computes one then stops whoever reads the same property of another
object, and if that one holds the run, both for good.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")

__all__ = ["cached_property"]

if sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(Generic[T]):  # noqa: N801 - it has the name of Python's
        """A value that is computed at its first use, and kept in the object's `__dict__`.

        Two threads may both compute it, and the later value stays.
        """

        def __init__(self, func: Callable[[Any], T]) -> None:
            self.func, self.attrname, self.__doc__ = func, func.__name__, func.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.attrname = name

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> cached_property[T]: ...
        @overload
        def __get__(self, instance: object, owner: type | None = None) -> T: ...
        def __get__(self, instance: object | None, owner: type | None = None) -> cached_property[T] | T:
            if instance is None:
                return self
            kept = instance.__dict__
            if self.attrname not in kept:
                kept[self.attrname] = self.func(instance)
            value: T = kept[self.attrname]
            return value
