"""Structures of tensors and plain values, such as the state of an optimizer: kept, and put back in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory


class Slot(NamedTuple):
    """The place of a tensor in a kept structure: the number of its value."""

    number: int


def skeleton_of(value: Any, tensors: list[torch.Tensor]) -> Any:
    """Return a structure with a `Slot` for each tensor in it, and add the tensors.

    Args:
        value: Dicts, lists and tuples with tensors and plain values; anything else is held as it is.
        tensors: Gets the tensors, of any shapes.
    """
    if isinstance(value, torch.Tensor):
        if not has_memory(value):
            return value
        tensors.append(own_part(value))
        return Slot(len(tensors) - 1)
    if isinstance(value, dict):
        return {_key(key): skeleton_of(each, tensors) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)([skeleton_of(each, tensors) for each in value])
    return value


def put_back(
    current: Any, kept: Any, values: list[torch.Tensor], copies: list[tuple[torch.Tensor, torch.Tensor]]
) -> Any:
    """Return what must stand at a place so that it is as it was kept. Tensors that fit stay, and are added to `copies`.

    Args:
        current: What stands there now.
        kept: The structure of `skeleton_of`.
        values: The values of its slots.
        copies: Gets (tensor to write, its value).
    """
    if isinstance(kept, Slot):
        value = values[kept.number]
        return _tensor_back(current, value, copies)
    if isinstance(kept, dict):
        held = current if isinstance(current, dict) else {}
        keys = {_key(key): key for key in held}
        for name in keys.keys() - kept.keys():
            del held[keys[name]]
        for name, each in kept.items():
            key = keys.get(name, name)
            if not isinstance(key, _Identity):  # else its parameter is gone
                held[key] = put_back(held.get(key), each, values, copies)
        return held
    if type(kept) is list and type(current) is list and len(current) == len(kept):
        for place, each in enumerate(kept):
            current[place] = put_back(current[place], each, values, copies)
        return current
    if type(kept) in (list, tuple):
        now = list(current) if type(current) in (list, tuple) and len(current) == len(kept) else [None] * len(kept)
        return type(kept)([put_back(old, each, values, copies) for old, each in zip(now, kept, strict=True)])
    return kept


def _tensor_back(current: Any, value: torch.Tensor, copies: list[tuple[torch.Tensor, torch.Tensor]]) -> Any:
    if not isinstance(current, torch.Tensor):
        return value.clone()
    if fits(current, value):
        copies.append((current, value))
        return current
    is_sharded = hasattr(current, "to_local")  # its parts in other ranks are not known
    return current if is_sharded else value.to(current.device, copy=True)


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values of a tensor that lie in this process, without its gradient: of a sharded one, a part."""
    part = tensor.detach()
    return part.to_local() if hasattr(part, "to_local") else part


def fits(tensor: torch.Tensor, value: torch.Tensor) -> bool:
    """Return True if a value, wherever it lies, can be written into a tensor."""
    return tensor.dtype == value.dtype and has_memory(tensor) and own_part(tensor).shape == value.shape


def write(copies: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Write values into tensors, in place.

    Args:
        copies: (tensor, its value), of equal shapes and dtypes; the value may lie on another device.
    """
    with torch.no_grad():
        for group in _by_devices(copies):
            torch._foreach_copy_([own_part(tensor) for tensor, _ in group], [value for _, value in group])


def all_finite(tree: Any) -> bool:
    """Return True if every number in the tensors of a structure is finite."""
    tensors: list[torch.Tensor] = []
    skeleton_of(tree, tensors)
    return all(bool(torch.isfinite(each).all()) for each in tensors if each.is_floating_point())


class _Identity(NamedTuple):
    """The key of a tensor, which is not held by it."""

    number: int


def _key(key: Any) -> Any:
    return _Identity(id(key)) if isinstance(key, torch.Tensor) else key


def _by_devices(copies: list[tuple[torch.Tensor, torch.Tensor]]) -> Iterator[list[tuple[torch.Tensor, torch.Tensor]]]:
    groups: dict[Any, list[tuple[torch.Tensor, torch.Tensor]]] = {}
    for pair in copies:
        groups.setdefault((pair[0].device, pair[1].device, pair[0].dtype), []).append(pair)
    yield from groups.values()
