"""The part of Protocol Buffers' wire format that event files need (protobuf.dev/programming-guides/encoding).

It is written here because a protobuf runtime in a training container conflicts with the framework's own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

_MASK64 = (1 << 64) - 1
_SMALL_NUMBERS = [bytes([value]) for value in range(0x80)]


class WireError(ValueError):
    """Bytes that are no message; `offset` counts from the start of the outermost buffer given."""

    def __init__(self, offset: int, what: str) -> None:
        self.offset, self.what = offset, what
        super().__init__(f"byte {offset}: {what}")


class WireField(NamedTuple):  # a tuple, for reading makes very many of them
    """One field of a message. `number_value` holds varints and fixed numbers, unsigned; `data` holds bytes."""

    number: int
    wire_type: int
    offset: int
    number_value: int
    data: memoryview

    def message(self) -> Iterator[WireField]:
        """Return the fields of an embedded message.

        Raises:
            WireError: It is no message.
        """
        return read_fields(self.bytes_value(), self.offset)

    def bytes_value(self) -> memoryview:
        """Return the bytes of a length-delimited field.

        Raises:
            WireError: The field is of another wire type.
        """
        self._must_be(BYTES)
        return self.data

    def text(self) -> str:
        """Return the text of a string field.

        Raises:
            WireError: It is not UTF-8.
        """
        try:
            return str(self.bytes_value(), "utf-8")
        except UnicodeDecodeError as error:
            raise WireError(self.offset + error.start, "a text is not valid UTF-8") from error

    def signed(self) -> int:
        """Return the value of an int32 or int64 field.

        Raises:
            WireError: The field is of another wire type.
        """
        self._must_be(VARINT)
        return as_signed(self.number_value)

    def double(self) -> float:
        """Return the value of a double field.

        Raises:
            WireError: The field is of another wire type.
        """
        self._must_be(FIXED64)
        return float(struct.unpack("<d", self.number_value.to_bytes(8, "little"))[0])

    def _must_be(self, wire_type: int) -> None:
        if self.wire_type != wire_type:
            raise WireError(self.offset, f"field {self.number} has wire type {self.wire_type}, not {wire_type}")


def write_varint(value: int) -> bytes:
    """Return a varint; negative numbers as 64-bit two's complement."""
    if 0 <= value < 0x80:  # nearly always
        return _SMALL_NUMBERS[value]
    value &= _MASK64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_number(number: int, value: int) -> bytes:
    """Return an integer field, or nothing for 0, as in proto3."""
    return write_varint(number << 3 | VARINT) + write_varint(value) if value else b""


def write_double(number: int, value: float) -> bytes:
    """Return a double field, or nothing for +0.0."""
    packed = struct.pack("<d", value)
    return write_varint(number << 3 | FIXED64) + packed if any(packed) else b""


def write_header(number: int, size: int) -> bytes:
    """Return the tag and length before the `size` bytes of a length-delimited field."""
    return write_varint(number << 3 | BYTES) + write_varint(size)


def write_bytes(number: int, value: bytes) -> bytes:
    """Return a length-delimited field, present even if empty."""
    return write_header(number, len(value)) + value


def read_varint(data: memoryview, position: int, base: int) -> tuple[int, int]:
    """Return (unsigned value, position after it).

    Raises:
        WireError: It is no varint.
    """
    if position < len(data) and data[position] < 0x80:  # nearly always
        return data[position], position + 1
    value = 0
    for count in range(10):
        if position + count >= len(data):
            raise WireError(base + len(data), "the message ends within a number")
        byte = data[position + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value & _MASK64, position + count + 1
    raise WireError(base + position, "a number is longer than ten bytes")


def read_fields(data: memoryview, base: int) -> Iterator[WireField]:
    """Yield the fields of a message in their order. `base` is the position of `data` in the file.

    Raises:
        WireError: It is no message.
    """
    position, end, nothing = 0, len(data), data[:0]
    while position < end:
        start = position
        tag, position = data[position], position + 1
        if tag > 0x7F:
            tag, position = read_varint(data, start, base)
        number, wire_type = tag >> 3, tag & 7
        if number == 0:
            raise WireError(base + start, "a field has the number 0")
        value, content = 0, nothing
        if wire_type == VARINT:
            value, position = read_varint(data, position, base)
            begin = position
        else:
            size, position = _size(wire_type, data, position, base)
            begin, position = position, position + size
            if position > end:
                raise WireError(base + start, f"field {number} claims {size} bytes, {end - begin} are left")
            content = data[begin:position]
            if wire_type != BYTES:
                value = int.from_bytes(content, "little")
        yield WireField(number, wire_type, base + begin, value, content)


def as_signed(value: int) -> int:
    """Return the two's complement of a 64-bit unsigned number."""
    return value - (1 << 64) if value >> 63 else value


def _size(wire_type: int, data: memoryview, position: int, base: int) -> tuple[int, int]:
    if wire_type == BYTES:
        return read_varint(data, position, base)
    if wire_type in {FIXED64, FIXED32}:
        return (8 if wire_type == FIXED64 else 4), position
    raise WireError(base + position, f"wire type {wire_type} is not in use")
