"""NumPy arrays as `TensorProto` messages, with TensorFlow's field numbers and type numbers.

Arrays are written only in types that smdebug 1.0.34 reads back as they were; others become the next wider one of
those (int8, int16, uint16 -> int32; uint32, uint64 -> int64, or float64 where int64 is too narrow; complex64 ->
complex128). Read are TensorFlow's number types, bfloat16 as float32, and texts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.records.protobuf_wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    WireError,
    WireField,
    as_signed,
    read_varint,
    write_bytes,
    write_header,
    write_number,
)

AnyArray = NDArray[Any]

_STRING = 7
_WRITTEN = {"f4": 1, "f8": 2, "i4": 3, "u1": 4, "i8": 9, "b1": 10, "c16": 18, "f2": 19}
_READ = {number: np.dtype(f"<{code}") for code, number in _WRITTEN.items()} | {
    5: np.dtype("<i2"),
    6: np.dtype("i1"),
    8: np.dtype("<c8"),
    17: np.dtype("<u2"),
    22: np.dtype("<u4"),
    23: np.dtype("<u8"),
    # The quantised types: their values without their scale.
    11: np.dtype("i1"),
    12: np.dtype("u1"),
    13: np.dtype("<i4"),
    15: np.dtype("<i2"),
    16: np.dtype("<u2"),
}
_BFLOAT16 = 14
_WIDER = {"i1": "i4", "i2": "i4", "u2": "i4", "u4": "i8", "u8": "i8", "c8": "c16"}

# Fields that hold values one by one instead of as raw bytes: number -> (wire type of one value, struct code).
_VALUE_FIELDS = {
    5: (FIXED32, "f"),
    6: (FIXED64, "d"),
    7: (VARINT, ""),
    10: (VARINT, ""),
    11: (VARINT, ""),
    13: (VARINT, ""),
}
_HALF_VALUES = 13
_MOST_TEXT = 1_000_000  # characters


def tensor_parts(value: AnyArray, *, name: str) -> list[bytes | memoryview]:
    """The message in parts, to be joined; big arrays are not copied.

    Errors: `TypeError` if arrays of that dtype cannot be stored.
    """
    if value.dtype.kind in "USOT":
        return [_text_tensor(value, name)]
    stored = _storable(value, name)
    shape = _shape(stored.shape, name)
    head = write_number(1, _WRITTEN[stored.dtype.str[1:]]) + write_bytes(2, shape)
    if not stored.nbytes:
        return [head]
    content = stored.reshape(-1).view(np.uint8).data
    return [head + write_header(4, len(content)), content]


def read_tensor(field: WireField) -> AnyArray:
    """The array in a `TensorProto` field, a copy. Errors: `WireError`."""
    number = 0
    shape: tuple[int, ...] = ()
    texts: list[str] = []
    values: list[WireField] = []
    content: WireField | None = None
    for part in field.message():
        if part.number == 1:
            number = part.signed()
        elif part.number == 2:
            shape = _read_shape(part)
        elif part.number == 4:
            content = part
        elif part.number == 8:
            texts.append(part.text())
        elif part.number in _VALUE_FIELDS:
            values.append(part)
    if number in {0, _STRING}:
        return _reshaped(_from_texts(texts), shape, field.offset, loose=True)
    if content is not None and len(content.bytes_value()):
        return _from_content(content, number, shape)
    dtype = np.dtype("<f4") if number == _BFLOAT16 else _dtype(number, field.offset)
    return _reshaped(_from_values(values, dtype), shape, field.offset)


def _storable(value: AnyArray, name: str) -> AnyArray:
    """The array in C order and in a type that old readers can read."""
    dtype = value.dtype
    code = dtype.str[1:]
    if code in _WRITTEN:
        return np.ascontiguousarray(value, dtype=f"<{code}").reshape(value.shape)
    if code == "u8" and value.size and int(value.max()) > np.iinfo(np.int64).max:
        return value.astype("<f8", order="C")  # int64 would turn it negative
    wider = _WIDER.get(code) or {"f": "f8", "c": "c16"}.get(dtype.kind)  # the latter: long double
    if wider:
        return value.astype(f"<{wider}", order="C")
    raise TypeError(f"Tensor {name!r} has the dtype {dtype}, which cannot be stored. Convert it to float32 first.")


def _text_tensor(value: AnyArray, name: str) -> bytes:
    flat = value.reshape(-1).tolist()
    texts = [text.decode("utf-8") if isinstance(text, bytes) else text for text in flat]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"Tensor {name!r} holds Python objects that are no texts. Convert it to numbers first.")
    shape = value.shape or (1,)
    return write_bytes(2, _shape(shape, name)) + b"".join(write_bytes(8, text.encode("utf-8")) for text in texts)


def _shape(shape: tuple[int, ...], name: str) -> bytes:
    """smdebug names a dimension after the tensor and the dimension's size."""
    return b"".join(write_bytes(2, write_number(1, size) + write_bytes(2, f"{name}_{size}".encode())) for size in shape)


