"""NumPy arrays as `TensorProto` messages, with TensorFlow's field numbers and type numbers.

Arrays are written only in types that smdebug 1.0.34 reads back unchanged; others become the next wider one of
those (int8, int16, uint16 -> int32; uint32, uint64 -> int64, or float64 where int64 is too narrow; complex64 ->
complex128; bfloat16 and float8 -> float32). TensorFlow's number types and texts are read, bfloat16 and float8 as
float32. The table is in docs/formats/tensors.md, its reasons in docs/decisions/0007-statistics-segments.md.
"""

from __future__ import annotations

import math
from array import array
from functools import lru_cache
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
_PLAIN = {np.dtype(f"<{code}"): code for code in _WRITTEN}  # stored as they are
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
_BFLOAT16, _FLOAT8_E5M2, _FLOAT8_E4M3FN = 14, 24, 25
_STORED = _READ | {_BFLOAT16: np.dtype("<u2"), _FLOAT8_E5M2: np.dtype("u1"), _FLOAT8_E4M3FN: np.dtype("u1")}
_WIDER = {"i1": "i4", "i2": "i4", "u2": "i4", "u4": "i8", "u8": "i8", "c8": "c16"}
# What ml_dtypes adds to NumPy, as JAX, TensorFlow and others use it: known by name, so that it need not be installed.
_SMALL_FLOATS = ("bfloat16", "float8_", "float6_", "float4_")
_SMALL_INTEGERS = {"int1", "int2", "int4", "uint1", "uint2", "uint4"}

# Fields that hold values one by one instead of as raw bytes: number -> (wire type of one value, its type).
_VALUE_FIELDS = {
    5: (FIXED32, "<f4"),
    6: (FIXED64, "<f8"),
    7: (VARINT, ""),
    10: (VARINT, ""),
    11: (VARINT, ""),
    13: (VARINT, ""),
}
_HALF_VALUES = 13
_MOST_TEXT = 1_000_000  # characters
_MOST_DIMENSIONS = 64  # NumPy's own bound


def tensor_parts(value: AnyArray, *, name: str) -> list[bytes | memoryview]:
    """Return the message in parts, to be joined; big arrays are not copied.

    Raises:
        TypeError: Arrays of that dtype cannot be stored.
    """
    code = _PLAIN.get(value.dtype)
    if code is None or not value.flags.c_contiguous:
        if value.dtype.kind in "USOT":
            return [_text_tensor(value, name)]
        value = _storable(value, name)
        code = value.dtype.str[1:]
    head = _head(code, value.shape, name, value.nbytes)
    return [head, value.reshape(-1).view(np.uint8).data] if value.nbytes else [head]


@lru_cache(maxsize=4096)  # a training saves the same tensors step after step
def _head(code: str, shape: tuple[int, ...], name: str, size_bytes: int) -> bytes:
    head = write_number(1, _WRITTEN[code]) + write_bytes(2, _shape(shape, name))
    return head + write_header(4, size_bytes) if size_bytes else head


def read_tensor(field: WireField) -> AnyArray:
    """Return the array in a `TensorProto` field, a copy.

    Raises:
        WireError: It is no tensor.
    """
    number = 0
    shape: tuple[int, ...] = ()
    texts: list[str] = []
    values = _Values()
    content: WireField | None = None
    for part in field.message():
        if part.number == 1:
            number = part.signed()
        elif part.number == 2:
            shape = _read_shape(part)
        elif part.number == 4:
            content = part if len(part.bytes_value()) else None
        elif part.number == 8:
            texts.append(part.text())
        elif part.number in _VALUE_FIELDS:
            values.add(part)
    if number in {0, _STRING}:
        if content or values:
            raise WireError(field.offset, "a tensor of texts holds numbers, or its type is missing")
        return _reshaped(_from_texts(texts), shape, field.offset, loose=True)
    if content is not None:
        return _from_content(content, number, shape)
    dtype = np.dtype("<f4") if number == _BFLOAT16 else _dtype(number, field.offset)
    return _reshaped(values.as_array(dtype, field.offset), shape, field.offset)


def stored_type(number: int) -> np.dtype[Any] | None:
    """Return the type of the raw values in tensors of that type number, or None if it is unknown.

    `as_read` converts them for readers.
    """
    return _STORED.get(number)


def as_read(stored: AnyArray, number: int) -> AnyArray:
    """Convert raw values of `stored_type` for readers: bfloat16 and float8 to float32; others stay as they are."""
    if number == _BFLOAT16:  # the upper half of a float32
        return (stored.astype("<u4") << 16).view("<f4")
    if number == _FLOAT8_E5M2:  # the upper half of a float16
        return (stored.astype("<u2") << 8).view("<f2").astype("<f4")
    return _from_float8_e4m3fn(stored) if number == _FLOAT8_E4M3FN else stored


def _from_float8_e4m3fn(stored: AnyArray) -> AnyArray:
    """Convert float8 numbers of type e4m3fn to float32.

    One has a sign, 4 bits of exponent with the bias 7, and 3 of mantissa; no infinity; NaN if all bits but the sign are
    set.
    """
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    sizes: AnyArray = np.where(exponent > 0, np.ldexp(8.0 + mantissa, exponent - 10), np.ldexp(1.0 * mantissa, -9))
    table = np.where(codes & 0x7F == 0x7F, np.nan, np.where(codes & 0x80, -sizes, sizes)).astype("<f4")
    return table[stored]


