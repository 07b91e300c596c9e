"""Bytes by key: the interface of every storage backend. The rest of Trackside uses nothing else of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@runtime_checkable
class Store(Protocol):
    """A flat map from keys (`a/b/c`) to bytes, below one location.

    Errors are those of `trackside.contracts.errors` (StorageError and below) and nothing else. A store is safe to use
    from several threads.
    """

    @property
    def uri(self) -> str:
        """The location as a user would write it, for messages: a folder or `s3://bucket/prefix`."""

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        """Store an object whole or not at all: no reader sees a part, and a failed put leaves the object as it was.

        Args:
            key: The key, as `storage.keys` has it.
            data: The content.
        """

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Return bytes of an object.

        Args:
            key: The key.
            start: The first byte.
            length: The most bytes to return; None for all.

        Raises:
            KeyNotFoundError: No object has this key.
            NotAFileError: The key exists but is no regular file inside the store.
        """

    def exists(self, key: str) -> bool:
        """Return True if an object has this key.

        Args:
            key: The key.
        """

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        """Yield keys, ascending by UTF-8 bytes.

        Partial writes never appear. An empty or missing location lists nothing.

        Args:
            prefix: Yield the keys that begin with it; it may end anywhere in a key.
            start_after: Yield the keys that sort after it.
        """

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error.

        Args:
            key: The key.
        """


@runtime_checkable
class AppendableStore(Store, Protocol):
    """A store with objects that can grow: a folder can, S3 cannot."""

    def append(self, key: str, data: bytes | bytearray | memoryview) -> int:
        """Add data to the end of an object, which the first append creates. Return the byte at which the data begin.

        A reader may see a part of the data, and a killed process may leave a part for good. Such an object needs a
        format with marked ends (`records.block_file`), or an index that is stored afterwards.

        Args:
            key: The key.
            data: The bytes to add.
        """


@dataclass(frozen=True)
class Version:
    """An object at one moment. `tag` differs from that of every other content of the object."""

    data: bytes
    tag: str


@runtime_checkable
class VersionedStore(Store, Protocol):
    """A store that can detect a replaced object without sending it again."""

    def get_if_changed(self, key: str, *, tag: str, length: int | None = None) -> Version | None:
        """Return an object, or None if its tag is still `tag`. It raises the errors of `get`.

        Args:
            key: The key.
            tag: The tag of the version that was read last; "" for none.
            length: The most bytes to return; None for all.
        """


@dataclass(frozen=True)
class Listed:
    """An object as a listing shows it. `stored_at`: seconds since the epoch."""

    key: str
    size_bytes: int
    stored_at: float


@runtime_checkable
class SizedStore(Store, Protocol):
    """A store that lists sizes and moments too, so that neither takes a read."""

    def objects(self, prefix: str = "") -> Iterator[Listed] | None:
        """Yield objects, as `list` yields their keys; None if the store below it cannot.

        Args:
            prefix: Yield the objects with keys that begin with it.
        """


def objects_of(store: Store, prefix: str = "") -> Iterator[Listed] | None:
    """Return the objects of a listing, in the order of keys; None for a store that lists keys alone.

    Args:
        store: The store.
        prefix: The beginning of the keys.
    """
    return store.objects(prefix) if isinstance(store, SizedStore) else None


def get_if_changed(store: Store, key: str, *, tag: str = "", length: int | None = None) -> Version | None:
    """Return an object, or None if its tag is still `tag`.

    A store that is no `VersionedStore` is read each time, and the content compared: for a small object on a disk that
    costs no more, and two files may share an inode and a time.

    Args:
        store: The store.
        key: The key.
        tag: The tag of the version that was read last; "" for none.
        length: The most bytes to return; None for all.

    Raises:
        KeyNotFoundError: No object has this key.
    """
    get = getattr(store, "get_if_changed", None)
    if get is not None:
        found: Version | None = get(key, tag=tag, length=length)
        return found
    data = store.get(key, length=length)
    new = hashlib.sha256(data).hexdigest()
    return None if new == tag else Version(data, new)


def put_parts(store: Store, key: str, parts: Iterable[bytes | memoryview]) -> None:
    """Store an object from its parts; a store without a method of this name gets them joined.

    Args:
        store: The store.
        key: The key.
        parts: The content, in order.
    """
    put = getattr(store, "put_parts", None)  # to ask a protocol takes longer than a small put
    if put is None:
        store.put(key, b"".join(parts))
    else:
        put(key, parts)
