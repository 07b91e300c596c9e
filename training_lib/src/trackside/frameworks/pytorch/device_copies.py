"""Copies of a GPU's tensors that training does not wait for.

A step's tensors are copied together into one piece of memory beside them, on the stream that training uses: from then
on the script may write over them. That piece goes to the host in one transfer, on a stream of its own, while training
goes on. What the caller gets at once are the arrays that the values will come into, and an `Arrival` that says when
they have. Not run on a GPU so far.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

MOST_BYTES = 128 * 2**20  # of one set: as much of the device's memory is taken for each of the slabs
MOST_SLABS = 2  # one is on its way or being stored while the next is filled

_ALIGNMENT = 64  # bytes
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
_WIDENED = {torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2}  # NumPy has none of them: float32, as elsewhere


class Arrival(Protocol):
    """Values on their way."""

    def is_here(self) -> bool:
        """True if they have come. Never waits."""

    def wait(self) -> None:
        """Waits until they have come, without holding the interpreter. For any thread but the training's."""


class Link(Protocol):
    """The way from a device to the host."""

    def memory(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
        """(near the tensors, on the host): `size` bytes each, of uint8; None if there is no room."""

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Arrival:
        """Begins to copy `near`, as it is after what training has queued so far, to `host`."""


class Copies(NamedTuple):
    """`arrays` are the caller's, in C order, and hold the values once `arrival` is here."""

    arrays: list[np.ndarray]
    arrival: Arrival


def can_be_sent(tensor: torch.Tensor) -> bool:
    """True for a dense CUDA tensor of a type that `DeviceCopies` knows."""
    return (
        type(tensor) in {torch.Tensor, torch.nn.Parameter}
        and tensor.is_cuda
        and (tensor.dtype in _DTYPES or tensor.dtype in _WIDENED)
        and tensor.layout is torch.strided
    )


class DeviceCopies:
    """Copies sets of tensors, each set of one device into one slab.

    A slab is used again when its values have come and no array in it is referenced from anywhere. Called by the
    training's thread only; arrays may be let go by any.
    """

    def __init__(self, link: Link | None = None) -> None:
        self._link = link or (CudaLink() if torch.cuda.is_available() else HostLink())
        self._slabs: dict[torch.device, list[_Slab]] = {}
        self._full: set[torch.device] = set()  # there was no room for a slab: not tried again

    def copies(self, tensors: Sequence[torch.Tensor]) -> Copies | None:
        """The values that the tensors, all of one device, have at this point of the training; float8 and bfloat16 as
        float32.

        None if there is no slab to be had: the set is too large, both are in use, or the device has no room.
        """
        places, size = _layout(tensors)
        if not tensors or size > MOST_BYTES:
            return None
        slab = self._free_slab(tensors[0].device, size)
        if slab is None:
            return None
        arrays = slab.arrays(places)
        with torch.no_grad():
            torch._foreach_copy_(slab.targets(places), list(tensors))
        slab.arrival = self._link.send(slab.near[:size], slab.host[:size])
        return Copies(arrays, slab.arrival)

    def _free_slab(self, device: torch.device, size: int) -> _Slab | None:
        slabs = self._slabs.setdefault(device, [])
        free = [slab for slab in slabs if slab.is_free]
        for slab in free:
            if slab.size >= size:
                return slab
        if free:
            slabs.remove(free[0])
        if len(slabs) == MOST_SLABS or device in self._full:
            return None
        memory = self._link.memory(size, device)
        if memory is None:
            self._full.add(device)
            return None
        slabs.append(slab := _Slab(*memory))
        return slab

    def forget(self) -> None:
        """Lets the memory go that nobody needs any more. Arrays that were given stay valid."""
        for slabs in self._slabs.values():
            slabs[:] = [slab for slab in slabs if not slab.is_free]


class CudaLink:
    """To pinned memory, on a stream of its own for each device."""

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def memory(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
        """As `Link`. Never at the cost of the script: what is asked of the device must be a small part of what is free.

        The first time takes milliseconds, and making pinned memory waits for the device.
        """
        free, _ = torch.cuda.mem_get_info(device)
        if size > free // 8:
            return None
        try:
            return (
                torch.empty(size, dtype=torch.uint8, device=device),
                torch.empty(size, dtype=torch.uint8, pin_memory=True),
            )
        except RuntimeError:  # out of memory, of either kind
            return None

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Arrival:
        """As `Link`."""
        stream = self._streams.get(near.device)
        if stream is None:
            stream = self._streams[near.device] = torch.cuda.Stream(near.device)  # type: ignore[no-untyped-call] # torch's
        stream.wait_stream(torch.cuda.current_stream(near.device))
        with torch.cuda.stream(stream):
            host.copy_(near, non_blocking=True)
            # Blocking: who waits for it sleeps, and does not keep a core busy that training could use.
            event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call] # torch's own omission
            event.record(stream)
        return _Recorded(event)


class _Recorded:
    """An event of CUDA."""

    def __init__(self, event: torch.cuda.Event) -> None:
        self._event = event

    def is_here(self) -> bool:
        return bool(self._event.query())  # type: ignore[no-untyped-call] # torch's own omission

    def wait(self) -> None:
        self._event.synchronize()


class HostLink:
    """Where there is no GPU: the memory beside the tensors is the host's."""

    def memory(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
        """As `Link`."""
        memory = torch.empty(size, dtype=torch.uint8, device=device)
        return memory, memory

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Arrival:
        """As `Link`: it is there."""
        return HERE


class _Here:
    def is_here(self) -> bool:
        return True

    def wait(self) -> None:
        pass


HERE: Arrival = _Here()


class _Place(NamedTuple):
    """Of one tensor in a slab."""

    begin: int  # bytes
    dtype: torch.dtype
    shape: torch.Size


def _layout(tensors: Sequence[torch.Tensor]) -> tuple[list[_Place], int]:
    """Where tensors lie in a slab, and how many bytes they take."""
    places, end = [], 0
    for tensor in tensors:
        dtype = torch.float32 if tensor.dtype in _WIDENED else tensor.dtype
        places.append(_Place(end, dtype, tensor.shape))
        end += -(-tensor.numel() * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
    return places, end


class _Slab:
    """Memory near the tensors and on the host."""

    def __init__(self, near: torch.Tensor, host: torch.Tensor) -> None:
        self.near, self.host = near, host
        self.size = len(host)
        self.arrival: Arrival = HERE
        self._bytes = host.numpy()
        self._own_references = sys.getrefcount(self._bytes)

    @property
    def is_free(self) -> bool:
        """True if nothing is on its way into it and nobody holds an array in it: each of those refers to `_bytes`."""
        return sys.getrefcount(self._bytes) == self._own_references and self.arrival.is_here()

    def arrays(self, places: Sequence[_Place]) -> list[np.ndarray]:
        return [np.ndarray(shape, _DTYPES[dtype], self._bytes, begin) for begin, dtype, shape in places]

    def targets(self, places: Sequence[_Place]) -> list[torch.Tensor]:
        """The same places, near the tensors."""
        return [
            self.near[begin : begin + shape.numel() * dtype.itemsize].view(dtype).view(shape)
            for begin, dtype, shape in places
        ]
