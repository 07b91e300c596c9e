"""Scalars and histograms of TensorBoard's event files, scalars many records at a time.

Records of one form (the same tags, and a step of as many bytes) differ in a few bytes only: the time, the step and the
values. They are laid below one another as a table of bytes, compared with the first of them at all other places, and
read by columns. What is left may be a histogram, which is read by itself, or is skipped: pictures, texts, graphs.

    length    8 bytes  uint64, little-endian
    check     4 bytes  masked CRC-32C of the length
    payload            an `Event` message (protobuf)
    footer    4 bytes  masked CRC-32C of the payload
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.imported.histograms import histograms_in
from trackside.imported.log import LogFile, Series
from trackside.records.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, WireError, WireField, read_fields
from trackside.records.tfevents import has_intact_header, masked_crc

MOST_RECORD_BYTES = 1 << 30
_FRAME, _FOOTER = 12, 4
_LENGTH = struct.Struct("<Q")
_MOST_FORM_BYTES = 2048  # of a record that is compared with others
_MOST_FORMS = 4000  # of one block: a writer of more tags repeats them
_POLYNOMIAL = 0x82F63B78
_TYPES = {1: "<f4", 2: "<f8"}  # of a tensor
# Fields of a tensor with one number: (field, wire type, bytes); the bytes of a tensor, and lists of float and double.
_ONE_NUMBER = {(4, BYTES, 4), (4, BYTES, 8), (5, BYTES, 4), (5, FIXED32, 4), (6, BYTES, 8), (6, FIXED64, 8)}

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class _Value:
    """The place of one value in a record: its tag, its first byte, and its type for NumPy."""

    tag: str
    place: int
    type: str


@dataclass(frozen=True)
class _Form:
    """The places of a record's parts. `fixed` are the bytes that all records of the form share."""

    time: int
    step: int
    step_end: int
    values: tuple[_Value, ...]
    fixed: NDArray[np.intp]


def read_events(file: LogFile, series: Series, *, prefix: str = "", size: int = 1 << 20) -> None:
    """Read the scalars and histograms of an event file that are not read yet.

    Args:
        file: The file.
        series: Gets the points.
        prefix: Stands before the tags.
        size: Bytes to read at once.
    """
    name, rest, at, damaged = file.name, b"", series.ends.get(file.name, 0), 0
    for chunk in series.unread(file, size=size):
        data = rest + chunk if rest else chunk
        if at == 0 and len(data) >= _FRAME and not has_intact_header(data):
            series.note(f"{name} does not begin with a record of TensorBoard")
            return
        starts, lengths, end = _frames(data)
        damaged += _read_block(np.frombuffer(data, np.uint8), starts, lengths, series, prefix)
        rest, at = data[end:], at + end
        series.has_read(file, end)
        if len(rest) >= _FRAME and _LENGTH.unpack_from(rest)[0] > MOST_RECORD_BYTES:
            series.note(f"{name} is damaged from byte {at:,} on: the rest of it is not read")
            return
    words = f"a wrong checksum, left out, in {name}"
    series.count(damaged, f"record has {words}", f"records have {words}")
    if rest and series.is_over:
        series.note(f"{name} ends within a record: its writer was killed, or still writes")


def _frames(data: bytes) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """Return the first bytes and lengths of the payloads of whole records, and the end of the last."""
    starts, lengths, position, size = [], [], 0, len(data)
    unpack = _LENGTH.unpack_from
    while position + _FRAME <= size:
        (length,) = unpack(data, position)
        following = position + length + 16
        if following > size:
            break
        starts.append(position + 12)
        lengths.append(length)
        position = following
    return np.array(starts, np.intp), np.array(lengths, np.intp), position


def _read_block(data: Bytes, starts: NDArray[np.intp], lengths: NDArray[np.intp], series: Series, prefix: str) -> int:
    """Read the scalars of a block. Return the number of damaged records."""
    damaged, found = 0, []
    for length in np.unique(lengths[lengths <= _MOST_FORM_BYTES]).tolist():
        order = np.flatnonzero(lengths == length)
        rows = data[starts[order][:, None] + np.arange(length + _FOOTER)]
        is_whole = _checksums(rows[:, :length]) == _footers(rows)
        damaged += int(np.count_nonzero(~is_whole))
        found += list(_read_alike(rows[is_whole, :length], order[is_whole]))
    for number in np.flatnonzero(lengths > _MOST_FORM_BYTES).tolist():
        first, end = int(starts[number]), int(starts[number] + lengths[number])
        record = memoryview(data[first:end].tobytes())
        parts = list(_of_histograms(record, np.array([number])))
        if parts and masked_crc(bytes(record)) != int.from_bytes(data[end : end + _FOOTER].tobytes(), "little"):
            damaged, parts = damaged + 1, []
        found += parts
    by_tag: dict[tuple[str, str], list[_Part]] = {}
    for part in found:
        by_tag.setdefault((part.tag, part.statistic), []).append(part)
    for (tag, statistic), parts in sorted(by_tag.items(), key=lambda pair: min(int(part.order[0]) for part in pair[1])):
        order = np.concatenate([part.order for part in parts])
        place = np.argsort(order, kind="stable")
        arrays = [np.concatenate(own)[place] for own in zip(*[part.arrays for part in parts], strict=True)]
        if statistic:
            series.extend_tensor((prefix + tag, statistic), *arrays)
        else:
            series.extend(prefix + tag, *arrays)
    return damaged


@dataclass(frozen=True, eq=False)
class _Part:
    """Values of one tag in records of one form. `order` are the numbers of the records.

    `statistic` is what they are of the values of a histogram; "" for a scalar.
    """

    tag: str
    order: NDArray[np.intp]
    arrays: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]  # steps, values, times
    statistic: str = ""


