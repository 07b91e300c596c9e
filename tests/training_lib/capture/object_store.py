"""Stores for tests of what is written: objects that cannot grow, counted requests, failures on order."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator

from trackside.contracts.errors import StorageUnavailableError
from trackside.storage.memory import MemoryStore

Fails = Callable[[str, str], bool]


class ObjectStore:
    """As S3: objects are put whole. `fails(operation, key)` says which requests fail.

    With `arrives`, a failed request was carried out all the same, as when only its answer is lost.
    """

    def __init__(self, inner: MemoryStore | None = None) -> None:
        self.inner = inner or MemoryStore()
        self.requests: collections.Counter[str] = collections.Counter()
        self.fails: Fails = lambda _operation, _key: False
        self.arrives = False
        self.before: Callable[[str, str], None] = lambda _operation, _key: None

    @property
    def uri(self) -> str:
        return "memory:"

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._request("put", key, lambda: self.inner.put(key, data))

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self._request("get", key, lambda: None)
        return self.inner.get(key, start=start, length=length)

    def exists(self, key: str) -> bool:
        self._request("exists", key, lambda: None)
        return self.inner.exists(key)

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        self._request("list", prefix, lambda: None)
        return self.inner.list(prefix, start_after=start_after)

    def delete(self, key: str) -> None:
        self._request("delete", key, lambda: self.inner.delete(key))

    def _request(self, operation: str, key: str, carry_out: Callable[[], None]) -> None:
        self.before(operation, key)
        self.requests[operation] += 1
        is_failing = self.fails(operation, key)
        if not is_failing or self.arrives:
            carry_out()
        if is_failing:
            raise StorageUnavailableError(f"Cannot {operation} {key!r}: told to fail.")


class GrowingStore(ObjectStore):
    """As a folder: objects can also be appended to. `torn_at` bytes of an append that fails arrive."""

    torn_at = 0

    def append(self, key: str, data: bytes | bytearray | memoryview) -> None:
        before = self.inner.get(key) if self.inner.exists(key) else b""
        if self.fails("append", key) and self.torn_at:
            self.inner.put(key, before + bytes(data)[: self.torn_at])
        self._request("append", key, lambda: self.inner.put(key, before + bytes(data)))


class Clock:
    """Stands still unless told."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now
