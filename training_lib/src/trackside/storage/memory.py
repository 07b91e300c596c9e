"""A store in memory, for tests and experiments without a disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from trackside.contracts.errors import KeyNotFoundError
from trackside.storage.keys import checked_key, checked_prefix, checked_range


class MemoryStore:
    """Bytes by key in a dictionary; safe to use from several threads."""

    def __init__(self) -> None:
        self._objects: dict[str, bytes | bytearray] = {}
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        return "memory:"

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        whole = bytes(data)
        with self._lock:
            self._objects[checked_key(key)] = whole

    def append(self, key: str, data: bytes | bytearray | memoryview) -> int:
        with self._lock:
            before = self._objects.get(checked_key(key), b"")
            if not isinstance(before, bytearray):  # which grows without being copied
                before = self._objects[key] = bytearray(before)
            start = len(before)
            before += memoryview(data).cast("B")
            return start

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        checked_range(start, length)
        with self._lock:
            data = self._objects.get(checked_key(key))
            if data is None:
                raise KeyNotFoundError(f"No object {key!r} in {self.uri}")
            return bytes(memoryview(data)[start : None if length is None else start + length])

    def exists(self, key: str) -> bool:
        with self._lock:
            return checked_key(key) in self._objects

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        checked_prefix(prefix)
        with self._lock:
            keys = [key for key in self._objects if key.startswith(prefix) and key > start_after]
        # Code points and UTF-8 bytes sort alike.
        return iter(sorted(keys))

    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(checked_key(key), None)
