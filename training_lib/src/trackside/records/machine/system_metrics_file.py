"""Read files of system metrics: ours, and those of SageMaker Debugger. Each line is one number.

{"Type":"cpu","Name":"cpu0","Dimension":"CPUUtilization","Value":4.76,"NodeId":"algo-1","Timestamp":1591160699.457}
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from trackside.contracts.errors import RecordError

MOST_BYTES = 64 << 20  # of one file, which holds a minute


class SystemSample(NamedTuple):
    """One number of one moment.

    Attributes:
        kind: Its type, such as `cpu`.
        name: Name of the device; "" for none.
        dimension: Its dimension, such as `CPUUtilization`.
        value: The number.
        node: The machine.
        timestamp: Seconds since the epoch.
    """

    kind: str
    name: str
    dimension: str
    value: float
    node: str
    timestamp: float


def decode_system_metrics(data: bytes, *, key: str) -> Iterator[SystemSample]:
    """Yield the samples of one file. A last line that was cut off is left out, with an end of line or without.

    Raises:
        RecordError: Another line is no sample.
    """
    lines = data.rstrip().split(b"\n")
    offset = 0
    for number, line in enumerate(lines):
        try:
            if line.strip():
                yield _sample(json.loads(line))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == len(lines) - 1:
                return
            raise RecordError(key, offset, f"is no sample of a machine: {type(error).__name__}") from error
        offset += len(line) + 1


def _sample(found: dict[str, Any]) -> SystemSample:
    name = found.get("Name")
    sample = SystemSample(
        str(found["Type"]),
        "" if name is None else str(name),
        str(found["Dimension"]),
        float(found["Value"]),
        str(found["NodeId"]),
        float(found["Timestamp"]),
    )
    if not (math.isfinite(sample.value) and math.isfinite(sample.timestamp)):
        raise ValueError("not a finite number")
    return sample
