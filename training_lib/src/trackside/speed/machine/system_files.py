"""Files of system metrics, in the place of SageMaker Debugger: in its format or in a compact one.

    system/incremental/<YYYYMMDDHH>/<second>.<node>.json    a file a minute, a line a number
    system/incremental/<YYYYMMDDHH>/<second>.<node>.tms     a file each ten minutes, a byte or two a number

The file that still grows has the name with ".open" at its end, which the original's readers leave alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from functools import cache
from typing import Protocol

from trackside.contracts.run_layout import OPEN_SUFFIX, system_metrics_key
from trackside.records.machine.machine_samples import SUFFIX, Sample, SamplesEncoder
from trackside.speed.machine.system_metrics import Metric

MINUTE, TEN_MINUTES = 60, 600  # a compact file begins with the names of all metrics
FLUSH_SECONDS = 1.0


class _Encoder(Protocol):
    def encode(self, metrics: Iterable[Sample], *, wall_time: float) -> bytes: ...


class SystemFiles:
    """Writes samples below a folder. Each sample is written whole.

    Args:
        folder: The folder of profiles of a run.
        node: Name of this machine, such as `algo-1`.
        is_compact: False for the format that SageMaker Debugger's own readers know.
    """

    def __init__(self, folder: str, *, node: str, is_compact: bool = True) -> None:
        self._folder, self._node, self._is_compact = folder, node, is_compact
        self._encoder: _Encoder = JsonLines(node=node)
        self._waiting: list[bytes] = []
        self._file = -1
        self._path = ""
        self._file_seconds = TEN_MINUTES if is_compact else MINUTE
        self._second = self._flushed_at = 0.0

    def add(self, metrics: Iterable[Metric], *, wall_time: float) -> None:
        """Add a sample.

        Args:
            metrics: Its numbers.
            wall_time: Its moment, in seconds since the epoch.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        if not self._second <= wall_time < self._second + self._file_seconds:
            self.close()
            self._second = self._flushed_at = wall_time // 1
            if self._is_compact:
                self._encoder = SamplesEncoder(node=self._node, second=int(self._second))
        if encoded := self._encoder.encode(metrics, wall_time=wall_time):
            self._waiting.append(encoded)
        if wall_time - self._flushed_at >= FLUSH_SECONDS:
            self._flushed_at = wall_time
            self.flush()

    def flush(self) -> None:
        """Write the samples that wait.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        if not self._waiting:
            return
        if self._file < 0:
            hour = time.strftime("%Y%m%d%H", time.gmtime(self._second))
            suffix = SUFFIX if self._is_compact else ".json"
            key = system_metrics_key(int(self._second), hour=hour, node=self._node, suffix=suffix)
            self._path = os.path.join(self._folder, key)
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file = os.open(self._path + OPEN_SUFFIX, flags, 0o644)
        waiting, self._waiting = self._waiting, []
        os.write(self._file, b"".join(waiting))

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


class JsonLines:
    """Encodes samples as SageMaker Debugger does.

    Args:
        node: Name of this machine.
    """

    def __init__(self, *, node: str) -> None:
        self._node = node

    def encode(self, metrics: Iterable[Sample], *, wall_time: float) -> bytes:
        """Return the lines of one sample.

        Args:
            metrics: (type, name, dimension, value) of each.
            wall_time: Its moment, in seconds since the epoch.
        """
        end = f',"NodeId":"{self._node}","Timestamp":{wall_time:.6f}}}\n'
        lines = [f"{_line_start(kind, name, dimension)}{value:.2f}" for kind, name, dimension, value in metrics]
        return end.join([*lines, ""]).encode("utf-8") if lines else b""


@cache
def _line_start(kind: str, name: str, dimension: str) -> str:
    return f'{{"Type":"{kind}","Name":"{name}","Dimension":"{dimension}","Value":'
