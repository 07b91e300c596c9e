"""Scalars and histograms -> the records of an event file that TensorBoard opens.

The frame is that of `tfevents`, but every footer is the masked CRC-32C of its payload, and the first record of a file
is its version. The original smdebug writes the same records without that first one, a file for each saved
step, into `<run>/debug-output/tensorboard`: see `original_file_name`.
"""

from __future__ import annotations

import itertools
import operator
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from trackside.records.protobuf_wire import write_bytes, write_double, write_header, write_number
from trackside.records.tfevents import masked_crc

FILE_VERSION = b"brain.Event:2"

_NOT_IN_TAGS = re.compile(r"[^-/\w.]")
_NOT_IN_HOSTS = re.compile(r"[^-\w.]")
_SIMPLE_VALUE = b"\x15"  # field 2 of a summary's value, a float
_SMALLEST_EDGE, _LARGEST_EDGE, _GROWTH = 1e-12, 1e20, 1.1
_LAST_STEP = 2**63 - 1
_STRING_TYPE = 7  # DT_STRING


@dataclass(frozen=True)
class Histogram:
    """The distribution of values: `counts[i]` lie at or above `limits[i - 1]` and below `limits[i]`.

    The first bucket is empty: its limit is the beginning of the second.
    """

    smallest: float
    largest: float
    count: int
    total: float
    sum_squares: float
    limits: tuple[float, ...]
    counts: tuple[int, ...]


def histogram_of(values: NDArray[np.generic]) -> Histogram | None:
    """Return the histogram of the finite values, in TensorFlow's default buckets; None if no value is finite.

    Raises:
        TypeError: The values are no real numbers.
    """
    if values.dtype.kind not in "biuf":
        raise TypeError(f"No histogram can be made of values of type {values.dtype}.")
    numbers = values.astype(np.float64, copy=False).reshape(-1)
    numbers = numbers[np.isfinite(numbers)]
    if numbers.size == 0:
        return None
    edges = _edges()
    counts, _ = np.histogram(numbers, bins=edges)
    filled = np.flatnonzero(counts)
    first, end = int(filled[0]), int(filled[-1]) + 1
    with np.errstate(over="ignore"):  # a sum that float64 cannot hold is infinite, and the buckets are right
        total, sum_squares = float(numbers.sum()), float(np.square(numbers).sum())
    return Histogram(
        smallest=float(numbers.min()),
        largest=float(numbers.max()),
        count=int(numbers.size),
        total=total,
        sum_squares=sum_squares,
        limits=tuple(edges[first : end + 1].tolist()),
        counts=(0, *counts[first:end].tolist()),
    )


def encode_version(wall_time: float) -> bytes:
    """Return the first record of a file. `wall_time` in seconds since the epoch."""
    return _record(write_double(1, wall_time) + write_bytes(3, FILE_VERSION))


def encode_scalar(tag: str, value: float, *, step: int, wall_time: float) -> bytes:
    """Return the record of one number, as float32. `tag` is written as it is: see `clean_tag`.

    Raises:
        ValueError: The step is below 0.
    """
    return encode_scalars(tag, np.array([value]), steps=[step], wall_times=[wall_time])


def encode_scalars(
    tag: str, values: NDArray[np.float64], *, steps: Sequence[int], wall_times: Sequence[float]
) -> bytes:
    """Return a record for each of the values (n,), as `encode_scalar` makes it."""
    with np.errstate(over="ignore"):  # above the largest float32 it is infinite, as in a protobuf runtime
        numbers = values.astype("<f4").tobytes()
    start = write_bytes(1, tag.encode("utf-8")) + _SIMPLE_VALUE
    value_size = len(start) + 4
    summary = write_header(1, value_size)
    start = write_header(5, len(summary) + value_size) + summary + start
    parts: list[bytes] = []
    for place, (step, wall_time) in enumerate(zip(steps, wall_times, strict=True)):
        payload = _moment(step, wall_time) + start + numbers[4 * place : 4 * place + 4]
        parts += (_length(len(payload)), payload, _masked_crc(payload))
    return b"".join(parts)