def _read_alike(rows: Bytes, order: NDArray[np.intp]) -> Iterator[_Part]:
    """Yield the values of records of one length, form by form."""
    for _ in range(_MOST_FORMS):
        if not len(rows):
            return
        form = _form_of(rows[0])
        if form is None:
            is_ours = (rows[:, 9:] == rows[0, 9:]).all(axis=1) if rows.shape[1] > 9 else np.ones(len(rows), np.bool_)
            is_ours[0] = True
            for number, record in zip(order[is_ours], rows[is_ours], strict=True):
                yield from _of_histograms(memoryview(record.tobytes()), number[None])
        else:
            is_ours = (rows[:, form.fixed] == rows[0, form.fixed]).all(axis=1)
            if form.step_end > form.step:
                is_ours &= (rows[:, form.step : form.step_end - 1] >= 0x80).all(axis=1)
                is_ours &= rows[:, form.step_end - 1] < 0x80
            yield from _values_of(rows[is_ours], order[is_ours], form)
        rows, order = rows[~is_ours], order[~is_ours]


def _of_histograms(record: memoryview, order: NDArray[np.intp]) -> Iterator[_Part]:
    """Yield the numbers of the histograms in a record."""
    for found in histograms_in(record):
        for statistic, value in found.numbers.items():
            arrays = np.array([found.step]), np.array([value]), np.array([found.time])
            yield _Part(found.tag, order, arrays, statistic)


def _values_of(rows: Bytes, order: NDArray[np.intp], form: _Form) -> Iterator[_Part]:
    times = _numbers(rows, form.time, "<f8") if form.time >= 0 else np.zeros(len(rows))
    steps = np.zeros(len(rows), np.uint64)
    for place in range(form.step_end - 1, form.step - 1, -1):
        steps = steps << np.uint64(7) | (rows[:, place] & np.uint8(0x7F)).astype(np.uint64)
    for value in form.values:
        yield _Part(value.tag, order, (steps.astype(np.int64), _numbers(rows, value.place, value.type), times))


def _numbers(rows: Bytes, place: int, kind: str) -> NDArray[np.float64]:
    size = np.dtype(kind).itemsize
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return np.ascontiguousarray(rows[:, place : place + size]).view(kind)[:, 0].astype(np.float64)


def _form_of(record: Bytes) -> _Form | None:
    """Return the form of a record of scalars; None for any other."""
    view = memoryview(record.tobytes())
    time, step, step_end, values = -1, 0, 0, []
    try:
        for field in read_fields(view, 0):
            if field.number == 1:
                time = field.offset
            elif field.number == 2 and field.wire_type == VARINT:
                step, step_end = _start_of_varint(view, field.offset), field.offset
            elif field.number == 5:
                values += [found for one in field.message() if one.number == 1 and (found := _scalar(one))]
    except WireError:
        return None
    if not values:
        return None
    is_free = np.zeros(len(view), np.bool_)
    for first, last in ((time, time + 8 if time >= 0 else time), (step, step_end)):
        is_free[max(first, 0) : max(last, 0)] = True
    for value in values:
        is_free[value.place : value.place + np.dtype(value.type).itemsize] = True
    return _Form(time, step, step_end, tuple(values), np.flatnonzero(~is_free))


def _scalar(value: WireField) -> _Value | None:
    tag, place, kind = "", -1, ""
    for field in value.message():
        if field.number == 1:
            tag = field.text()
        elif field.number == 2 and field.wire_type == FIXED32:
            place, kind = field.offset, "<f4"
        elif field.number == 8 and field.wire_type == BYTES:
            place, kind = _in_tensor(field)
    return _Value(tag, place, kind) if place >= 0 else None


def _in_tensor(tensor: WireField) -> tuple[int, str]:
    """Return the place and the type of the one number of a tensor; -1 for a tensor of another form."""
    kind, place = 0, -1
    for field in tensor.message():
        if field.number == 1:
            kind = field.number_value
        elif (field.number, field.wire_type, len(field.data)) in _ONE_NUMBER:
            place = field.offset
    return (place, _TYPES[kind]) if kind in _TYPES else (-1, "")


def _start_of_varint(view: memoryview, end: int) -> int:
    """Return the first byte of a number that ends before `end`, behind a tag of one byte."""
    place = end - 1
    while view[place - 1] >= 0x80:
        place -= 1
    return place


def _table() -> NDArray[np.uint32]:
    """Return the CRC-32C of each pair of bytes."""
    crc = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(16):
        crc = (crc >> np.uint32(1)) ^ (np.uint32(_POLYNOMIAL) * (crc & np.uint32(1)))
    return crc


_PAIRS = _table()


def _checksums(rows: Bytes) -> NDArray[np.uint32]:
    """Return the masked CRC-32C of each row."""
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    even = rows.shape[1] // 2 * 2
    pairs = np.ascontiguousarray(rows[:, :even].T)
    for place in range(0, even, 2):
        word = pairs[place].astype(np.uint32) | pairs[place + 1].astype(np.uint32) << np.uint32(8)
        crc = _PAIRS[(crc ^ word) & np.uint32(0xFFFF)] ^ (crc >> np.uint32(16))
    if even < rows.shape[1]:
        last = _PAIRS[((crc ^ rows[:, even]) & np.uint32(0xFF)) << np.uint32(8)]
        crc = last ^ (crc >> np.uint32(8))
    crc = ~crc
    found: NDArray[np.uint32] = ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)
    return found


def _footers(rows: Bytes) -> NDArray[np.uint32]:
    found: NDArray[np.uint32] = np.ascontiguousarray(rows[:, -_FOOTER:]).view("<u4")[:, 0]
    return found
