"""Memory for copies of many tensors at once, used again when the copies are no longer referenced."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from trackside.frameworks.pytorch.ground.memory import readable

MOST_BYTES = 128 * 2**20  # in one slab: half of what may wait in the queue of the writer
MOST_SLABS = 2  # one is being stored while the next is filled
IDLE_SECONDS = 30.0

_ALIGNMENT = 64  # bytes: as NumPy's and PyTorch's own memory, or vector instructions get slower
_NOTHING_HELD = 3600.0
_PART_ELEMENTS = 4 << 20
_DTYPES: dict[torch.dtype, np.dtype[Any]] = {
    torch.float16: np.dtype(np.float16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
    torch.uint8: np.dtype(np.uint8),
    torch.int8: np.dtype(np.int8),
    torch.int16: np.dtype(np.int16),
    torch.int32: np.dtype(np.int32),
    torch.int64: np.dtype(np.int64),
    torch.bool: np.dtype(np.bool_),
}
WIDENED = {torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2}  # NumPy has none of them
SENT_DTYPES = {*_DTYPES, *WIDENED}
PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)


def is_plain(tensor: torch.Tensor) -> bool:
    """Return True for a dense tensor in this process's own memory, of a type that is kept as it is."""
    return (
        type(tensor) in PLAIN_TYPES
        and tensor.dtype in _DTYPES
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
    )


def is_dense(tensor: torch.Tensor) -> bool:
    """Return True for a dense tensor in C order, in any memory, of a type that is kept or widened."""
    is_usual = type(tensor) in PLAIN_TYPES and tensor.dtype in SENT_DTYPES
    return is_usual and tensor.layout is torch.strided and tensor.is_contiguous()


def parts_of(tensor: torch.Tensor) -> tuple[Iterator[np.ndarray], np.dtype[Any]]:
    """Return the values of a tensor that `is_dense` in parts, each valid until the next is taken, and their type."""
    flat, kept = readable(tensor).view(-1), kept_dtype(tensor.dtype)
    if flat.is_cpu and kept is flat.dtype:
        return iter((flat.numpy(),)), _DTYPES[kept]
    return _copied_parts(flat, kept), _DTYPES[kept]


def _copied_parts(flat: torch.Tensor, kept: torch.dtype) -> Iterator[np.ndarray]:
    # The same memory for all: glibc does not find a place for an aligned piece where one of its size was before.
    part = torch.empty(min(len(flat), _PART_ELEMENTS), dtype=kept)
    for values in torch.split(flat, _PART_ELEMENTS):
        yield part[: len(values)].copy_(values).numpy()


