"""Room for copies: on their device where it has much, in this machine's memory up to a limit, then in files.

A file is filled before it is used, and has no name from then on: a full disk raises here, not while a copy is written,
and a killed training leaves nothing behind.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

import torch

from trackside.capture.ground.free_memory import KEPT_FREE_BYTES, free_bytes

_ON_DEVICE_SHARE = 3  # a copy stays on its device if so many of them would fit
_LEFT_ON_DISK = 2**30  # bytes that stay free, for checkpoints of the script
_ALIGNED = 64  # bytes
_SMALL = 256 << 20  # bytes, which copies take in memory without a limit, or one of them what it needs


class NoRoomError(Exception):
    """No memory and no disk is left for a copy."""


class Room:
    """The room for the copies of one training.

    Args:
        limit_bytes: Most memory of this machine that copies take; None for that of one, or of several small ones, and
            for as much as is free where the disk has no room for the others.
        folder: Folder of files; None for the one of temporary files.
    """

    def __init__(self, limit_bytes: int | None = None, folder: Path | None = None) -> None:
        self._limit, self._folder = limit_bytes, folder
        self._in_memory: list[weakref.ref[torch.Tensor]] = []

    def like(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return new tensors of the same shapes.

        Raises:
            NoRoomError: They fit nowhere.
        """
        sizes: dict[torch.device, int] = {}
        for each in tensors:
            sizes[each.device] = sizes.get(each.device, 0) + each.nbytes
        stays = {device for device, size in sizes.items() if device.type == "cuda" and _has_room(device, size)}
        here = [each for each in tensors if each.device not in stays]
        rows = iter(self._here(here))
        return [torch.empty_like(each) if each.device in stays else next(rows) for each in tensors]

    def _here(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        size = sum(each.nbytes for each in tensors)
        limit = max(size, _SMALL) if self._limit is None else self._limit
        why_not = self._no_memory_for(size, limit)
        if not why_not:
            return self._here_in_memory(tensors)
        try:
            return self._in_file(tensors, why_not)
        except NoRoomError:
            if self._limit is not None or self._no_memory_for(size, None):
                raise
        return self._here_in_memory(tensors)

    def _here_in_memory(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        found = [torch.empty_like(each, device="cpu") for each in tensors]
        self._in_memory += [weakref.ref(each) for each in found]
        return found

    def _no_memory_for(self, size: int, limit: int | None) -> str:
        self._in_memory = [each for each in self._in_memory if each() is not None]
        used, free = sum(each.nbytes for held in self._in_memory if (each := held()) is not None), free_bytes()
        mebibytes = f"a copy takes {size / 2**20:.0f} MiB"
        if limit is not None and used + size > limit:
            return f"{mebibytes}, and others have {used / 2**20:.0f} of {limit / 2**20:.0f} MiB"
        if free is not None and size + KEPT_FREE_BYTES > free:
            return f"{mebibytes}, and {free / 2**20:.0f} MiB of memory are free"
        return ""

    def _in_file(self, tensors: list[torch.Tensor], why: str) -> list[torch.Tensor]:
        folder = self._folder or Path(tempfile.gettempdir())
        starts, size = [], 0
        for each in tensors:
            starts.append(size)
            size += -(-each.nbytes // _ALIGNED) * _ALIGNED
        try:
            free = shutil.disk_usage(folder).free
            if free < 2 * size + _LEFT_ON_DISK:
                raise NoRoomError(f"{why}; {folder} has {free / 2**20:.0f} MiB")
            row = _file_of(folder, size)
        except OSError as error:
            raise NoRoomError(f"{why}; {error}") from error
        pairs = zip(tensors, starts, strict=True)
        return [row[start : start + each.nbytes].view(each.dtype).view(each.shape) for each, start in pairs]


def _file_of(folder: Path, size_bytes: int) -> torch.Tensor:
    """Return the bytes of a new file. Errors: `OSError`, also if the disk is full."""
    number, path = tempfile.mkstemp(prefix="trackside-rescue-", dir=folder)
    try:
        os.posix_fallocate(number, 0, max(1, size_bytes))
        return torch.from_file(path, shared=True, size=size_bytes, dtype=torch.uint8)
    finally:
        os.close(number)
        os.unlink(path)


def _has_room(device: torch.device, size_bytes: int) -> bool:
    return torch.cuda.mem_get_info(device)[0] >= _ON_DEVICE_SHARE * size_bytes
