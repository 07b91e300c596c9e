"""Fast reading of one tensor's records at different steps.

Such records differ only in the wall time, the step, the step within the mode, and the values. Once one of them has
been decoded in full, the next takes a comparison of bytes and a copy of the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.records.protobuf_wire import VARINT, WireError, WireField, read_fields, write_varint
from trackside.records.tensor_proto import AnyArray, as_read, stored_type
from trackside.records.tfevents import FOOTER, HEADER_SIZE, TensorRecord, decode_record

_LAST_STEP = 2**63 - 1
_STEP_TAG = 2 << 3 | VARINT
_SHIFTS = 7 * np.arange(9, dtype=np.int64)  # of the groups of bits in a varint
_TENS = 10 ** np.arange(18, -1, -1, dtype=np.int64)
_NO_NUMBER = bytes(32)  # longer than any number in a record, so that it fits none


@dataclass(frozen=True)
class _Places:
    """The places of the parts that differ from step to step, in the order of the record.

    The first two may be empty, for zeros are not written.
    """

    wall_time: slice
    step: slice
    content: slice
    digits: slice
    type_number: int
    stored_type: np.dtype[Any]


class RecordTemplate:
    """The bytes that all records of one tensor share, and the places of the others. Each record is `size` bytes long.

    It reads only records for which `decode_record` would return the same value, of this `dtype` and `shape`. For others
    it returns None, and the caller decodes them in full.
    """

    def __init__(self, data: bytes, record: TensorRecord, places: _Places) -> None:
        self.name, self.mode, self.size = record.name, record.mode, len(data)
        self.dtype: np.dtype[Any] = record.value.dtype
        self.shape: tuple[int, ...] = record.value.shape
        self._count = record.value.size
        self._places = places
        self._content_start, self._content_end = places.content.start, places.content.stop
        self._before_wall_time = data[: places.wall_time.start]
        self._before_step = data[places.wall_time.stop : places.step.start]
        self._before_content = data[places.step.stop : places.content.start]
        self._before_digits = data[places.content.stop : places.digits.start]
        self._after_digits = data[places.digits.stop :]
        row = np.frombuffer(data, np.uint8)[None]
        self._frame = _without_content(row, places)

    @classmethod
    def of(cls, data: bytes, *, key: str, offset: int) -> RecordTemplate | None:
        """Return the template of one whole record, or None if no template can serve it.

        That is the case for texts, values that are not raw bytes, a footer that depends on the values, and fields in an
        order that is not smdebug's.

        Raises:
            RecordError: As in `decode_record`.
        """
        record = decode_record(data, key=key, offset=offset)
        try:
            places = _find_places(data, record)
        except (WireError, _UnusualError):
            return None
        return cls(data, record, places)

    def decode(self, data: bytes | memoryview, *, step: int, mode_step: int) -> AnyArray | None:
        """Return the value in one record, a copy.

        None if the bytes differ from the template in anything but the wall time, this step, this step within the mode,
        and the values.
        """
        places, start, end = self._places, self._content_start, self._content_end
        middle = self._before_step + _varint(step, places.step) + self._before_content
        if (
            len(data) != self.size
            or data[places.wall_time.stop : start] != middle
            or data[end:] != self._before_digits + _digits(mode_step) + self._after_digits
            or data[: places.wall_time.start] != self._before_wall_time
        ):
            return None
        # Flat first: NumPy makes plain numbers of arrays without a dimension as soon as it calculates with them.
        stored: AnyArray = np.ndarray((self._count,), places.stored_type, data, start)
        read: AnyArray = as_read(stored, places.type_number).copy().reshape(self.shape)
        return read

    def decode_many(
        self, rows: NDArray[np.uint8], *, steps: NDArray[np.int64], mode_steps: NDArray[np.int64]
    ) -> tuple[AnyArray, NDArray[np.bool_]]:
        """Return the values in n records, and which of the records fit.

        Args:
            rows: The records, of shape (n, size); may be a strided view.
            steps: Their steps, of shape (n,).
            mode_steps: Their steps within the mode, of shape (n,).

        Returns:
            Copies of the values, of shape (n, *shape), and booleans of shape (n,): True if the record fits as in
            `decode`. Values of records that do not fit have no meaning.

        Raises:
            ValueError: The rows have another size.
        """
        if rows.ndim != 2 or rows.shape[1] != self.size:
            raise ValueError(f"Rows of {self.size} bytes are expected, not an array of the shape {rows.shape}.")
        places, moved = self._places, self._content_end - self._content_start
        found = _without_content(rows, places)
        expected = np.repeat(self._frame, len(rows), axis=0)
        expected[:, places.wall_time] = found[:, places.wall_time]
        digits = slice(places.digits.start - moved, places.digits.stop - moved)
        fits = _put_varints(expected[:, places.step], steps)
        fits &= _put_digits(expected[:, digits], mode_steps)
        fits &= (found.view(np.uint64) == expected.view(np.uint64)).all(axis=1)
        stored = rows[:, places.content].copy().view(places.stored_type)
        return as_read(stored, places.type_number).reshape(len(rows), *self.shape), fits


class _UnusualError(Exception):
    """A record that `decode_record` reads, but no template can."""


def _find_places(data: bytes, record: TensorRecord) -> _Places:
    """Return the places of the parts of a record.

    Raises:
        _UnusualError: No template can serve the record. That includes a field that occurs twice: then the last one
            counts, or the reading depends on others.
    """
    if not data.endswith(FOOTER):
        raise _UnusualError
    event = _fields(read_fields(memoryview(data)[HEADER_SIZE : -len(FOOTER)], HEADER_SIZE), needed={5})
    value = _fields(_fields(event[5].message(), needed={1})[1].message(), needed={8, 9})
    tensor = _fields(value[8].message(), needed={1, 4})
    wall_time = slice(event[1].offset, event[1].offset + 8) if 1 in event else slice(HEADER_SIZE, HEADER_SIZE)
    type_number = tensor[1].signed()
    dtype = stored_type(type_number)
    if dtype is None or not len(tensor[4].data):
        raise _UnusualError
    places = _Places(
        wall_time=wall_time,
        step=_place_of_step(data, event[2], record.step) if 2 in event else slice(wall_time.stop, wall_time.stop),
        content=_place_of_bytes(tensor[4]),
        digits=_place_of_digits(data, value[9], record.mode_step),
        type_number=type_number,
        stored_type=dtype,
    )
    edges = [edge for place in (wall_time, places.step, places.content, places.digits) for edge in _edges(place)]
    if edges != sorted(edges):
        raise _UnusualError
    return places


def _fields(message: Iterable[WireField], *, needed: set[int]) -> dict[int, WireField]:
    """Return the fields of a message by number.

    Raises:
        _UnusualError: One is missing or occurs twice.
    """
    fields: dict[int, WireField] = {}
    for field in message:
        if field.number in fields:
            raise _UnusualError
        fields[field.number] = field
    if not needed <= fields.keys():
        raise _UnusualError
    return fields


def _place_of_bytes(field: WireField) -> slice:
    return slice(field.offset, field.offset + len(field.bytes_value()))


def _place_of_step(data: bytes, field: WireField, step: int) -> slice:
    place = slice(field.offset - len(write_varint(step)), field.offset)  # a number's offset is its end
    if data[place] != write_varint(step) or data[place.start - 1] != _STEP_TAG:
        raise _UnusualError
    return place


def _place_of_digits(data: bytes, metadata: WireField, mode_step: int) -> slice:
    plugins = [_fields(plugin.message(), needed={1, 2}) for plugin in metadata.message() if plugin.number == 1]
    found = [_place_of_bytes(plugin[2]) for plugin in plugins if bytes(plugin[1].bytes_value()) == b"mode_step"]
    if len(found) != 1 or data[found[0]] != _digits(mode_step):
        raise _UnusualError
    return found[0]


def _edges(place: slice) -> tuple[int, int]:
    return place.start, place.stop


def _varint(step: int, place: slice) -> bytes:
    if not 0 <= step <= _LAST_STEP:
        return _NO_NUMBER
    return write_varint(step) if step or place.start != place.stop else b""


def _digits(mode_step: int) -> bytes:
    return b"%d" % mode_step if 0 <= mode_step <= _LAST_STEP else _NO_NUMBER


def _without_content(rows: NDArray[np.uint8], places: _Places) -> NDArray[np.uint8]:
    """Return the rows without the values, padded with zeros to a multiple of 8 bytes, to be compared 8 at a time."""
    start, tail = places.content.start, rows.shape[1] - places.content.stop
    frames = np.zeros((len(rows), -(-(start + tail) // 8) * 8), np.uint8)
    frames[:, :start] = rows[:, :start]
    frames[:, start : start + tail] = rows[:, places.content.stop :]
    return frames


def _put_varints(target: NDArray[np.uint8], steps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Write each step into its row as a varint. Return False for each one of another length."""
    size = target.shape[1]
    if not size:
        return _are_between(steps, 0, 0)
    target[:] = steps[:, None] >> _SHIFTS[:size] & 0x7F
    target[:, :-1] |= 0x80
    return _are_between(steps, 1 << 7 * (size - 1) if size > 1 else 0, (1 << 7 * size) - 1)


def _put_digits(target: NDArray[np.uint8], mode_steps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Write each number into its row in decimal. Return False for each one of another length."""
    size = target.shape[1]
    target[:] = mode_steps[:, None] // _TENS[-size:] % 10 + ord("0")
    return _are_between(mode_steps, 10 ** (size - 1) if size > 1 else 0, min(10**size - 1, _LAST_STEP))


def _are_between(numbers: NDArray[np.int64], lowest: int, highest: int) -> NDArray[np.bool_]:
    fits: NDArray[np.bool_] = (numbers >= lowest) & (numbers <= highest)
    return fits
