"""Types beyond smdebug's own, and messages that claim more than they hold."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from trackside.records.protobuf_wire import WireError, WireField, read_fields, write_bytes, write_number, write_varint
from trackside.records.tensor_proto import read_tensor, tensor_parts


def field(message: bytes) -> WireField:
    (found,) = read_fields(memoryview(write_bytes(8, message)), 0)
    return found


def read(message: bytes) -> Any:
    return read_tensor(field(message))


def shape(*sizes: int) -> bytes:
    return write_bytes(2, b"".join(write_bytes(2, write_number(1, size)) for size in sizes))


def float8(codes: bytes, number: int) -> list[float]:
    found: list[float] = read(write_number(1, number) + shape(len(codes)) + write_bytes(4, codes)).tolist()
    return found


@pytest.mark.parametrize(
    ("code", "e4m3fn", "e5m2"),
    [
        pytest.param(0x00, 0.0, 0.0, id="zero"),
        pytest.param(0x01, 2**-9, 2**-16, id="the smallest"),
        pytest.param(0x08, 2**-6, 2**-13, id="the first with a full mantissa, or not"),
        pytest.param(0x38, 1.0, 0.5, id="one and a half"),
        pytest.param(0x3C, 1.5, 1.0, id="one in the other"),
        pytest.param(0x7E, 448.0, np.nan, id="the largest of e4m3fn"),
        pytest.param(0x7B, 352.0, 57344.0, id="the largest of e5m2"),
        pytest.param(0x7F, np.nan, np.nan, id="NaN"),
        pytest.param(0x7C, 384.0, np.inf, id="infinity, or a number"),
        pytest.param(0xBC, -1.5, -1.0, id="negative"),
    ],
)
def test_reads_float8_of_other_writers(code: int, e4m3fn: float, e5m2: float) -> None:
    np.testing.assert_equal(float8(bytes([code]), 25), [e4m3fn])
    np.testing.assert_equal(float8(bytes([code]), 24), [e5m2])


@pytest.mark.parametrize(("name", "number"), [("float8_e4m3fn", 25), ("float8_e5m2", 24)])
def test_reads_every_float8_as_ml_dtypes_does(name: str, number: int) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="in the tools group")
    codes = np.arange(256, dtype="u1")
    np.testing.assert_equal(float8(codes.tobytes(), number), codes.view(getattr(ml_dtypes, name)).astype("f4").tolist())


@pytest.mark.parametrize(
    ("value", "why"),
    [
        pytest.param(np.array([b"\xff"]), "not valid Unicode", id="bytes that are no UTF-8"),
        pytest.param(np.array(["\ud800"]), "not valid Unicode", id="half of a surrogate pair"),
        pytest.param(np.array([None, "a"], dtype=object), "no texts", id="objects among texts"),
        pytest.param(np.zeros(1, [("bfloat16", "u2")]), "cannot be stored", id="a structure of such a name"),
    ],
)
def test_what_cannot_be_stored_is_told(value: Any, why: str) -> None:
    with pytest.raises(TypeError, match=f"'odd'.*{why}"):
        tensor_parts(value, name="odd")


def test_a_long_double_beyond_float64_becomes_infinite() -> None:
    huge = np.array([np.finfo(np.longdouble).max])
    assert read(b"".join(tensor_parts(huge, name="x"))).tolist() == [np.inf]


FLOAT, INT32 = write_number(1, 1), write_number(1, 3)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        pytest.param(shape(1) + write_bytes(4, bytes(4)), "its type is missing", id="bytes without a type"),
        pytest.param(write_number(1, 7) + write_bytes(5, bytes(4)), "holds numbers", id="numbers among texts"),
        pytest.param(FLOAT + shape(*[1] * 65), "more than 64 dimensions", id="65 dimensions"),
        pytest.param(FLOAT + shape(*[2**62] * 50_000), "more than 64 dimensions", id="50 000 huge dimensions"),
        pytest.param(FLOAT + shape(2**40) + write_bytes(4, bytes(8)), "cannot have 8 bytes", id="a terabyte claimed"),
        pytest.param(FLOAT + shape(2**32, 2**32) + write_bytes(4, b""), "cannot have 0 values", id="a product of 0"),
        pytest.param(FLOAT + shape(2) + write_bytes(5, bytes(4)) + write_number(7, 1), "two kinds", id="two kinds"),
        pytest.param(INT32 + shape(1) + write_bytes(13, b"\1"), "holds half_val", id="halves in an int32"),
        pytest.param(INT32 + shape(1) + write_bytes(7, b"\x80"), "within a number", id="a packed number cut"),
    ],
)
def test_a_message_that_makes_no_sense_is_told(message: bytes, what: str) -> None:
    started = time.process_time()
    with pytest.raises(WireError, match=what):
        read(message)
    assert time.process_time() - started < 2, "the product of 50 000 huge sides takes minutes"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(INT32 + shape(200_000) + write_bytes(7, b"\1" * 200_000), id="packed"),
        pytest.param(INT32 + shape(200_000) + b"\x38\1" * 200_000, id="one by one"),
        pytest.param(FLOAT + shape(200_000) + write_bytes(5, bytes(4 * 200_000)), id="packed floats"),
    ],
)
def test_values_one_by_one_cost_no_python_object_each(message: bytes) -> None:
    whole = field(message)
    tracemalloc.start()
    try:
        assert read_tensor(whole).shape == (200_000,)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 200_000, "as objects of Python they are 200 bytes each and more"


@settings(deadline=None)
@given(npst.arrays(st.sampled_from(["f4", "f8", "i4", "i8", "?", "f2"]), npst.array_shapes(max_dims=3, max_side=4)))
def test_values_one_by_one_are_what_raw_bytes_are(value: Any) -> None:
    flat = value.reshape(-1)
    number, values_field = {"f4": (1, 5), "f8": (2, 6), "i4": (3, 7), "i8": (9, 10), "b1": (10, 11), "f2": (19, 13)}[
        value.dtype.str[1:]
    ]
    if number in {1, 2}:
        content = flat.tobytes()
    else:
        integers = flat.view("u2") if number == 19 else flat
        content = b"".join(write_varint(int(integer)) for integer in integers)
    found = read(write_number(1, number) + shape(*value.shape) + write_bytes(values_field, content))
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=80), st.integers(0, 40), st.lists(st.integers(0, 2**64 - 1), max_size=5))
def test_noise_is_an_array_or_an_error(noise: bytes, number: int, sizes: list[int]) -> None:
    for message in (noise, write_number(1, number) + shape(*sizes) + noise):
        size = _size_or_offset(message)
        assert 0 <= size <= 12 * len(message) + 64


def _size_or_offset(message: bytes) -> int:
    """How much was made of the message, or where it was given up."""
    try:
        return int(read(message).nbytes)
    except WireError as error:
        return error.offset
