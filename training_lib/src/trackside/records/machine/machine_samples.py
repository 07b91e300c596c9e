"""Write samples of a machine in few bytes: `docs/formats/machine-samples.md`. It needs the standard library only.

The whole file is a stream of whole numbers, each in groups of 7 bits; texts are ASCII, and so a number a character.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from functools import cache

MAGIC = b"tms1"
SUFFIX = ".tms"
TEXT, TABLE, FIRST_TABLE = 0, 1, 2  # the first number of a record; a table's own number is that of its samples
TICKS = 10_000  # of the clock of samples, a second
THOUSAND, HUNDRED = 1000.0, 100.0  # bytes are stored as thousands, other numbers as hundredths

_KEY = re.compile(r"(?:.*/)?(?P<second>[0-9]+)\.(?P<node>.+)\.(?P<suffix>json|tms)(?:\.open)?")

MetricName = tuple[str, str, str]  # type, name, dimension
Sample = tuple[str, str, str, float]  # and its value


def without_exports(keys: Iterable[str]) -> list[str]:
    """Return keys of files of samples, without the JSON files that `trackside export` made of compact ones."""
    found = [(key, _KEY.fullmatch(key)) for key in keys]
    firsts: dict[str, int] = {}
    for _, match in found:
        if match and match["suffix"] == "tms":
            firsts[match["node"]] = min(int(match["second"]), firsts.get(match["node"], int(match["second"])))
    return [
        key
        for key, match in found
        if not (match and match["suffix"] == "json" and int(match["second"]) >= firsts.get(match["node"], math.inf))
    ]


class SamplesEncoder:
    """Encodes the samples of one file.

    Args:
        node: Name of the machine, such as `algo-1`.
        second: The second since the epoch from which moments are counted.
    """

    def __init__(self, *, node: str, second: int) -> None:
        self._head = MAGIC + _text({"node": node, "second": second})
        self._second = second
        self._numbers: dict[MetricName, int] = {}
        self._tables: dict[tuple[MetricName, ...], _Table] = {}

    def encode(self, metrics: Iterable[Sample], *, wall_time: float) -> bytes:
        """Return the records of one sample. Numbers that are not finite are left out.

        Args:
            metrics: (type, name, dimension, value) of each.
            wall_time: Its moment, in seconds since the epoch.
        """
        found = [metric for metric in metrics if math.isfinite(metric[3])]
        head, self._head = self._head, b""
        if not found:
            return head
        names: tuple[MetricName, ...] = tuple([metric[:3] for metric in found])
        table = self._tables.get(names)
        if table is None:
            table = self._tables[names] = _Table(FIRST_TABLE + len(self._tables), names)
            head += self._described(names)
        moment = round((wall_time - self._second) * TICKS)
        return head + table.row(moment, [metric[3] for metric in found])

    def _described(self, names: tuple[MetricName, ...]) -> bytes:
        """Return the texts of metrics that come for the first time, and the record of a table."""
        parts = []
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = len(self._numbers)
                parts.append(_text(name))
        row = [TABLE, len(names), *(self._numbers[name] for name in names)]
        return b"".join(parts) + bytes(_plain(row))


class _Table:
    """Metrics that come together, and their numbers in the sample before."""

    def __init__(self, number: int, names: tuple[MetricName, ...]) -> None:
        self._number = number
        self._units = [_stored_units(name, dimension) for _, name, dimension in names]
        self._before = [0] * (1 + len(names))

    def row(self, moment: int, values: Sequence[float]) -> bytes:
        """Return the record of a sample: the change of each number."""
        now = [moment, *[round(value * units) for value, units in zip(values, self._units, strict=True)]]
        changes = [after - before for after, before in zip(now, self._before, strict=True)]
        self._before = now
        return bytes(_plain([self._number, *[2 * each if each >= 0 else -2 * each - 1 for each in changes]]))


@cache
def is_of_bytes(name: str, dimension: str) -> bool:
    """Return True for a metric that is stored in thousands of bytes; the others are stored in hundredths."""
    return "Bytes" in name or "Bytes" in dimension


def _stored_units(name: str, dimension: str) -> float:
    """Return the stored units in one unit of a metric."""
    return 1 / THOUSAND if is_of_bytes(name, dimension) else HUNDRED


def _text(content: object) -> bytes:
    text = json.dumps(content, separators=(",", ":")).encode("ascii")
    return bytes(_plain([TEXT, len(text)])) + text


def _plain(numbers: Iterable[int]) -> bytearray:
    """Return whole numbers from 0 on, least 7 bits first; a byte before another has its high bit set."""
    found = bytearray()
    for number in numbers:
        while number > 127:
            found.append(number & 127 | 128)
            number >>= 7  # noqa: PLW2901 - a copy for each would cost the sampler a third
        found.append(number)
    return found
