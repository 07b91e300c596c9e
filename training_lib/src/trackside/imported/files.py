"""The files below a location: a file, a folder or an S3 prefix."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trackside.contracts.errors import LocationNotFoundError
from trackside.imported.log import LogFile
from trackside.storage.open_store import open_store
from trackside.storage.store import Store, objects_of

HEAD_BYTES = 64 << 10
MOST_FILES = 50_000
WHAT_IS_READ = "trackside judge --help   (lists the logs that it reads)"
_WHERE = "ls   (lists this folder, which a relative path begins at)"
_LEFT_OUT = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".cache"})


@dataclass(frozen=True)
class LocalFile:
    """A file on this machine. `root` is the given folder."""

    file: Path
    root: Path

    @property
    def name(self) -> str:
        """Implement `LogFile`."""
        return self.file.relative_to(self.root).as_posix()

    @property
    def where(self) -> str:
        """Implement `LogFile`."""
        return str(self.file)

    @property
    def size(self) -> int:
        """Implement `LogFile`."""
        return self.file.stat().st_size

    def chunks(self, *, start: int = 0, size: int = 4 << 20) -> Iterator[bytes]:
        """Implement `LogFile`."""
        with self.file.open("rb") as opened:
            opened.seek(start)
            while data := opened.read(size):
                yield data

    def head(self) -> bytes:
        """Implement `LogFile`."""
        with self.file.open("rb") as opened:
            return opened.read(HEAD_BYTES)

    def path(self) -> str:
        """Implement `LogFile`."""
        return str(self.file)


@dataclass(frozen=True)
class StoredFile:
    """An object of a store."""

    store: Store
    name: str
    size: int

    @property
    def where(self) -> str:
        """Implement `LogFile`."""
        return f"{self.store.uri.rstrip('/')}/{self.name}"

    def chunks(self, *, start: int = 0, size: int = 4 << 20) -> Iterator[bytes]:
        """Implement `LogFile`."""
        while data := self.store.get(self.name, start=start, length=size):
            yield data
            if len(data) < size:
                return
            start += len(data)

    def head(self) -> bytes:
        """Implement `LogFile`."""
        return self.store.get(self.name, length=HEAD_BYTES)

    def path(self) -> str:
        """Return the path of a copy, which stays until the process ends."""
        ending = os.path.splitext(self.name)[1]
        with tempfile.NamedTemporaryFile(suffix=ending, delete=False) as copy:
            for data in self.chunks():
                copy.write(data)
        atexit.register(os.unlink, copy.name)
        return copy.name


def files_at(location: str) -> list[LogFile]:
    """Return the files at a location, by name; of a folder and an S3 prefix all below it.

    Args:
        location: A file, a folder or `s3://bucket/prefix`.

    Raises:
        LocationNotFoundError: Neither a file nor a folder is at the location, or it holds no file.
    """
    found = _stored(location) if "://" in location else _local(Path(location).expanduser())
    if not found:
        raise LocationNotFoundError(f"{location} holds no file.", advice=WHAT_IS_READ)
    return found


def _local(path: Path) -> list[LogFile]:
    if path.is_file():
        return [LocalFile(path, path.parent)]
    if not path.is_dir():
        raise LocationNotFoundError(f"There is no file or folder {str(path)!r}.", advice=_WHERE)
    found: list[LogFile] = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        found += [LocalFile(Path(folder, name), path) for name in sorted(names) if Path(folder, name).is_file()]
        if len(found) >= MOST_FILES:
            break
    return found[:MOST_FILES]


def _stored(location: str) -> list[LogFile]:
    prefix, _, last = location.rstrip("/").rpartition("/")
    if "." in last and prefix.count("/") >= 2:  # one object, as it seems
        store = open_store(prefix)
        found = [one for one in _listed(store, last) if one.name == last]
        if found:
            return found
    return _listed(open_store(location), "")[:MOST_FILES]


def _listed(store: Store, prefix: str) -> list[LogFile]:
    listed = objects_of(store, prefix)
    if listed is not None:
        return [StoredFile(store, one.key, one.size_bytes) for one in listed]
    return [StoredFile(store, key, len(store.get(key))) for key in store.list(prefix)]