def _storable(value: AnyArray, name: str) -> AnyArray:
    """Return the array in C order and in a type that old readers can read."""
    dtype = value.dtype
    code = dtype.str[1:]
    if code in _WRITTEN:
        return np.ascontiguousarray(value, dtype=f"<{code}").reshape(value.shape)
    if code == "u8" and value.size and int(value.max()) > np.iinfo(np.int64).max:
        return value.astype("<f8", order="C")  # int64 would turn it negative
    if dtype.name.startswith(_SMALL_FLOATS):
        wider: str | None = "f4"
    elif dtype.name in _SMALL_INTEGERS:
        wider = "i4"
    else:
        wider = _WIDER.get(code) or {"f": "f8", "c": "c16"}.get(dtype.kind)  # the latter: long double
    if wider:
        with np.errstate(over="ignore", invalid="ignore"):  # a long double beyond float64 becomes infinite
            return value.astype(f"<{wider}", order="C")
    raise TypeError(f"Tensor {name!r} has the dtype {dtype}, which cannot be stored. Convert it to float32 first.")


def _text_tensor(value: AnyArray, name: str) -> bytes:
    flat = value.reshape(-1).tolist()
    try:
        texts = [text.decode("utf-8") if isinstance(text, bytes) else text for text in flat]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError(f"Tensor {name!r} holds Python objects that are no texts. Convert it to numbers first.")
        parts = [write_bytes(8, text.encode("utf-8")) for text in texts]
    except UnicodeError as error:
        raise TypeError(f"Tensor {name!r} holds texts that are not valid Unicode: {error}.") from error
    return write_bytes(2, _shape(value.shape or (1,), name)) + b"".join(parts)


def _shape(shape: tuple[int, ...], name: str) -> bytes:
    """Return the shape's message. Like smdebug, it names a dimension after the tensor and the dimension's size."""
    return b"".join(write_bytes(2, write_number(1, size) + write_bytes(2, f"{name}_{size}".encode())) for size in shape)


def _read_shape(field: WireField) -> tuple[int, ...]:
    sizes: list[int] = []
    for part in field.message():
        if part.number == 2:
            if len(sizes) == _MOST_DIMENSIONS:
                raise WireError(part.offset, f"no array has more than {_MOST_DIMENSIONS} dimensions")
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
    dtype = stored_type(number)
    if dtype is None:
        raise _unknown_type(number, field.offset)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise WireError(field.offset, f"a {dtype} tensor of shape {shape} cannot have {len(data)} bytes")
    return _reshaped(as_read(np.frombuffer(data, dtype), number).copy(), shape, field.offset)


class _Values:
    """The values of a tensor's repeated number fields, packed or one by one: 8 bytes each, not a Python object."""

    def __init__(self) -> None:
        self._integers, self._floats = array("q"), array("d")
        self._are_halves = False

    def __bool__(self) -> bool:
        return bool(self._integers or self._floats)

    def add(self, field: WireField) -> None:
        """Add one value, or a packed field of them.

        Raises:
            WireError: The field is malformed.
        """
        wire_type, code = _VALUE_FIELDS[field.number]
        self._are_halves = self._are_halves or field.number == _HALF_VALUES
        data, position = field.data, 0
        if field.wire_type == VARINT == wire_type:
            self._integers.append(as_signed(field.number_value))
        elif field.wire_type == BYTES and not code:
            while position < len(data):
                value, position = read_varint(data, position, field.offset)
                self._integers.append(as_signed(value))
        elif field.wire_type in {wire_type, BYTES}:
            size = np.dtype(code).itemsize
            if len(data) % size:
                raise WireError(field.offset, f"field {field.number} ends within a value")
            with np.errstate(invalid="ignore"):  # a signalling NaN
                self._floats.frombytes(np.frombuffer(data, code).astype("f8").tobytes())
        else:
            raise WireError(field.offset, f"field {field.number} has wire type {field.wire_type}, not {wire_type}")

    def as_array(self, dtype: np.dtype[Any], offset: int) -> AnyArray:
        """Return all values in a type.

        Raises:
            WireError: Both kinds are mixed, or they do not fit the type.
        """
        if self._integers and self._floats:
            raise WireError(offset, "a tensor holds values of two kinds")
        if self._are_halves and dtype.kind != "f":
            raise WireError(offset, f"a {dtype} tensor holds half_val")
        if self._are_halves:
            halves = np.frombuffer(self._integers, np.int64).astype("<u2")
            return (halves.astype("<u4") << 16).view("<f4") if dtype.itemsize == 4 else halves.view("<f2")
        numbers: AnyArray = np.frombuffer(self._floats or self._integers, "f8" if self._floats else "i8")
        with np.errstate(over="ignore", invalid="ignore"):
            return numbers.astype(dtype)


def _dtype(number: int, offset: int) -> np.dtype[Any]:
    if number not in _READ:
        raise _unknown_type(number, offset)
    return _READ[number]


def _unknown_type(number: int, offset: int) -> WireError:
    return WireError(offset, f"the tensor's type number {number} is not known")


def _reshaped(flat: AnyArray, shape: tuple[int, ...], offset: int, *, loose: bool = False) -> AnyArray:
    """Return `flat` in its shape.

    `loose` keeps it flat if the shape is missing or does not fit, as smdebug does with texts.
    """
    if loose and (not shape or math.prod(shape) != flat.size):
        return flat
    if math.prod(shape) != flat.size:
        raise WireError(offset, f"a tensor of shape {shape} cannot have {flat.size} values")
    try:
        return flat.reshape(shape)
    except ValueError as error:  # too many dimensions, or sizes beyond what an array can have
        raise WireError(offset, f"no array has the shape {shape}: {error}") from error
