"""The tensors in the arguments and results of calls, and copies of these with other tensors in their places."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

_DEEPEST = 16
_ATOMS = (str, bytes, bytearray, int, float, complex, bool, range, memoryview, type, torch.dtype, torch.device)

Replace = Callable[[torch.Tensor], Any]


def tensors_in(*values: Any) -> list[torch.Tensor]:
    """Return the tensors in `values` in a fixed order, each place once; also those in attributes of plain objects."""
    return list(_tensors(values, 0))


def rebuilt(value: Any, replace: Replace, *, depth: int = 0) -> Any:
    """Return `value` with each tensor replaced by `replace(tensor)`.

    Containers are new objects. Objects without a tensor, and modules, are the same objects.

    Raises:
        Exception: An object with a tensor in it cannot be copied.
    """
    if isinstance(value, torch.Tensor):
        return replace(value)
    if value is None or isinstance(value, (*_ATOMS, torch.nn.Module)) or depth > _DEEPEST:
        return value
    kind = type(value)
    if kind in {list, tuple}:
        return kind(rebuilt(each, replace, depth=depth + 1) for each in value)
    if kind is dict:
        return {key: rebuilt(each, replace, depth=depth + 1) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(rebuilt(each, replace, depth=depth + 1) for each in value))
    found = tensors_in(value)
    return copy.deepcopy(value, {id(each): replace(each) for each in found}) if found else value


def _tensors(value: Any, depth: int) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif depth <= _DEEPEST and not isinstance(value, (*_ATOMS, torch.nn.Module)) and value is not None:
        for part in _parts(value):
            yield from _tensors(part, depth + 1)


def _parts(value: Any) -> Iterator[Any]:
    # Mappings first: an output of Hugging Face is a dataclass too, and only as a mapping leaves out what is None.
    if isinstance(value, Mapping):
        return iter(value.values())
    if isinstance(value, Sequence):
        return iter(value)
    if dataclasses.is_dataclass(value):
        return (getattr(value, field.name, None) for field in dataclasses.fields(value))
    attributes = getattr(value, "__dict__", None)
    return iter(()) if callable(value) or not isinstance(attributes, dict) else iter(list(attributes.values()))
