"""Files moved between two places without their bytes passing through here where that can be helped.

In a folder that is a hard link, in S3 a copy on the server. A file appears whole or not at all, as in any store.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from typing import Protocol, cast

from trackside.contracts.errors import KeyNotFoundError, StorageError, StorageUnavailableError
from trackside.storage.keys import PARTIAL_SUFFIX
from trackside.storage.local import LocalStore
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

# What a file system says that cannot link: another device, no links here, not our file, too many.
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}
_OF_THE_SOURCE = {errno.EIO, errno.ESTALE}  # once the file has been opened


class UnreadableFileError(Exception):
    """One file of the source cannot be read; the others may be."""


class Place(Store, Protocol):
    """Where a run lies, or part of it."""

    def sizes(self, prefixes: Iterable[str]) -> dict[str, int]:
        """Size in bytes of each file below any of the prefixes, by key; -1 for one that cannot be looked at.

        Errors: `StorageError`.
        """


class RemotePlace(Place, Protocol):
    """A place whose files are fetched and sent."""

    def copy_from(self, source: RemotePlace, key: str, *, size: int) -> None:
        """Copies a file of another remote place without its bytes coming here. Errors: `StorageError`."""

    def download(self, key: str, path: str) -> None:
        """Fetches a file into a local one. Errors: `StorageError`."""

    def upload(self, key: str, path: str) -> None:
        """Stores a local file. Errors: `StorageError`."""


class FolderPlace(LocalStore):
    """A folder on this machine."""

    def sizes(self, prefixes: Iterable[str]) -> dict[str, int]:
        return {key: size for prefix in prefixes for key in self.list(prefix) if (size := self._size(key)) is not None}

    def path(self, key: str) -> str:
        """Where a file lies, links within the folder followed. Errors: `StorageError` for a link that leads out."""
        return os.path.realpath(self._path(key))

    def target_path(self, key: str) -> str:
        """Where a file of that key is to lie. Errors: as `path`."""
        return self._path(key)

    def _size(self, key: str) -> int | None:
        try:
            found = os.stat(self.path(key))
        except OSError:  # it, too, is of the source: whoever brings it says why it cannot be had
            return -1
        return found.st_size if stat.S_ISREG(found.st_mode) else -1


def open_place(uri: str) -> Place:
    """The place at a folder or `s3://` prefix. Errors: as `open_store`."""
    store = open_store(uri)
    if isinstance(store, LocalStore):
        return FolderPlace(store.uri)
    from trackside.exchange.bucket_place import BucketPlace  # boto3 is an extra, and slow to import

    return BucketPlace.at(uri)


def bring(key: str, size: int, *, source: Place, target: Place, may_link: bool = True) -> int | None:
    """Brings one file; how many of its bytes were copied, None for a link. What lay there is replaced.

    Errors: `UnreadableFileError` for a file of the source that cannot be read; `StorageError` for all else.
    """
    if isinstance(source, FolderPlace):
        if isinstance(target, FolderPlace):
            return _bring_within(key, source, target, may_link=may_link)
        cast("RemotePlace", target).upload(key, _readable(source, key))
        return size
    remote = cast("RemotePlace", source)
    try:
        if isinstance(target, FolderPlace):
            with _arriving(target, key) as partial:
                remote.download(key, partial)
        else:
            cast("RemotePlace", target).copy_from(remote, key, size=size)
    except KeyNotFoundError as error:
        raise UnreadableFileError("it has gone since it was listed") from error
    return size


def _bring_within(key: str, source: FolderPlace, target: FolderPlace, *, may_link: bool) -> int | None:
    path = _readable(source, key)
    with _arriving(target, key) as partial:
        if may_link and _linked(path, partial):
            return None
        try:
            shutil.copyfile(path, partial)
        except OSError as error:
            if error.errno in _OF_THE_SOURCE:
                raise UnreadableFileError(error.strerror) from error
            raise
        return os.path.getsize(partial)


def _readable(source: FolderPlace, key: str) -> str:
    """The file's path, once it has been seen that it can be read: a link to what cannot would only hide it."""
    try:
        path = source.path(key)
    except StorageError as error:
        raise UnreadableFileError("it is a link that leads out of the run") from error
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise UnreadableFileError("it is no regular file")
        with open(path, "rb") as file:
            file.read(1)
    except OSError as error:
        raise UnreadableFileError(error.strerror or str(error)) from error
    return path


def _linked(path: str, partial: str) -> bool:
    try:
        os.link(path, partial)
    except OSError as error:
        if error.errno in _CANNOT_LINK:
            return False
        raise
    return True


@contextlib.contextmanager
def _arriving(target: FolderPlace, key: str) -> Iterator[str]:
    """A partial name to fill, which gets its real name when that has gone well, and is gone otherwise."""
    path = target.target_path(key)
    partial = f"{path}.{secrets.token_hex(6)}{PARTIAL_SUFFIX}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        yield partial
        os.replace(partial, path)
    except StorageError:
        raise
    except OSError as error:
        kind = StorageUnavailableError if error.errno in {errno.ENOSPC, errno.EDQUOT} else StorageError
        raise kind(f"Cannot write {path}. {error.strerror or error}. What was brought stays: run it again.") from error
    finally:
        with contextlib.suppress(
            OSError
        ):  # it is not there; but a link renamed onto another name of its own file stays
            os.unlink(partial)
