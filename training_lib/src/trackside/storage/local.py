"""A store in a local folder."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator

from trackside.contracts.errors import (
    AccessDeniedError,
    KeyNotFoundError,
    LocationNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from trackside.storage.keys import PARTIAL_SUFFIX, checked_key, checked_prefix, checked_range

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_IN_THE_WAY = {errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space, or store the run elsewhere.",
    errno.EDQUOT: "The disk quota is used up: free some space, or store the run elsewhere.",
    errno.EACCES: "Check who owns the folder and its permissions.",
    errno.EPERM: "Check who owns the folder and its permissions.",
    errno.EROFS: "The file system is read-only: store the run elsewhere.",
    errno.EMFILE: "This process has too many open files: raise the limit (ulimit -n).",
}


class LocalStore:
    """Bytes by key as files below `folder`, which the first put creates.

    A put writes a partial file of a name of its own beside the final one and renames it, so that readers see the old
    or the new content and concurrent writers do not mix. Symbolic links that lead out of the folder are not followed;
    a linked folder within it can be read by key but is not listed.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.path.abspath(folder)

    @property
    def uri(self) -> str:
        return self._folder

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        path = self._path(key)
        partial = f"{path}.{secrets.token_hex(6)}{PARTIAL_SUFFIX}"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _write_whole(partial, path, memoryview(data).cast("B"))
        except OSError as error:
            raise self._translated(error, f"Cannot store {key!r}", storing=True) from error

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        checked_range(start, length)
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                # A start or length that was read from a damaged file must not become a failed seek or an allocation.
                size = os.fstat(file.fileno()).st_size
                remaining = max(0, size - start)
                file.seek(min(start, size))
                return file.read(remaining if length is None else min(length, remaining))
        except OSError as error:
            raise self._translated(error, f"Cannot read {key!r}") from error

    def exists(self, key: str) -> bool:
        path = self._path(key)
        try:
            return stat.S_ISREG(os.stat(path).st_mode)
        except OSError as error:
            if error.errno in _ABSENT:
                return False
            raise self._translated(error, f"Cannot look for {key!r}") from error

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        folder = checked_prefix(prefix).rpartition("/")[0]
        self._path(f"{folder}/x" if folder else "x")  # refuses a linked folder that leads out
        return self._walk(f"{folder}/" if folder else "", prefix, start_after)

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            os.unlink(path)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise self._translated(error, f"Cannot delete {key!r}") from error

    def _path(self, key: str) -> str:
        path = os.path.join(self._folder, *checked_key(key).split("/"))
        root = os.path.realpath(self._folder)
        real = os.path.realpath(path)
        if os.path.commonpath((root, real)) != root:
            raise StorageError(f"{key!r} in {self.uri} is a link that leads out of it, to {real}: not followed.")
        return path

    def _walk(self, below: str, prefix: str, start_after: str) -> Iterator[str]:
        """Keys under the folder `below` ("" or "a/b/"), in key order: a folder sorts as its name with a slash."""
        for name in self._names(below):
            key = below + name
            if not name.endswith("/"):
                if key.startswith(prefix) and key > start_after:
                    yield key
                continue
            in_reach = key.startswith(prefix) or prefix.startswith(key)
            wholly_before = key < start_after and not start_after.startswith(key)
            if in_reach and not wholly_before:
                yield from self._walk(key, prefix, start_after)

    def _names(self, below: str) -> tuple[str, ...]:
        """Names in one folder as they sort in keys; folders end in a slash. A folder that is gone has none."""
        try:
            with os.scandir(os.path.join(self._folder, below)) as entries:
                return tuple(sorted(filter(None, map(_name_in_key, entries))))
        except OSError as error:
            if error.errno == errno.ENOENT or (error.errno == errno.ENOTDIR and below):
                return ()
            raise self._translated(error, f"Cannot list {below!r}") from error

    def _translated(self, error: OSError, what: str, *, storing: bool = False) -> StorageError:
        """The error in the words of `contracts.errors`, with the errno of the original."""
        number = error.errno or 0
        kind: type[StorageError] = StorageUnavailableError
        if os.path.isfile(self._folder):
            kind, advice = LocationNotFoundError, "That is a file: name a folder."
        elif storing and number in _IN_THE_WAY:
            kind, advice = StorageError, "A file stands where a folder is needed, or the reverse."
        elif number in _ABSENT:
            kind, advice = KeyNotFoundError, "There is no file of that name."
        else:
            kind = AccessDeniedError if number in _DENIED else kind
            advice = f"{os.strerror(number)}. {_ADVICE.get(number, '')}".rstrip()
        translated = kind(f"{what} in {self.uri}. {advice}")
        translated.errno = number
        return translated


def _write_whole(partial: str, path: str, data: memoryview) -> None:
    """Writes `partial` and renames it to `path`; on any error nothing remains of it.

    No fsync: a killed process leaves whole files, and only a power cut could lose the newest ones.
    """
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        finally:
            os.close(descriptor)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def _name_in_key(entry: os.DirEntry[str]) -> str:
    """The entry's name as it stands in keys, with a slash if it is a folder; "" if no key can spell it."""
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    if entry.name.endswith(PARTIAL_SUFFIX) or (entry.is_symlink() and entry.is_dir()):
        return ""
    try:
        entry.name.encode("utf-8")
    except UnicodeEncodeError:
        return ""
    return entry.name
