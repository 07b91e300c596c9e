"""A store in a local folder."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from trackside.contracts.errors import (
    AccessDeniedError,
    KeyNotFoundError,
    LocationNotFoundError,
    NotAFileError,
    StorageError,
    StorageUnavailableError,
)
from trackside.storage.direct_writing import DirectWriting
from trackside.storage.files_at_once import stored_files
from trackside.storage.folder_names import FolderNames
from trackside.storage.keys import PARTIAL_SUFFIX, checked_key, checked_prefix, checked_range
from trackside.storage.plain_folders import PlainFolders
from trackside.storage.store import Listed

_T = TypeVar("_T")

_BINARY = getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
# Without waiting: a pipe in the place of a file must not stop a reader for ever.
_READ = os.O_RDONLY | _BINARY | getattr(os, "O_NONBLOCK", 0)
_WRITTEN_AT_ONCE = 1 << 20  # bytes: in one call 98 MB took 20 ms at some times and 600 ms at others
_CAN_GATHER = hasattr(os, "writev")  # not on Windows
_MOST_GATHERED = 512  # parts in one call; POSIX systems take 1024 and more
_SMALL_READ, _SMALL_START = 64 << 10, 1 << 40  # smaller reads need no look at the file's size

_IS_A_LINK = {errno.ELOOP, errno.EMLINK}  # the latter on FreeBSD
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
# Errors on reading a folder, a ring of links, a socket, or a pipe that is empty or read from an offset.
_NO_FILE = {errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ESPIPE, errno.EAGAIN}
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
    """A folder as a store: bytes by key as files below `folder`, which the first put creates.

    A put writes a partial file under a unique name beside the final one and renames it. So readers see the old or the
    new content, and concurrent writers do not mix. Symbolic links that lead out of the folder are not followed. A
    linked folder within it can be read by key but is not listed. If a link replaces a folder that was in use, that is
    noticed within a tenth of a second. `monotonic` returns seconds.
    """

    def __init__(self, folder: str | os.PathLike[str], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._folder = os.path.abspath(folder)
        self._plain_folders = PlainFolders(self._folder, monotonic=monotonic)
        self._folder_names = FolderNames(monotonic=monotonic)
        self._direct = DirectWriting(monotonic=monotonic)
        self._own_name, self._partial_count = os.urandom(6).hex(), itertools.count()

    @property
    def uri(self) -> str:
        return self._folder

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        path = self._path(key, trusting=True)
        partial = self._partial(path)
        self._write(key, path, lambda: _write_whole(partial, path, [memoryview(data).cast("B")], self._direct))

    def put_parts(self, key: str, parts: Iterable[bytes | memoryview]) -> None:
        """Store an object from its parts, which are written one after another and never joined."""
        path, views = self._path(key, trusting=True), [memoryview(part).cast("B") for part in parts]
        partial = self._partial(path)
        self._write(key, path, lambda: _write_whole(partial, path, views, self._direct))

    def put_many(self, objects: Sequence[tuple[str, bytes]]) -> int:
        """Store small objects in their order, as `put` does. Return how many are stored: less than all after an error.

        A `put` of the first one that is missing raises the error. With compiled code the interpreter's lock is let go
        once for all of them, and not several times for each, which the thread that trains would pay for.

        Args:
            objects: Key and content of each.
        """
        names: list[tuple[bytes, bytes]] = []
        for key, _ in objects:
            path = f"{self._folder}/{checked_key(key)}"
            if not self._plain_folders.hold(_parent(path), trusting=True):
                break  # which `put` looks into
            name = os.fsencode(path)
            names.append((name + self._partial("").encode("ascii"), name))
        return stored_files(names, [data for _, data in objects[: len(names)]]) if names else 0

    def append(self, key: str, data: bytes | bytearray | memoryview) -> int:
        path = self._path(key, trusting=True)
        return self._write(key, path, lambda: _write_at_end(path, memoryview(data).cast("B")))

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        checked_range(start, length)
        path = f"{self._folder}/{checked_key(key)}"
        try:
            descriptor = self._open(path, key)
            try:
                return _read(descriptor, start, length)
            finally:
                os.close(descriptor)
        except StorageError:
            raise
        except OSError as error:
            raise self._translated(error, f"Cannot read {key!r}") from error

    def exists(self, key: str) -> bool:
        try:
            return stat.S_ISREG(os.stat(self._path(key)).st_mode)
        except NotAFileError:
            return False
        except StorageError:
            raise
        except OSError as error:
            if error.errno in _ABSENT | _NO_FILE:
                return False
            raise self._translated(error, f"Cannot look for {key!r}") from error

    def list(self, prefix: str = "", *, start_after: str = "") -> Iterator[str]:
        folder = checked_prefix(prefix).rpartition("/")[0]
        path = f"{self._folder}/{folder}"
        if folder and not self._plain_folders.hold(path, trusting=True):
            self._refuse_link_out(path, folder)
        return self._walk(f"{folder}/" if folder else "", prefix, start_after)

    def objects(self, prefix: str = "") -> Iterator[Listed]:
        for key in self.list(prefix):
            try:
                status = os.stat(f"{self._folder}/{key}")
            except OSError as error:
                if error.errno in _ABSENT | _NO_FILE:  # removed since, or a link that leads nowhere
                    continue
                raise self._translated(error, f"Cannot look at {key!r}") from error
            yield Listed(key, status.st_size, status.st_mtime)

    def delete(self, key: str) -> None:
        path = self._path(key)
        try:
            os.unlink(path)
        except OSError as error:
            if error.errno not in _ABSENT:
                raise self._translated(error, f"Cannot delete {key!r}") from error

    def _partial(self, path: str) -> str:
        """Return a unique name beside `path`: no other store, thread or process uses it, not even a forked one."""
        return f"{path}.{self._own_name}-{os.getpid():x}-{next(self._partial_count):x}{PARTIAL_SUFFIX}"

    def _path(self, key: str, *, trusting: bool = False) -> str:
        """Return the file's path. `trusting` as in `PlainFolders.hold`.

        Raises:
            StorageError: A link leads out of the folder.
        """
        path = f"{self._folder}/{checked_key(key)}"
        if not self._plain_folders.hold(_parent(path), trusting=trusting) or os.path.islink(path):
            self._refuse_link_out(path, key)
        return path

    def _open(self, path: str, key: str) -> int:
        """Return a descriptor to read from.

        Raises:
            OSError: The file cannot be opened.
            StorageError: A link leads out of the folder.
        """
        if _NO_LINK and self._plain_folders.hold(_parent(path), trusting=True):
            try:
                return os.open(path, _READ | _NO_LINK)
            except OSError as error:
                if error.errno not in _IS_A_LINK:
                    raise
        self._refuse_link_out(path, key)
        return os.open(path, _READ)

    def _refuse_link_out(self, path: str, key: str) -> None:
        root, real = os.path.realpath(self._folder), os.path.realpath(path)
        if os.path.commonpath((root, real)) != root:
            raise NotAFileError(f"{key!r} in {self.uri} is a link that leads out of it, to {real}: not followed.")

    def _write(self, key: str, path: str, write: Callable[[], _T]) -> _T:
        try:
            try:
                return write()
            except FileNotFoundError:
                _make_folder(_parent(path))
                return write()
        except OSError as error:
            raise self._translated(error, f"Cannot store {key!r}", storing=True) from error

    def _walk(self, below: str, prefix: str, start_after: str) -> Iterator[str]:
        """Yield keys under the folder `below` ("" or "a/b/"), in key order: a folder sorts as its name with a slash."""
        if not start_after.startswith(below):
            if start_after > below:
                return
            start_after = ""
        names, beginning = self._names(below), prefix[len(below) :]
        first = max(bisect_left(names, beginning), _first_after(names, start_after[len(below) :]))
        for name in names[first:] if first else names:
            if not name.startswith(beginning):
                return
            if name.endswith("/"):
                yield from self._walk(below + name, prefix, start_after)
            else:
                yield below + name

    def _names(self, below: str) -> tuple[str, ...]:
        """Return the names in one folder in the order of keys. Folders end in a slash. A missing folder has none."""
        try:
            return self._folder_names.of(f"{self._folder}/{below[:-1]}" if below else self._folder)
        except OSError as error:
            if error.errno == errno.ENOENT or (error.errno == errno.ENOTDIR and below):
                return ()
            raise self._translated(error, f"Cannot list {below!r}") from error

    def _translated(self, error: OSError, what: str, *, storing: bool = False) -> StorageError:
        """Return the error as one of `contracts.errors`, with the errno of the original."""
        number = error.errno or 0
        kind: type[StorageError] = StorageUnavailableError
        if os.path.isfile(self._folder):
            kind, advice = LocationNotFoundError, "That is a file: name a folder."
        elif storing and number in _IN_THE_WAY:
            kind, advice = StorageError, "A file stands where a folder is needed, or the reverse."
        elif not storing and number in _NO_FILE:
            kind, advice = NotAFileError, "The path exists but is no file."
        elif number in _ABSENT:
            kind, advice = KeyNotFoundError, "There is no file of that name."
        else:
            kind = AccessDeniedError if number in _DENIED else kind
            advice = f"{os.strerror(number)}. {_ADVICE.get(number, '')}".rstrip()
        translated = kind(f"{what} in {self.uri}. {advice}")
        translated.errno = number
        return translated


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _make_folder(path: str) -> None:
    """Make the folder, and missing ones above it."""
    try:
        os.mkdir(path)  # nearly always only the last one is: a step's own folder
    except (FileNotFoundError, FileExistsError):
        os.makedirs(path, exist_ok=True)


def _first_after(names: tuple[str, ...], start_after: str) -> int:
    """Return the place of the first name that sorts after `start_after`, or has something below it that does."""
    folder, slash, _ = start_after.partition("/")
    return bisect_left(names, folder + slash) if slash else bisect_right(names, start_after)


def _read(descriptor: int, start: int, length: int | None) -> bytes:
    """Return the bytes from `start` on, at most `length`.

    Raises:
        OSError: They cannot be read, or it is no file.
    """
    if length is None or length > _SMALL_READ or start > _SMALL_START:
        # A start or length that was read from a damaged file must not become a failed seek or an allocation.
        size = _file_size(descriptor)
        start = min(start, size)
        length = size - start if length is None else min(length, size - start)
    if start:
        os.lseek(descriptor, start, os.SEEK_SET)
    data = os.read(descriptor, length)
    if not data:
        _file_size(descriptor)  # nobody at the other end of a pipe is no end of a file
    while len(data) < length and (more := os.read(descriptor, length - len(data))):  # a call gives 2 GB at most
        data += more
    return data


def _file_size(descriptor: int) -> int:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return status.st_size


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data[:_WRITTEN_AT_ONCE]) :]


def _write_views(descriptor: int, views: Sequence[memoryview]) -> None:
    """Write the views one after another, gathered into calls of the size that `_write_all` uses."""
    gathered: list[memoryview] = []
    room = _WRITTEN_AT_ONCE
    for view in views:
        start = 0
        while len(view) - start >= room:
            gathered.append(view[start : start + room])
            _write_gathered(descriptor, gathered)
            start += room
            gathered, room = [], _WRITTEN_AT_ONCE
        if start < len(view):
            gathered.append(view[start:] if start else view)
            room -= len(view) - start
        if len(gathered) == _MOST_GATHERED:
            _write_gathered(descriptor, gathered)
            gathered, room = [], _WRITTEN_AT_ONCE
    _write_gathered(descriptor, gathered)


def _write_gathered(descriptor: int, views: list[memoryview]) -> None:
    written = os.writev(descriptor, views) if len(views) > 1 and _CAN_GATHER else 0
    for view in views:  # the rest, if the disk is nearly full or the system cannot write all at once
        if written < len(view):
            _write_all(descriptor, view[written:] if written else view)
        written = max(0, written - len(view))


def _write_at_end(path: str, data: memoryview) -> int:
    """Append `data` to the file, and return the byte at which they begin."""
    size = len(data)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
    try:
        _write_all(descriptor, data)
        return os.lseek(descriptor, 0, os.SEEK_CUR) - size
    finally:
        os.close(descriptor)


def _write_whole(partial: str, path: str, views: Sequence[memoryview], direct: DirectWriting) -> None:
    """Write `partial` and rename it to `path`. On any error nothing remains of it.

    No fsync: a killed process leaves whole files, and only a power cut could lose the newest ones.
    """
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    try:
        try:
            if direct.wants(sum(map(len, views))) and direct.write(descriptor, views):
                pass
            elif len(views) == 1:
                _write_all(descriptor, views[0])
            else:
                _write_views(descriptor, views)
        finally:
            os.close(descriptor)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
