"""Copies beyond a limit of memory: they lie in files without a name until they are stored.

Where memory is short the system writes pages of a file back and takes their memory again, which it cannot do with other
memory. So such a copy never ends a training; the training waits for the disk instead.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable
from typing import IO, Any

import numpy as np

SEGMENT_BYTES = 256 << 20  # of one file; only what is written takes room on the disk
_ALIGNMENT = 64


class Spill:
    """A maker of copies that lie in files. For the training thread.

    Attributes:
        most_bytes: Bytes that the copies of one step may take in memory; 0: no limit.
        folder: Folder of the files; "", or one that does not exist, for the system's folder for temporary files.
    """

    def __init__(self, most_bytes: int = 0, folder: str = "") -> None:
        self.most_bytes, self.folder = most_bytes, folder
        self._segment: _Segment | None = None

    def in_memory(self, size_bytes: int) -> int:
        """Return the bytes in memory of copies of this size together.

        Args:
            size_bytes: The size of the copies.
        """
        return min(size_bytes, self.most_bytes) if self.most_bytes else size_bytes

    def copy(self, parts: Iterable[np.ndarray], *, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Return an array that lies in a file. It cannot be written to.

        Args:
            parts: Its values in C order, cut into parts. Each is let go before the next is taken.
            shape: Its shape.
            dtype: Its type of number.

        Raises:
            OSError: The disk is full, or no file can be made.
        """
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        segment = self._segment
        if segment is None or segment.left < size:
            folder = self.folder if os.path.isdir(self.folder) else None
            file = tempfile.TemporaryFile(dir=folder, prefix=".trackside-")  # noqa: SIM115 - the segment closes it
            segment = self._segment = _Segment(file, max(size, SEGMENT_BYTES))
        start = segment.begin(size)
        for part in parts:
            segment.write(part)
        kept: np.ndarray[Any, np.dtype[Any]] = np.ndarray(shape, dtype, segment.memory, start)
        return kept


def is_spilled(array: np.ndarray) -> bool:
    """Return True for an array that lies in a file."""
    return isinstance(array.base, mmap.mmap)


class _Segment:
    """One file, which is gone from the disk when no array in it is referenced any more."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._file.truncate(size)
        self.memory = mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ)
        self._end, self.left = 0, size

    def __del__(self) -> None:
        self._file.close()  # without a warning that it was left open

    def begin(self, size: int) -> int:
        """Return the byte at which the next array begins."""
        start = self._end
        self._file.seek(start)
        taken = -(-size // _ALIGNMENT) * _ALIGNMENT
        self._end, self.left = start + taken, max(0, self.left - taken)
        return start

    def write(self, part: np.ndarray) -> None:
        self._file.write(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        self._file.flush()  # the array is read through the mapping
