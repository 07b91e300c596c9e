"""Copies of a GPU's tensors without a wait of the training.

A step's weights and gradients are copied together into one piece of memory beside them, on the stream that training
uses: from then on the script may write over them. That piece goes to the host in one transfer, on a stream of its own,
while training goes on. A tensor that comes alone, an activation or a loss, goes to the host on training's own stream,
which is in order by itself. The caller gets at once the arrays that the values will come into, and an `Arrival` that
shows when they have.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from trackside.capture.steps.arrival import Arrival
from trackside.frameworks.pytorch.ground.memory import readable
from trackside.frameworks.pytorch.saving.copying import is_one
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES, SENT_DTYPES, Layout, kept_dtype

MOST_BYTES = 128 * 2**20  # of one set: as much of the device's memory is taken for each of the slabs
MOST_SLABS = 2  # of a device: one is on its way or being stored while the next is filled
# Of tensors that come alone and are not stored yet. PyTorch keeps pinned memory for good, in blocks of powers of two.
MOST_PINNED_BYTES = 1 << 30


class Link(Protocol):
    """The way from a device to the host."""

    def memory(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return (near the tensors, on the host): `size` bytes each, of uint8; None without enough memory."""

    def send(self, near: torch.Tensor, host: torch.Tensor) -> Arrival:
        """Begin to copy `near` to `host`, as it is after the work that training has queued so far.

        `near` is left alone until then.
        """

    def fetch(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Arrival]:
        """Begin to copy a tensor to the host. Work that training queues from now on may write over it."""

    def fetch_now(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy a tensor to memory of the host that is not pinned, and wait for it."""


class Copies(NamedTuple):
    """Copies of tensors: `arrays` are the caller's, in C order, and hold the values once `arrival` is here.

    An arrival of None has been waited for.
    """

    arrays: list[np.ndarray]
    arrival: Arrival | None


def is_on_gpu(tensor: torch.Tensor) -> bool:
    """Return True for a dense CUDA tensor in this process's own memory, of a type that can be kept."""
    return tensor.is_cuda and can_be_sent(tensor)


def can_be_sent(tensor: torch.Tensor) -> bool:
    """Return True for a dense tensor of a type that can be kept, on any device."""
    return type(tensor) in PLAIN_TYPES and tensor.dtype in SENT_DTYPES and tensor.layout is torch.strided


class DeviceCopies:
    """A copier of tensors on devices: sets of them, of one device each, go into one slab.

    A slab is used again when its values have come and no array in it is referenced any more. Called by the training's
    thread only; arrays may be freed by any. `takes` selects the tensors that are copied this way.
    """

    def __init__(self, link: Link | None = None, *, takes: Callable[[torch.Tensor], bool] = is_on_gpu) -> None:
        self.takes = takes
        self._link = link or CudaLink()
        self._slabs: dict[torch.device, list[_Slab]] = {}
        self._full: set[torch.device] = set()  # there was no room for a slab: not tried again
        self._pinned: dict[int, int] = {}  # sizes of pinned arrays; the thread that frees one removes its own
        self._arrays = itertools.count()

    def together(self, tensors: Sequence[torch.Tensor]) -> Copies | None:
        """Return the values of the tensors, all of one device, at this point of the training.

        float8 and bfloat16 become float32. None without a free slab: the set is too large, all are in use, or the
        device lacks memory.
        """
        layout = Layout.of(tensors)
        if not tensors or layout.size > MOST_BYTES:
            return None
        slab = self._free_slab(tensors[0].device, layout.size)
        if slab is None:
            return None
        arrays = slab.arrays(layout)
        with torch.no_grad():
            torch._foreach_copy_(layout.targets(slab.near), list(tensors))
        slab.arrival = self._link.send(slab.near[: layout.size], slab.host[: layout.size])
        return Copies(arrays, slab.arrival)

    def one(self, tensor: torch.Tensor, *, scale: float | torch.Tensor = 1.0) -> Copies:
        """Return the value of one tensor, divided by `scale`, which may lie on a device.

        Training waits for it if `MOST_PINNED_BYTES` of such values are not stored yet.

        Errors: `NoMemoryError` for one without a value, and any that torch raises.
        """
        value = readable(tensor)
        if isinstance(scale, torch.Tensor):
            scale = scale.to(value.device, non_blocking=True)
        if not is_one(scale):
            value = (value / scale).to(value.dtype)
        value = value.to(kept_dtype(value.dtype), memory_format=torch.contiguous_format)
        value = value.resolve_conj().resolve_neg()
        size = value.numel() * value.element_size()
        if sum(list(self._pinned.values())) + size > MOST_PINNED_BYTES:
            return Copies([self._link.fetch_now(value).numpy()], None)
        host, arrival = self._link.fetch(value)
        array, number = host.numpy(), next(self._arrays)
        self._pinned[number] = size
        weakref.finalize(array, self._pinned.pop, number, None).atexit = False  # each view of it refers to it
        return Copies([array], arrival)

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


class CudaLink:
    """A link to pinned memory, for slabs on a stream of its own for each device."""

    def __init__(self) -> None:
        self._streams: dict[torch.device, torch.cuda.Stream] = {}

    def memory(self, size: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return memory as `Link`, never at the cost of the script: at most an eighth of the free memory of the device.

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
        """Begin to copy `near` to `host`, as `Link`."""
        stream = self._streams.get(near.device)
        if stream is None:
            stream = self._streams[near.device] = torch.cuda.Stream(near.device)  # type: ignore[no-untyped-call] # torch's
        stream.wait_stream(torch.cuda.current_stream(near.device))
        with torch.cuda.stream(stream):
            host.copy_(near, non_blocking=True)
            return _recorded(stream)

    def fetch(self, tensor: torch.Tensor) -> tuple[torch.Tensor, Arrival]:
        """Begin to copy a tensor to the host, as `Link`. PyTorch keeps the pinned memory until the copy is done."""
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        host.copy_(tensor, non_blocking=True)
        return host, _recorded(torch.cuda.current_stream(tensor.device))

    def fetch_now(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy a tensor to the host, as `Link`."""
        return tensor.to("cpu", copy=True)


def _recorded(stream: torch.cuda.Stream) -> _Recorded:
    # Blocking: who waits for it sleeps, and does not keep a core busy that training could use.
    with torch.cuda.device(stream.device):
        event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call] # torch's own omission
        event.record(stream)
    return _Recorded(event)


class _Recorded:
    """An arrival by an event of CUDA."""

    def __init__(self, event: torch.cuda.Event) -> None:
        self._event = event

    def is_here(self) -> bool:
        return bool(self._event.query())  # type: ignore[no-untyped-call] # torch's own omission

    def wait(self) -> None:
        self._event.synchronize()


class _Slab:
    """Memory near the tensors and on the host."""

    def __init__(self, near: torch.Tensor, host: torch.Tensor) -> None:
        self.near, self.host = near, host
        self.size = len(host)
        self.arrival: Arrival | None = None
        self._bytes: np.ndarray[Any, Any] = host.numpy()
        self._own_references = sys.getrefcount(self._bytes)

    @property
    def is_free(self) -> bool:
        """True if nothing is on its way into it and no array in it is held: each of those refers to `_bytes`."""
        is_held = sys.getrefcount(self._bytes) != self._own_references
        return not is_held and (self.arrival is None or self.arrival.is_here())

    def arrays(self, layout: Layout) -> list[np.ndarray]:
        return layout.arrays(self._bytes)
