"""A check that folders lie within a location with no link on the way."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable

_TRUSTED_SECONDS = 0.1
_MOST_FOLDERS = 4096


class PlainFolders:
    """The folders below `root`, which may be a link itself. Safe to use from several threads.

    `monotonic` returns seconds.
    """

    def __init__(self, root: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._monotonic = monotonic
        self._seen: dict[str, float] = {}  # when a folder was last found plain

    def hold(self, folder: str, *, trusting: bool = False) -> bool:
        """Return True if no link leads from `root` to `folder`. A missing folder leads nowhere.

        Return False if a link does, or if the system does not answer.

        Args:
            folder: A folder below `root`.
            trusting: Accept findings of the last tenth of a second, so that many reads or writes cost one check of
                their folder.
        """
        if folder == self._root:
            return True
        if trusting:
            seen = self._seen.get(folder)
            if seen is not None and self._monotonic() - seen < _TRUSTED_SECONDS:
                return True
        return self.hold(folder.rpartition("/")[0], trusting=trusting) and self._is_plain(folder)

    def _is_plain(self, folder: str) -> bool:
        try:
            mode = os.lstat(folder).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        if stat.S_ISDIR(mode):
            if len(self._seen) >= _MOST_FOLDERS:
                self._seen.clear()
            self._seen[folder] = self._monotonic()
        return not stat.S_ISLNK(mode)
