"""Writing of large files past the page cache: a saved step then costs a training its bytes, and no fresh memory.

Each page of a new file needs a page of memory. On a virtual machine, whose host hands memory out late, that took ten
times as long as the copy.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence

try:
    import fcntl

    _DIRECT = getattr(os, "O_DIRECT", 0)
except ImportError:  # not on Windows
    _DIRECT = 0

LEAST_BYTES = 4 << 20  # a smaller file costs less in the page cache
_AT_ONCE = 4 << 20  # bytes of the buffer
_BLOCK = 4096  # what such writes must be a multiple of
_LEAST_BYTES_A_SECOND = 200 << 20  # a slower disk is left to the page cache, which takes a burst at once
_MOST_SLOW_FILES = 2  # in a row: one alone may be chance
_FILES_LEFT_ALONE = 8  # after these; then the disk may be quick again


class DirectWriting:
    """A buffer for writing past the page cache, unless the file system refuses or is slow. Safe in several threads.

    `monotonic` returns seconds.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._buffer: mmap.mmap | None = None
        self._is_of_use = bool(_DIRECT)
        self._slow_files = self._left_alone = 0

    def wants(self, size: int) -> bool:
        """Return True if a file of that size, which is about to be written, is worth it."""
        if size < LEAST_BYTES or not self._is_of_use:
            return False
        self._left_alone -= self._left_alone > 0
        return not self._left_alone

    def write(self, descriptor: int, views: Sequence[memoryview]) -> bool:
        """Write the views, one after another, to a new file. Return False if nothing was written.

        Errors: `OSError`; part of the bytes may have been written then.
        """
        # Not waited for: the process may have been forked while another thread held it.
        if not self._lock.acquire(blocking=False):
            return False
        try:
            began = self._monotonic()
            if not self._begin(descriptor):
                return False
            size = self._write(descriptor, views)
            self._judge(size, self._monotonic() - began)
        finally:
            self._lock.release()
        return True

    def _begin(self, descriptor: int) -> bool:
        try:
            _set_direct(descriptor, is_direct=True)
        except OSError:  # a file system without it
            self._is_of_use = False
            return False
        if self._buffer is None:
            self._buffer = mmap.mmap(-1, _AT_ONCE)
        return True

    def _write(self, descriptor: int, views: Sequence[memoryview]) -> int:
        """Return the number of written bytes."""
        import numpy as np  # its copies let other threads run; it is loaded wherever large tensors are

        size = filled = 0
        buffer = memoryview(self._buffer or b"")
        target = np.frombuffer(buffer, np.uint8)
        for view in filter(len, views):
            begin, source = 0, np.frombuffer(view, np.uint8)
            while begin < len(view):
                count = min(len(view) - begin, _AT_ONCE - filled)
                target[filled : filled + count] = source[begin : begin + count]
                begin, filled = begin + count, filled + count
                if filled == _AT_ONCE:
                    self._write_block(descriptor, buffer)
                    size, filled = size + filled, 0
        whole = filled - filled % _BLOCK
        if whole:
            self._write_block(descriptor, buffer[:whole])
        if filled > whole:
            _set_direct(descriptor, is_direct=False)
            _write_all(descriptor, buffer[whole:filled])
        return size + filled

    def _write_block(self, descriptor: int, data: memoryview) -> None:
        try:
            written = os.write(descriptor, data)
        except OSError as error:
            if error.errno != errno.EINVAL or not self._is_of_use:
                raise
            written, self._is_of_use = 0, False
        if written < len(data):  # refused, or a full disk: the rest by the page cache, which reports the error
            _set_direct(descriptor, is_direct=False)
            _write_all(descriptor, data[written:])
            with contextlib.suppress(OSError):
                _set_direct(descriptor, is_direct=self._is_of_use)

    def _judge(self, size: int, seconds: float) -> None:
        """Leave the next files alone after several slow ones in a row."""
        self._slow_files = self._slow_files + 1 if size < _LEAST_BYTES_A_SECOND * seconds else 0
        if self._slow_files >= _MOST_SLOW_FILES:
            self._slow_files, self._left_alone = 0, _FILES_LEFT_ALONE + 1


def _set_direct(descriptor: int, *, is_direct: bool) -> None:
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | _DIRECT if is_direct else flags & ~_DIRECT)


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
