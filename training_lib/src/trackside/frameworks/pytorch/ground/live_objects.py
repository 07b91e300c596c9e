"""Modules and optimizers that were not registered with us, found among all live objects.

A process that has imported PyTorch holds some 300,000 objects; walking over them takes tens of milliseconds. So all
searches of one moment share one walk.

Nobody may hold what other threads are just making: `tuple(...)` fails if somebody else has it as it grows. So one call
of a function in C asks for all objects and takes their types alone, since Python changes threads between calls and not
within one; and the objects are those that refer to a type sought.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from itertools import chain, islice
from typing import TypeVar

import torch
from torch.optim.optimizer import Optimizer

T = TypeVar("T")

_SOUGHT = (torch.nn.Module, Optimizer)

_look: list[object] | None = None
_is_one_look = False


def instances(kind: type[T]) -> list[T]:
    """Return all live objects of a kind of module or optimizer, by their type.

    Objects that imitate one are left out.
    """
    found = _found()
    return [o for o in found if issubclass(type(o), kind)]  # type: ignore[misc] # which mypy cannot follow


def types() -> set[type]:
    """Return the types of all live objects."""
    return set(list(map(type, _all())))  # noqa: C414 - a type may have a hash of its own, in Python


def of_types(kinds: AbstractSet[type]) -> list[object]:
    """Return all live objects of these very types.

    By type and not by isinstance, which would read the `__class__` of lazy proxies and so wake them up.
    """
    alive = types() & kinds
    return [found for found in gc.get_referrers(*alive) if type(found) in alive] if alive else []


def _all() -> Iterator[object]:
    """Return an iterator that asks for all live objects when it begins, and lets go of them as it ends."""
    return chain.from_iterable(islice(iter(gc.get_objects, None), 1))


@contextmanager
def one_look() -> Iterator[None]:
    """Share one search within the block, made at its first question. Objects that are made later are not found.

    A block within another one shares the outer search.
    """
    global _look, _is_one_look  # noqa: PLW0603 - there is one heap
    if _is_one_look:
        yield
        return
    _is_one_look = True
    try:
        yield
    finally:
        _look, _is_one_look = None, False


def look_again() -> None:
    """Answer the next question with a new search."""
    global _look  # noqa: PLW0603 - as above
    _look = None


def _found() -> list[object]:
    global _look  # noqa: PLW0603 - as above
    if _look is not None:
        return _look
    found = of_types({kind for sought in _SOUGHT for kind in _with_subclasses(sought)})
    if _is_one_look:
        _look = found
    return found


def _with_subclasses(kind: type) -> set[type]:
    kinds, new = {kind}, [kind]
    while new:
        new = [found for parent in new for found in _subclasses(parent) if found not in kinds]
        kinds.update(new)
    return kinds


def _subclasses(kind: type) -> list[type]:
    return type.__subclasses__(kind)