def _read_shape(field: WireField) -> tuple[int, ...]:
    sizes = []
    for part in field.message():
        if part.number == 2:
            sizes.append(sum(d.signed() for d in part.message() if d.number == 1))
        elif part.number == 3 and part.number_value:
            raise WireError(part.offset, "the tensor's shape is unknown")
    if any(size < 0 for size in sizes):
        raise WireError(field.offset, f"the tensor's shape {tuple(sizes)} has a negative size")
    return tuple(sizes)


def _from_texts(texts: list[str]) -> AnyArray:
    longest = max(map(len, texts), default=0)
    # NumPy gives every text the room of the longest: one long text among many must not become an allocation.
    return np.array(texts, dtype=str if longest * len(texts) <= _MOST_TEXT else object)


def _from_content(field: WireField, number: int, shape: tuple[int, ...]) -> AnyArray:
    data = field.bytes_value()
    dtype = np.dtype("<u2") if number == _BFLOAT16 else _dtype(number, field.offset)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise WireError(field.offset, f"a {dtype} tensor of shape {shape} cannot have {len(data)} bytes")
    flat: AnyArray = np.frombuffer(data, dtype=dtype)
    if number == _BFLOAT16:  # the upper half of a float32
        flat = (flat.astype("<u4") << 16).view("<f4")
    return _reshaped(flat.copy(), shape, field.offset)


def _from_values(fields: list[WireField], dtype: np.dtype[Any]) -> AnyArray:
    numbers = [number for field in fields for number in _values(field)]
    if fields and fields[0].number == _HALF_VALUES:
        halves = np.array([int(n) & 0xFFFF for n in numbers], dtype="<u2")
        return (halves.astype("<u4") << 16).view("<f4") if dtype.itemsize == 4 else halves.view("<f2")
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            return np.array(numbers).astype(dtype) if numbers else np.empty(0, dtype)
        except (OverflowError, ValueError, TypeError) as error:
            raise WireError(fields[0].offset, f"a value does not fit {dtype}") from error


def _values(field: WireField) -> Iterator[float]:
    """The values of a repeated number field, packed or one by one."""
    wire_type, code = _VALUE_FIELDS[field.number]
    if field.wire_type == BYTES:
        data, position = field.data, 0
        if code:
            if len(data) % struct.calcsize(f"<{code}"):
                raise WireError(field.offset, f"field {field.number} ends within a value")
            yield from (value for (value,) in struct.iter_unpack(f"<{code}", data))
            return
        while position < len(data):
            value, position = read_varint(data, position, field.offset)
            yield as_signed(value)
        return
    if field.wire_type != wire_type:
        raise WireError(field.offset, f"field {field.number} has wire type {field.wire_type}, not {wire_type}")
    yield struct.unpack(f"<{code}", field.data)[0] if code else as_signed(field.number_value)


def _dtype(number: int, offset: int) -> np.dtype[Any]:
    if number not in _READ:
        raise WireError(offset, f"the tensor's type number {number} is not known")
    return _READ[number]


def _reshaped(flat: AnyArray, shape: tuple[int, ...], offset: int, *, loose: bool = False) -> AnyArray:
    """`flat` in its shape; `loose` keeps it flat where there is none or it does not fit, as smdebug does with texts."""
    if loose and (not shape or math.prod(shape) != flat.size):
        return flat
    if math.prod(shape) != flat.size:
        raise WireError(offset, f"a tensor of shape {shape} cannot have {flat.size} values")
    try:
        return flat.reshape(shape)
    except ValueError as error:  # too many dimensions, or sizes beyond what an array can have
        raise WireError(offset, f"no array has the shape {shape}: {error}") from error