def encode_histogram(tag: str, histogram: Histogram, *, step: int, wall_time: float) -> bytes:
    """Return the record of one histogram. `tag` is written as it is: see `clean_tag`.

    Raises:
        ValueError: The step is below 0.
    """
    content = b"".join(
        (
            write_double(1, histogram.smallest),
            write_double(2, histogram.largest),
            write_double(3, histogram.count),
            write_double(4, histogram.total),
            write_double(5, histogram.sum_squares),
            write_bytes(6, np.asarray(histogram.limits, "<f8").tobytes()),
            write_bytes(7, np.asarray(histogram.counts, "<f8").tobytes()),
        )
    )
    value = write_bytes(1, tag.encode("utf-8")) + write_bytes(5, content)
    return _record(_moment(step, wall_time) + write_bytes(5, write_bytes(1, value)))


def encode_text(tag: str, text: str, *, step: int, wall_time: float) -> bytes:
    """Return the record of one text, which TensorBoard reads as Markdown. `tag` is written as it is: see `clean_tag`.

    Raises:
        ValueError: The step is below 0.
    """
    shape = write_bytes(2, write_number(1, 1))  # one dimension, of size 1
    tensor = write_number(1, _STRING_TYPE) + write_bytes(2, shape) + write_bytes(8, text.encode("utf-8"))
    metadata = write_bytes(1, write_bytes(1, b"text"))  # the plugin that shows it
    value = write_bytes(1, tag.encode("utf-8")) + write_bytes(8, tensor) + write_bytes(9, metadata)
    return _record(_moment(step, wall_time) + write_bytes(5, write_bytes(1, value)))


def clean_tag(name: str) -> str:
    """Return the name as a tag, as the original makes it: `loss:0` -> `loss_0`.

    Characters other than letters, digits, `_`, `.`, `-` and `/` become `_`, and leading slashes are removed.
    """
    return _NOT_IN_TAGS.sub("_", name).lstrip("/")


def event_file_name(wall_time: float, *, host: str) -> str:
    """Return a file name that TensorBoard recognises: `events.out.tfevents.1763700000.<host>`."""
    return f"events.out.tfevents.{max(0, int(wall_time)):010d}.{_NOT_IN_HOSTS.sub('_', host)}"


def original_file_name(mode: str, step: int, *, process_id: int, host: str) -> str:
    """Return the original's path for the file of one saved step, below its `tensorboard` folder."""
    return f"{mode}/{step:012d}_{process_id}_{_NOT_IN_HOSTS.sub('_', host)}.tfevents"


@cache
def _edges() -> NDArray[np.float64]:
    """Return ±1e-12·1.1^k below 1e20, 0, and the largest float64 at both ends, so that every finite value fits."""
    growing = itertools.accumulate(itertools.repeat(_GROWTH), operator.mul, initial=_SMALLEST_EDGE)
    positive = np.array(list(itertools.takewhile(lambda edge: edge < _LARGEST_EDGE, growing)))
    largest = np.finfo(np.float64).max
    return np.concatenate(([-largest], -positive[::-1], [0.0], positive, [largest]))


def _moment(step: int, wall_time: float) -> bytes:
    """Return the first fields of an event: wall time and step."""
    if not 0 <= step <= _LAST_STEP:
        raise ValueError(f"Steps count from 0, within 63 bits: {step}.")
    return write_double(1, wall_time) + write_number(2, step)


def _record(payload: bytes) -> bytes:
    return b"".join((_length(len(payload)), payload, _masked_crc(payload)))


@lru_cache(maxsize=1024)
def _length(size: int) -> bytes:
    """Return the length field before a payload. It is cached, because most payloads have the size of the one before."""
    length = struct.pack("<Q", size)
    return length + _masked_crc(length)


def _masked_crc(data: bytes) -> bytes:
    return struct.pack("<I", masked_crc(data))
