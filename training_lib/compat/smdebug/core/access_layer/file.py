"""A file on disk that appears whole or not at all."""

from __future__ import annotations

import os
from typing import Any

from smdebug import not_offered
from smdebug.analysis.utils import logger
from smdebug.core.access_layer.base import TSAccessBase
from smdebug.core.utils import ensure_dir
from trackside.storage.keys import PARTIAL_SUFFIX

SMDEBUG_TEMP_PATH_SUFFIX = PARTIAL_SUFFIX
WRITE_MODES = ["w", "w+", "wb", "wb+", "a", "a+", "ab", "ab+"]


def get_temp_path(file_path: str) -> str:
    """Return the path of a file during writing."""
    return f"{file_path}{SMDEBUG_TEMP_PATH_SUFFIX}"


class TSAccessFile(TSAccessBase):
    """A file that is written under a partial name, which `close` renames. `mode` is that of `open`.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: str, mode: str) -> None:
        self.path, self.mode = path, mode
        self.logger = logger
        self._is_written = mode in WRITE_MODES
        if self._is_written:
            ensure_dir(path)
            self.temp_path = get_temp_path(path)
            # What a crashed run left in the partial file is no beginning of this one.
            mode = mode.replace("a", "w")
            self._accessor: Any = open(self.temp_path, mode)  # noqa: SIM115 - `close` closes it
        else:
            self._accessor = open(path, mode)  # noqa: SIM115 - `close` closes it

    def write(self, _str: Any) -> list[int]:
        """Append data. Return [its position, its length]."""
        start = self._accessor.tell()
        return [start, self._accessor.write(_str)]

    def flush(self) -> None:
        self._accessor.flush()

    def close(self) -> None:
        """Give the file its name. Nothing happens the second time, or if the partial file is gone."""
        self._accessor.close()
        if not self._is_written:
            return
        try:
            os.replace(self.temp_path, self.path)
        except FileNotFoundError:
            self.logger.debug(f"{self.temp_path} is not there any more, or has its name already.")

    def _fetch(self) -> Any:
        return self._accessor.read()


__getattr__ = not_offered.attribute_of(__name__)
