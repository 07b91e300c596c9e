"""A cache of the names in folders, valid while a folder's time of change stays the same."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from trackside.storage.keys import PARTIAL_SUFFIX

# Two changes within one tick of a file system's clock bear the same time. A scan counts as settled if it began this
# long after that time was first seen: then it has seen all changes that can bear it. The system's clock and the file
# system's are never compared, for a file server has its own.
_TICK_SECONDS = 0.1
_LONG_TICK_SECONDS = 2.0  # file systems with stamps of whole seconds

_REMEMBERED_SECONDS = 5.0  # changes that a file system does not show are seen after this time
_SLOWEST_WRITE_NS = 10 * 10**9
_MOST_NAMES = 100_000


@dataclass(frozen=True)
class _Scan:
    names: tuple[str, ...]
    stamp: tuple[int, int, int]  # device, inode, time of change in ns
    first_seen: float  # when this stamp was first seen, in seconds
    began: float

    def holds(self, now: float) -> bool:
        tick = _TICK_SECONDS if self.stamp[2] % 10**9 else _LONG_TICK_SECONDS
        return self.began - self.first_seen >= tick and now - self.began < _REMEMBERED_SECONDS


class FolderNames:
    """A cache of the names in folders. Safe to use from several threads.

    About 100,000 names are remembered, those used last.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._scans: dict[str, _Scan] = {}  # the one used last stands last
        self._count = 0
        self._lock = threading.Lock()

    def of(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder as they stand in keys, sorted.

        Folders end in a slash. Links to folders and partial writes are left out.

        Raises:
            OSError: The folder cannot be read.
        """
        status = os.stat(folder)  # before the scan: what changes during it will show the next time
        now = self._monotonic()
        stamp = (status.st_dev, status.st_ino, status.st_mtime_ns)
        known = self._taken(folder)
        first_seen = known.first_seen if known is not None and known.stamp == stamp else now
        if known is not None and known.stamp == stamp and known.holds(now):
            self._put(folder, known)
            return known.names
        names, has_links = _scan(folder)
        if not has_links and _shows_changes(folder, names, status.st_mtime_ns):
            self._put(folder, _Scan(names, stamp, first_seen, now))
        return names

    def _taken(self, folder: str) -> _Scan | None:
        with self._lock:
            scan = self._scans.pop(folder, None)
            self._count -= _room(scan) if scan else 0
        return scan

    def _put(self, folder: str, scan: _Scan) -> None:
        with self._lock:
            self._count += _room(scan) - (_room(self._scans[folder]) if folder in self._scans else 0)
            self._scans[folder] = scan
            while self._count > _MOST_NAMES:
                self._count -= _room(self._scans.pop(next(iter(self._scans))))


def _room(scan: _Scan) -> int:
    return len(scan.names) + 10  # an empty folder takes room too


def _scan(folder: str) -> tuple[tuple[str, ...], bool]:
    """Return the names, and True if the folder has links.

    A link's target may change without a trace in the folder.
    """
    with os.scandir(folder) as found:
        entries = list(found)
    names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    has_links = False
    if len(names) < len(entries):
        others = [entry for entry in entries if not entry.is_file(follow_symlinks=False)]
        has_links = any(entry.is_symlink() for entry in others)
        names += [name for entry in others if (name := _name_of_other(entry))]
    if not _are_usual(names):
        names = [name for name in names if not name.endswith(PARTIAL_SUFFIX) and _is_unicode(name)]
    return tuple(sorted(names)), has_links


def _name_of_other(entry: os.DirEntry[str]) -> str:
    """Return the name of an entry that is no plain file, "" for one that is not listed: a link to a folder, a pipe."""
    if entry.is_dir(follow_symlinks=False):
        return f"{entry.name}/"
    return entry.name if entry.is_symlink() and not _leads_to_a_folder(entry) else ""


def _leads_to_a_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:  # a ring of links, or behind a folder that is closed to us: reading it will raise the error
        return False


def _are_usual(names: list[str]) -> bool:
    """Return True if a key can surely spell all the names. One check for all saves time."""
    text = "/".join([*names, ""])
    return text.isascii() and f"{PARTIAL_SUFFIX}/" not in text


def _is_unicode(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shows_changes(folder: str, names: tuple[str, ...], changed_ns: int) -> bool:
    """Return False if the newest file is clearly younger than its folder's last change.

    The newest file of a run is the last by name. Some file systems, among them mounts of S3, give folders a time that
    never changes.
    """
    if not names or names[-1].endswith("/"):
        return True
    try:
        return os.lstat(f"{folder}/{names[-1]}").st_mtime_ns - changed_ns < _SLOWEST_WRITE_NS
    except OSError:  # gone again: the folder has changed, so the scan will not be used anyway
        return True
