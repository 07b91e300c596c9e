"""A folder of a store as a store of its own: one client and its connections serve many runs of one bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from trackside.contracts.errors import KeyNotFoundError, NotAFileError
from trackside.storage.keys import checked_key, checked_prefix
from trackside.storage.store import Listed, Store, Version, get_if_changed, objects_of


class Subfolder:
    """The objects below `folder` of a store, with keys relative to it."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._base = store, f"{folder.strip('/')}/"

    @property
    def uri(self) -> str:
        return f"{self._store.uri.rstrip('/')}/{self._base.rstrip('/')}"

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        self._store.put(self._base + checked_key(key), data)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        with self._naming(key):
            return self._store.get(self._base + checked_key(key), start=start, length=length)

    def get_if_changed(self, key: str, *, tag: str, length: int | None = None) -> Version | None:
        with self._naming(key):
            return get_if_changed(self._store, self._base + checked_key(key), tag=tag, length=length)

    def exists(self, key: str) -> bool:
        return self._store.exists(self._base + checked_key(key))

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        after = self._base + start_after if start_after else ""
        return (
            key[len(self._base) :] for key in self._store.list(self._base + checked_prefix(prefix), start_after=after)
        )

    def objects(self, prefix: str = "") -> Iterator[Listed] | None:
        found = objects_of(self._store, self._base + checked_prefix(prefix))
        return None if found is None else (replace(one, key=one.key[len(self._base) :]) for one in found)

    def delete(self, key: str) -> None:
        self._store.delete(self._base + checked_key(key))

    @contextmanager
    def _naming(self, key: str) -> Iterator[None]:
        """Name the key of this folder in the error about a missing object."""
        try:
            yield
        except NotAFileError:
            raise
        except KeyNotFoundError as error:
            raise KeyNotFoundError(f"There is no {key!r} in {self.uri}.") from error
