"""Modules and optimizers that were not registered with us, found among all live objects.

A process that has imported PyTorch holds some 300,000 objects; walking over them takes tens of milliseconds. So all
searches of one moment share one walk, and functions written in C do it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress
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
    objects = gc.get_objects()
    # By type and not by isinstance, which would read the `__class__` of lazy proxies and so wake them up.
    kinds = {kind for sought in _SOUGHT for kind in _with_subclasses(sought)}
    found = list(compress(objects, map(kinds.__contains__, map(type, objects))))
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
