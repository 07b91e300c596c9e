"""Check of a tensor of the script for memory to read, before each reading of its values.

A tensor may exist without its values. FSDP frees the storage of whole parameters between their uses and keeps the
tensors; others are on `meta`, fake, or wrapped by a transformation. PyTorch reads from the address that is left, which
ends the process. So nothing reads a tensor that it did not make before it has asked here, right before the reading: a
storage may be freed from one step to the next, or within one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_WITHOUT_VALUES = {"FakeTensor", "FunctionalTensor"}
_COMPRESSED = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}

_storage, _size = torch.Tensor.untyped_storage, torch.UntypedStorage.nbytes
_is_cpu, _layout = operator.attrgetter("is_cpu"), operator.attrgetter("layout")
_is_contiguous, _offset, _itemsize = (
    torch.Tensor.is_contiguous,
    torch.Tensor.storage_offset,
    torch.Tensor.element_size,
)


# In PyTorch without transformations of functions nothing is wrapped by one.
_is_wrapped: Callable[[torch.Tensor], bool] = getattr(
    getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda tensor: False
)


class NoMemoryError(RuntimeError):
    """A tensor has no memory to read. A `RuntimeError`, as PyTorch raises for values that are gone from a graph."""


def has_memory(tensor: torch.Tensor) -> bool:
    """Return True if the values of a tensor can be read in this process now, on whatever device they lie.

    - A sharded tensor is its local part, and a class that is made of other tensors is these.
    - A sparse tensor is its stored values, in the order of rows or of coordinates.
    - A tensor without elements has all the memory it needs.

    False for one that is freed, on `meta`, fake, wrapped by a transformation of functions, or without a shape yet, and
    for one that does not answer.

    Args:
        tensor: A tensor of the script.
    """
    try:
        return _has_memory(tensor)
    except Exception:  # noqa: BLE001 - the class is the script's, and what cannot answer is not read
        return False


def have_memory(tensors: Sequence[torch.Tensor]) -> bool:
    """Return True if all of these tensors have memory, at the cost of two calls of C each: for every step.

    Args:
        tensors: Dense tensors of PyTorch's own classes, of which it is known already that they had values once.
    """
    try:
        if all(map(_size, map(_storage, tensors))):
            return True
    except NotImplementedError:  # no storage of its own
        pass
    return all(map(has_memory, tensors))


def have_rows(tensors: Sequence[torch.Tensor], counts: Sequence[int]) -> bool:
    """Return True if each tensor's values are a row of numbers that this process can read now.

    No line of Python runs for each tensor.

    Args:
        tensors: Tensors of PyTorch's own classes, all of one dtype.
        counts: The number of elements of each.
    """
    if not all(map(_is_cpu, tensors)) or set(map(_layout, tensors)) != {torch.strided}:
        return False
    if not all(map(_is_contiguous, tensors)) or any(map(_is_wrapped, tensors)):
        return False
    ends = map(operator.mul, map(operator.add, map(_offset, tensors), counts), map(_itemsize, tensors))
    return all(map(operator.le, ends, map(_size, map(_storage, tensors))))


def with_memory(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors that `has_memory`.

    Args:
        tensors: Tensors of the script.
    """
    return [tensor for tensor in tensors if has_memory(tensor)]


def readable(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor without its graph, to be read at once.

    Args:
        tensor: A tensor of the script.

    Raises:
        NoMemoryError: There is nothing to read.
    """
    if not has_memory(tensor):
        raise NoMemoryError(f"a tensor of shape {_shape_of(tensor)} has no values in memory now")
    return tensor.detach()


def _has_memory(tensor: torch.Tensor) -> bool:
    if type(tensor) not in _PLAIN:
        parts = _parts_of(tensor)
        if parts is not None:
            return all(map(_has_memory, parts))
    if tensor.is_meta or _is_wrapped(tensor):
        return False
    if tensor.layout is not torch.strided:
        stored = _stored_values(tensor)
        return stored is None or _has_memory(stored)
    try:
        size = tensor.untyped_storage().nbytes()
    except NotImplementedError:
        return True  # memory of a backend, which looks after it by itself
    return size > 0 if tensor.is_nested else size >= _reach(tensor)


def _parts_of(tensor: torch.Tensor) -> list[torch.Tensor] | None:
    """Return the tensors that one of a class of its own consists of; None for one with memory of its own.

    Raises:
        ValueError: It stands for a tensor that is not there.
    """
    kind = type(tensor)
    if kind.__name__ in _WITHOUT_VALUES or torch.nn.parameter.is_lazy(tensor):
        raise ValueError(kind.__name__)
    flatten: Any = getattr(tensor, "__tensor_flatten__", None)
    if flatten is None:
        return None
    parts = (getattr(tensor, name) for name in flatten()[0])
    return [part for part in parts if isinstance(part, torch.Tensor)]  # a mesh of devices may be among them


def _stored_values(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the stored values of a sparse tensor; None for a layout that does not show its memory."""
    if tensor.layout is torch.sparse_coo:
        return tensor._values()
    return tensor.values() if tensor.layout in _COMPRESSED else None


def _reach(tensor: torch.Tensor) -> int:
    """Return the number of bytes from the begin of the storage to the end of the tensor's last element."""
    if not tensor.numel():
        return 0
    if tensor.is_contiguous():
        count = tensor.numel()
    else:
        count = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset() + count) * tensor.element_size()


def _shape_of(tensor: torch.Tensor) -> Any:
    try:
        return tuple(tensor.shape)
    except Exception:  # noqa: BLE001 - as above
        return "unknown"
