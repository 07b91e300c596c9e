"""Histograms of TensorBoard's event files: the sizes of the values that they count.

PyTorch's `add_histogram` writes a `HistogramProto` with exact sums; TensorFlow 2 and Keras write a tensor with a row
(left, right, count) for each bucket, of which sums are known to the width of a bucket. Neither counts a value that is
not finite: PyTorch's refuses such a tensor, TensorFlow's leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.records.protobuf_wire import BYTES, FIXED64, VARINT, WireError, WireField, as_signed, read_fields

L2, ABS_MEAN, ABS_MAX = STATISTICS = "l2", "abs_mean", "abs_max"
_DOUBLE_TYPE, _FLOAT_TYPE = 2, 1  # DataType of a tensor
_MOST_BUCKETS = 100_000
_PLUGIN = b"histograms"  # its name in the metadata of a tensor


@dataclass(frozen=True)
class Histogram:
    """The values of one tensor at one step.

    tag      its name in the log
    step     the step
    time     seconds since the epoch
    numbers  of all values: `l2` their norm, `abs_mean` and `abs_max` of their sizes
    """

    tag: str
    step: int
    time: float
    numbers: Mapping[str, float]


def histograms_in(record: memoryview) -> Iterator[Histogram]:
    """Yield the histograms of one record, an `Event` message. What is none, or is broken, is passed over."""
    step, time, values = 0, 0.0, list[WireField]()
    try:
        for field in read_fields(record, 0):
            if (field.number, field.wire_type) == (1, FIXED64):
                time = float(np.frombuffer(field.data, "<f8")[0])
            elif (field.number, field.wire_type) == (2, VARINT):
                step = as_signed(field.number_value)
            elif (field.number, field.wire_type) == (5, BYTES):
                values += [one for one in field.message() if (one.number, one.wire_type) == (1, BYTES)]
        for value in values:
            found = _histogram(value)
            if found is not None:
                yield Histogram(found[0], step, time, found[1])
    except (WireError, UnicodeDecodeError, ValueError):
        return


def _histogram(value: WireField) -> tuple[str, Mapping[str, float]] | None:
    tag, numbers = "", None
    for field in value.message():
        if field.wire_type != BYTES:
            continue
        if field.number == 1:
            tag = field.text()
        elif field.number == 5:
            numbers = _of_proto(field)
        elif field.number == 8:
            numbers = _of_tensor(field)
        elif field.number == 9 and _PLUGIN not in bytes(field.data):
            return None  # the table of another plugin, such as curves
    return (tag, numbers) if tag and numbers else None


def _of_proto(histogram: WireField) -> Mapping[str, float] | None:
    """Return the numbers of a `HistogramProto`; its sums are exact."""
    plain, lists = dict[int, float](), dict[int, NDArray[np.float64]]()
    for field in histogram.message():
        if field.wire_type == FIXED64 and field.number <= 5:
            plain[field.number] = float(np.frombuffer(field.data, "<f8")[0])
        elif field.wire_type == BYTES and field.number in {6, 7} and not len(field.data) % 8:
            lists[field.number] = np.frombuffer(field.data, "<f8")
    least, most, count, squares = (plain.get(number, 0.0) for number in (1, 2, 3, 5))
    limits, counts = lists.get(6, np.empty(0)), lists.get(7, np.empty(0))
    if not count > 0 or not 0 < len(limits) == len(counts) <= _MOST_BUCKETS:
        return None
    right = np.clip(limits, least, most)
    left = np.concatenate([[least], right[:-1]])
    return _numbers(left, right, counts, largest=max(abs(least), abs(most)), squares=squares)


def _of_tensor(tensor: WireField) -> Mapping[str, float] | None:
    """Return the numbers of a tensor of shape (buckets, 3): left, right and count of each."""
    kind, shape, content = 0, list[int](), b""
    for field in tensor.message():
        if field.number == 1 and field.wire_type == VARINT:
            kind = field.number_value
        elif field.number == 2 and field.wire_type == BYTES:
            dims = [one for one in field.message() if one.number == 2 and one.wire_type == BYTES]
            shape = [sum(size.number_value for size in dim.message() if size.number == 1) for dim in dims]
        elif field.number in {4, 5, 6} and field.wire_type == BYTES:
            content = bytes(field.data)
    size = {_DOUBLE_TYPE: 8, _FLOAT_TYPE: 4}.get(kind)
    if size is None or len(shape) != 2 or shape[1] != 3 or not 0 < shape[0] <= _MOST_BUCKETS:
        return None
    if len(content) != 3 * shape[0] * size:
        return None
    table = np.frombuffer(content, f"<f{size}").astype(np.float64).reshape(-1, 3)
    filled = table[table[:, 2] > 0]
    if not len(filled):
        return None
    return _numbers(*filled.T, largest=float(np.abs(filled[:, :2]).max()))


def _numbers(
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    counts: NDArray[np.float64],
    *,
    largest: float,
    squares: float | None = None,
) -> Mapping[str, float]:
    """Return the numbers of buckets in which values lie evenly; each array has the shape (buckets,)."""
    with np.errstate(all="ignore"):
        is_around_zero = (left < 0) & (right > 0)
        middle = np.abs(left + right) / 2
        around = (left**2 + right**2) / np.where(is_around_zero, 2 * (right - left), 1.0)
        sizes = np.where(is_around_zero, around, middle)
        if squares is None:
            squares = float((counts * (left**2 + left * right + right**2) / 3).sum())
        return {L2: float(np.sqrt(squares)), ABS_MEAN: float((counts * sizes).sum() / counts.sum()), ABS_MAX: largest}
