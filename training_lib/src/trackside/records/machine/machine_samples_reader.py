"""Read files of samples of a machine in Trackside's own format, whole or as they grow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import RecordError
from trackside.records.machine.machine_samples import (
    FIRST_TABLE,
    HUNDRED,
    MAGIC,
    TABLE,
    TEXT,
    THOUSAND,
    TICKS,
    MetricName,
    is_of_bytes,
)
from trackside.records.machine.system_metrics_file import SystemSample
from trackside.records.machine.system_series import SystemSeries

_MOST_BYTES_A_NUMBER = 9
_MOST_LENGTH = 1 << 16  # characters of a text, and metrics of a table
_MOST_SECOND = 1 << 40
_Numbers = NDArray[np.int64]


@dataclass
class _Table:
    """Metrics that come together.

    Attributes:
        metrics: Their numbers in the file.
        last: Moment and values of the newest sample, in stored units, int64 of shape (1 + metrics,).
        rows: Places of new samples in a stretch of numbers.
    """

    metrics: tuple[int, ...]
    last: _Numbers
    rows: list[int] = field(default_factory=list)


class MachineSamplesReader:
    """Reads one file in pieces.

    Args:
        key: Its key, for messages.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._rest = b""
        self._place = 0  # of the rest in the file
        self._node, self._second = "", 0
        self._has_head = False
        self._metrics: list[MetricName] = []
        self._tables: list[_Table] = []

    def feed(self, data: bytes) -> Iterator[SystemSeries]:
        """Yield the samples of the next bytes of the file. A record that is not whole is kept for the next call.

        A metric may come twice, with other moments.

        Raises:
            RecordError: It is no such file, or damaged here; after the samples before the damage.
        """
        data = self._rest + data
        if not self._place:
            if not data.startswith(MAGIC[: len(data)]):
                raise RecordError(self._key, 0, "is no file of samples of a machine")
            if len(data) < len(MAGIC):
                self._rest = data
                return
            self._place, data = len(MAGIC), data[len(MAGIC) :]
        numbers, ends, damage = _numbers(data)
        read = 0
        while True:
            try:
                after = self._record(numbers, read)
            except (ValueError, RecursionError) as error:
                damage = str(error)
                break
            if after is None:
                break
            read = after
        yield from self._new_samples(numbers)
        used = int(ends[read - 1]) + 1 if read else 0
        self._place, self._rest = self._place + used, data[used:]
        if damage:
            raise RecordError(self._key, self._place, f"is no record of samples: {damage}")

    def _record(self, numbers: _Numbers, start: int) -> int | None:
        """Take the record that begins here. Return the place after it; None if it is not whole.

        Raises:
            ValueError: It is damaged.
        """
        if start >= len(numbers):
            return None
        kind = int(numbers[start])
        if kind >= FIRST_TABLE:
            return self._row(kind - FIRST_TABLE, numbers, start)
        if start + 1 >= len(numbers):
            return None
        length = int(numbers[start + 1])
        if not 0 <= length <= _MOST_LENGTH:
            raise ValueError(f"a length of {length}")
        end = start + 2 + length
        if end > len(numbers):
            return None
        content = numbers[start + 2 : end]
        if kind == TEXT:
            self._take_text(content)
        elif kind == TABLE:
            self._take_table(content)
        else:
            raise ValueError(f"a record of kind {kind}")
        return end

    def _row(self, number: int, numbers: _Numbers, start: int) -> int | None:
        if number >= len(self._tables):
            raise ValueError(f"table {number} of {len(self._tables)}")
        table = self._tables[number]
        end = start + 1 + len(table.last)
        if end > len(numbers):
            return None
        table.rows.append(start + 1)
        return end

    def _take_text(self, content: _Numbers) -> None:
        if ((content < 0) | (content > 127)).any():
            raise ValueError("a text that is not ASCII")
        found = json.loads(content.astype(np.uint8).tobytes())
        if not self._has_head:
            if not isinstance(found, dict) or not 0 <= int(found.get("second", -1)) < _MOST_SECOND:
                raise ValueError("a head without a second")
            self._node, self._second, self._has_head = str(found.get("node", "")), int(found["second"]), True
            return
        if not (isinstance(found, list) and len(found) == 3 and all(isinstance(each, str) for each in found)):
            raise ValueError("a metric without type, name and dimension")
        self._metrics.append((found[0], found[1], found[2]))

    def _take_table(self, content: _Numbers) -> None:
        if not len(content) or ((content < 0) | (content >= len(self._metrics))).any():
            raise ValueError("a table of unknown metrics")
        self._tables.append(_Table(tuple(content.tolist()), np.zeros(1 + len(content), np.int64)))

    def _new_samples(self, numbers: _Numbers) -> Iterator[SystemSeries]:
        for table in self._tables:
            if not table.rows:
                continue
            width = np.arange(len(table.last))
            stored = numbers[np.array(table.rows)[:, None] + width]
            changes = (stored >> 1) ^ -(stored & 1)
            found = np.cumsum(changes, axis=0) + table.last
            table.rows, table.last = [], found[-1].copy()
            times = self._second + found[:, 0] / TICKS
            for place, metric in enumerate(table.metrics, 1):
                kind, name, dimension = self._metrics[metric]
                stored_values = found[:, place].astype(np.float64)
                values = stored_values * THOUSAND if is_of_bytes(name, dimension) else stored_values / HUNDRED
                yield SystemSeries(kind, name, dimension, self._node, times, values)


def decode_machine_samples(data: bytes, *, key: str) -> list[SystemSample]:
    """Return the samples of one file by their time. A last record that was cut off is left out.

    Raises:
        RecordError: It is no such file, or damaged.
    """
    return samples_by_time(MachineSamplesReader(key).feed(data))


def samples_by_time(series: Iterable[SystemSeries]) -> list[SystemSample]:
    """Return the samples of some series, oldest first."""
    found = [
        SystemSample(each.kind, each.name, each.dimension, value, each.node, time)
        for each in series
        for time, value in zip(each.times.tolist(), each.values.tolist(), strict=True)
    ]
    return sorted(found, key=lambda sample: sample.timestamp)


def _numbers(data: bytes) -> tuple[_Numbers, NDArray[np.intp], str]:
    """Return the whole numbers in these bytes, the place of the last byte of each, both of shape (n,), and a damage."""
    found = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(found < 128)
    lengths = np.diff(ends, prepend=-1)
    too_long = np.flatnonzero(lengths > _MOST_BYTES_A_NUMBER)
    if len(too_long):
        ends, lengths = ends[: too_long[0]], lengths[: too_long[0]]
    numbers = np.zeros(len(ends), np.int64)
    for byte in range(int(lengths.max(initial=0))):
        has_it = lengths > byte
        places = ends[has_it] - lengths[has_it] + 1 + byte
        numbers[has_it] |= (found[places].astype(np.int64) & 127) << (7 * byte)
    return numbers, ends, f"a number of more than {_MOST_BYTES_A_NUMBER} bytes" if len(too_long) else ""
