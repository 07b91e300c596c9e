"""Bytes by key: what every storage backend offers, and all that the rest of Trackside may ask of it."""

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
        """Stores `data` whole or not at all: no reader ever sees a part, and a failed put leaves what was there."""

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """The bytes from `start` on, at most `length`. Errors: `KeyNotFoundError`, `NotAFileError`."""

    def exists(self, key: str) -> bool:
        """True if an object of that key lies here."""

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        """Keys that begin with `prefix` and sort after `start_after`, ascending by UTF-8 bytes.

        Partial writes never appear. An empty or missing location lists nothing.
        """

    def delete(self, key: str) -> None:
        """Removes the object; a key that is not there is no error."""


@runtime_checkable
class AppendableStore(Store, Protocol):
    """A store whose objects can grow: a folder can, S3 cannot."""

    def append(self, key: str, data: bytes | bytearray | memoryview) -> int:
        """Adds `data` to the end of the object, which the first append creates; answers at which byte it begins there.

        A reader may see a part of it, and a kill may leave a part for good: only a format that knows its own ends
        (`records.block_file`), or that an index stored afterwards points into, may lie in such an object. Errors: as
        `put`.
        """


@dataclass(frozen=True)
class Version:
    """An object as it was at one moment. `tag` differs from that of every other content of the object."""

    data: bytes
    tag: str


@runtime_checkable
class VersionedStore(Store, Protocol):
    """A store that can tell whether an object was replaced without sending it again."""

    def get_if_changed(self, key: str, *, tag: str, length: int | None = None) -> Version | None:
        """Return the first `length` bytes of an object, or None if its tag is still `tag`. Errors: as `get`."""


def get_if_changed(store: Store, key: str, *, tag: str = "", length: int | None = None) -> Version | None:
    """Return the first `length` bytes of an object (all for None), or None if its tag is still `tag`.

    `tag` is that of the version read last; "" for none. A store that is no `VersionedStore` is read each time, and the
    content compared: for a small object on a disk that costs no more, and two files may share an inode and a time.
    Errors: as `Store.get`.
    """
    get = getattr(store, "get_if_changed", None)
    if get is not None:
        found: Version | None = get(key, tag=tag, length=length)
        return found
    data = store.get(key, length=length)
    new = hashlib.sha256(data).hexdigest()
    return None if new == tag else Version(data, new)


def put_parts(store: Store, key: str, parts: Iterable[bytes | memoryview]) -> None:
    """Store an object from its parts; a store without a method of this name gets them joined. Errors: as `put`."""
    put = getattr(store, "put_parts", None)  # to ask a protocol takes longer than a small put
    if put is None:
        store.put(key, b"".join(parts))
    else:
        put(key, parts)
