"""Files of system metrics, in the place and the format of SageMaker Debugger: a file a minute, a line a number.

    system/incremental/<YYYYMMDDHH>/<second>.<node>.json

The file of the present minute has the name with ".open" at its end, which the original's readers leave alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import cache

from trackside.contracts.run_layout import OPEN_SUFFIX, system_metrics_key
from trackside.profiling.system_metrics import Metric

FILE_SECONDS = 60
FLUSH_SECONDS = 1.0


class SystemFiles:
    """Writes samples below a folder. Lines are written whole.

    Args:
        folder: The folder of profiles of a run.
        node: Name of this machine, such as `algo-1`.
    """

    def __init__(self, folder: str, *, node: str) -> None:
        self._folder, self._node = folder, node
        self._lines: list[str] = []
        self._file = -1
        self._path = ""
        self._minute = self._flushed_at = 0.0

    def add(self, metrics: Iterable[Metric], *, wall_time: float) -> None:
        """Add a sample.

        Args:
            metrics: Its numbers.
            wall_time: Its moment, in seconds since the epoch.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        if not self._minute <= wall_time < self._minute + FILE_SECONDS:
            self.close()
            self._minute = self._flushed_at = wall_time // 1
        end = f',"NodeId":"{self._node}","Timestamp":{wall_time:.6f}}}\n'
        lines = [f"{_line_start(kind, name, dimension)}{value:.2f}" for kind, name, dimension, value in metrics]
        if lines:
            self._lines.append(end.join([*lines, ""]))
        if wall_time - self._flushed_at >= FLUSH_SECONDS:
            self._flushed_at = wall_time
            self.flush()

    def flush(self) -> None:
        """Write the lines that wait.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        if not self._lines:
            return
        if self._file < 0:
            hour = time.strftime("%Y%m%d%H", time.gmtime(self._minute))
            key = system_metrics_key(int(self._minute), hour=hour, node=self._node)
            self._path = os.path.join(self._folder, key)
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file = os.open(self._path + OPEN_SUFFIX, flags, 0o644)
        lines, self._lines = self._lines, []
        os.write(self._file, "".join(lines).encode("utf-8"))

    def close(self) -> None:
        """Write the rest, and give the file its name.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        self.flush()
        if self._file >= 0:
            descriptor, self._file = self._file, -1
            os.close(descriptor)
            os.rename(self._path + OPEN_SUFFIX, self._path)


@cache
def _line_start(kind: str, name: str, dimension: str) -> str:
    return f'{{"Type":"{kind}","Name":"{name}","Dimension":"{dimension}","Value":'