class Slabs:
    """A copier of sets of plain tensors, each set into one slab.

    Fresh memory costs more than the copy: a fault per page.

    A slab is used again only when no array in it is referenced any more. If all are in use, or a set is larger than a
    slab may be, no copy is made here. The bytes count as those of the arrays, in the queue of the writer. It is a
    `BackgroundPart` of the writer, which frees slabs that were idle for long.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._slabs: list[_Slab] = []
        self._used_at = 0.0

    def copies(self, tensors: Sequence[torch.Tensor]) -> list[np.ndarray] | None:
        """Return the values of plain tensors, as the caller's own arrays in C order; None without enough memory.

        Errors: any that torch raises for a tensor without a value.
        """
        layout = Layout.of(tensors)
        if layout.size > MOST_BYTES:
            return None
        # Nobody ever waits for it: a signal handler may have interrupted who holds it, and close the run.
        if not self._lock.acquire(blocking=False):
            return None
        try:
            slab = self._free_slab(layout)
            if slab is None:
                return None
            self._used_at = self._monotonic()
            arrays = slab.arrays(layout)  # they mark it as in use
        finally:
            self._lock.release()
        with torch.no_grad():
            torch._foreach_copy_(slab.targets(layout), list(tensors))
        return arrays

    def _free_slab(self, layout: Layout) -> _Slab | None:
        """Return a slab without referenced arrays, large enough, made if need be; one of this layout before others."""
        slabs = self._slabs  # the writer thread may put another list in its place, and lets these go then
        free = [slab for slab in slabs if slab.is_free]
        fitting = [slab for slab in free if slab.size >= layout.size]
        for slab in fitting:
            if slab.has(layout):
                return slab
        if fitting:
            return fitting[0]
        if free:
            slabs.remove(free[0])
        if len(slabs) >= MOST_SLABS:
            return None
        slabs.append(slab := _Slab(layout.size))
        return slab

    @property
    def due_in_seconds(self) -> float:
        """Seconds until the slabs, if any exist, are freed."""
        return max(0.0, self._used_at + IDLE_SECONDS - self._monotonic()) if self._slabs else _NOTHING_HELD

    def flush_if_due(self) -> bool:
        """Free the slabs if they were idle for long."""
        if self.due_in_seconds > 0:
            return False
        self.close()
        return True

    def flush(self) -> None:
        """Do nothing: nothing waits here."""

    def close(self) -> None:
        """Free the slabs; arrays in them stay valid."""
        self._slabs = []


class Layout(NamedTuple):
    """The places of tensors of these types and shapes in a slab, and their size in bytes."""

    size: int
    kinds: tuple[tuple[torch.dtype, torch.Size], ...]

    @classmethod
    def of(cls, tensors: Sequence[torch.Tensor]) -> Layout:
        """Return the layout of copies of these tensors, each in the type it is kept in."""
        kinds = tuple((kept_dtype(tensor.dtype), tensor.shape) for tensor in tensors)
        return cls(sum(map(_room, kinds)), kinds)

    def arrays(self, memory: np.ndarray, begin: int = 0) -> list[np.ndarray]:
        """Return the places as arrays, each of which refers to `memory`, of uint8."""
        arrays: list[np.ndarray] = []
        place = begin
        for kind in self.kinds:
            dtype, shape = kind
            arrays.append(np.ndarray(shape, _DTYPES[dtype], memory, place))
            place += _room(kind)
        return arrays

    def targets(self, memory: torch.Tensor, begin: int = 0) -> list[torch.Tensor]:
        """Return the same places as tensors."""
        targets: list[torch.Tensor] = []
        place = begin
        for kind in self.kinds:
            dtype, shape = kind
            end = place + shape.numel() * _DTYPES[dtype].itemsize
            targets.append(memory[place:end].view(dtype).view(shape))
            place += _room(kind)
        return targets


def kept_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which values are kept: their own, or float32 for a type that NumPy lacks."""
    return torch.float32 if dtype in WIDENED else dtype


def _room(kind: tuple[torch.dtype, torch.Size]) -> int:
    dtype, shape = kind
    return -(-shape.numel() * _DTYPES[dtype].itemsize // _ALIGNMENT) * _ALIGNMENT


class _Slab:
    """One piece of memory, and its last layout."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._memory = np.empty(size + _ALIGNMENT, np.uint8)
        self._begin = -self._memory.ctypes.data % _ALIGNMENT
        self._tensor = torch.from_numpy(self._memory)
        self._layout: Layout | None = None
        self._targets: list[torch.Tensor] = []
        self._own_references = sys.getrefcount(self._memory)

    @property
    def is_free(self) -> bool:
        """True if only the slab itself refers to the memory.

        Every array in it does, views of views too: NumPy lets each refer to the array that owns the memory.
        """
        return sys.getrefcount(self._memory) == self._own_references

    def has(self, layout: Layout) -> bool:
        return self._layout == layout

    def arrays(self, layout: Layout) -> list[np.ndarray]:
        return layout.arrays(self._memory, self._begin)

    def targets(self, layout: Layout) -> list[torch.Tensor]:
        """Return the same places as tensors, which are ours alone.

        Making them takes longer than the copy of small tensors.
        """
        if self._layout != layout:
            self._layout, self._targets = layout, layout.targets(self._tensor, self._begin)
        return self._targets
