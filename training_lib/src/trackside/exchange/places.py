"""Moves of files between two places, if possible without their bytes passing through this process.

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
from trackside.storage.store import Store

# Errors of a file system that cannot link: another device, no links here, not our file, too many.
_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}
_OF_THE_SOURCE = {errno.EIO, errno.ESTALE}  # once the file has been opened


class UnreadableFileError(Exception):
    """A file of the source that cannot be read; others may be readable."""


class Place(Store, Protocol):
    """The location of a run, or of a part of it."""

    def sizes(self, prefixes: Iterable[str]) -> dict[str, int]:
        """Return the size in bytes of each file below any of the prefixes, by key; -1 for one that cannot be examined.

        Raises:
            StorageError: The place cannot be listed.
        """


class RemotePlace(Place, Protocol):
    """A place on another machine, from which files are fetched and to which they are sent."""

    def copy_from(self, source: RemotePlace, key: str, *, size: int) -> None:
        """Copy a file of another remote place without its bytes passing through this process.

        Raises:
            StorageError: It cannot be copied.
        """

    def download(self, key: str, path: str) -> None:
        """Fetch a file into a local one.

        Raises:
            StorageError: It cannot be fetched.
        """

    def upload(self, key: str, path: str) -> None:
        """Store a local file.

        Raises:
            StorageError: It cannot be stored.
        """


class FolderPlace(LocalStore):
    """A folder on this machine."""

    def sizes(self, prefixes: Iterable[str]) -> dict[str, int]:
        return {key: size for prefix in prefixes for key in self.list(prefix) if (size := self._size(key)) is not None}

    def path(self, key: str) -> str:
        """Return the path of a file, with links within the folder resolved.

        Raises:
            StorageError: A link leads out of the folder.
        """
        return os.path.realpath(self._path(key))

    def target_path(self, key: str) -> str:
        """Return the path for a new file of that key.

        Raises:
            StorageError: A link leads out of the folder.
        """
        return self._path(key)

    def _size(self, key: str) -> int | None:
        try:
            found = os.stat(self.path(key))
        except OSError:  # it counts as a file of the source: bringing it reports the reason
            return -1
        return found.st_size if stat.S_ISREG(found.st_mode) else -1


def bring(key: str, size: int, *, source: Place, target: Place, may_link: bool = True) -> int | None:
    """Bring one file, and replace an existing one. Return the number of bytes copied, None for a link.

    Args:
        key: Key of the file.
        size: Its size in bytes.
        source: Place to bring it from.
        target: Place to bring it to.
        may_link: Allow a hard link.

    Raises:
        UnreadableFileError: The file cannot be read in the source.
        StorageError: Anything else failed.
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
    """Return the file's path after a test read: a link to an unreadable file would only hide the fault."""
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
    """Yield a partial name to fill. It becomes the real name on success, and is removed otherwise."""
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
        ):  # usually gone already; but a link renamed onto another name of its own file stays
            os.unlink(partial)
