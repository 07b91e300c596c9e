"""Records read by a template: the same as in full, or not at all."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from trackside.contracts.errors import RecordError
from trackside.records.protobuf_wire import write_bytes, write_double, write_number, write_varint
from trackside.records.record_template import RecordTemplate
from trackside.records.tfevents import FOOTER, TensorRecord, decode_record, encode_tensor, masked_crc

WALL_TIME = 1_700_000_000.25


def encode(value: Any, *, step: int, mode_step: int = 34, name: str = "gradient/w", **more: Any) -> bytes:
    given: dict[str, Any] = {"mode": "EVAL", "wall_time": WALL_TIME} | more
    return encode_tensor(name, np.asarray(value), **given, step=step, mode_step=mode_step)


def template_of(data: bytes) -> RecordTemplate | None:
    return RecordTemplate.of(data, key="events/x", offset=0)


def decode_fully(data: bytes) -> TensorRecord | None:
    try:
        return decode_record(data, key="events/x", offset=0)
    except RecordError:
        return None


def same(found: Any, expected: Any) -> bool:
    return (
        type(found) is np.ndarray
        and (found.dtype, found.shape) == (expected.dtype, expected.shape)
        and found.tobytes() == expected.tobytes()
    )


# Records as other writers may write them.

CONTENT = write_bytes(4, b"\1\2\3\4")
ONE = write_bytes(2, write_bytes(2, write_number(1, 1)))
NO_DIMENSION = write_bytes(2, b"")


def record(payload: bytes, footer: bytes = FOOTER) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc(length)) + payload + footer


def plugin(name: str, content: bytes) -> bytes:
    return write_bytes(1, write_bytes(1, name.encode()) + write_bytes(2, content))


NAME, TIME, STEP = write_bytes(1, b"x"), write_double(1, WALL_TIME), write_number(2, 1234)
FLOAT = write_number(1, 1) + ONE
TENSOR = write_bytes(8, FLOAT + CONTENT)
METADATA = write_bytes(9, plugin("mode_step", b"34") + plugin("mode", b"2"))
VALUE = NAME + TENSOR + METADATA


def event(value: bytes, before: bytes = TIME + STEP, footer: bytes = FOOTER) -> bytes:
    return record(before + write_bytes(5, write_bytes(1, value)), footer)


def of_type(number: int, content: bytes, shape: bytes = ONE) -> bytes:
    return event(NAME + write_bytes(8, write_number(1, number) + shape + write_bytes(4, content)) + METADATA)


PLAIN = event(VALUE)

SERVED = [
    pytest.param(encode(2.5, step=1234), id="a scalar"),
    pytest.param(encode(np.arange(6, dtype="f4").reshape(2, 3), step=1234), id="a table"),
    *(
        pytest.param(encode(np.ones(3, code), step=1234), id=f"{code}")
        for code in ("f2", "f4", "f8", "i4", "i8", "u1", "?", "c16")
    ),
    pytest.param(encode(1.0, step=0, mode_step=0), id="step 0, which is not written"),
    pytest.param(encode(1.0, step=2**63 - 1, mode_step=2**63 - 1), id="the last step"),
    pytest.param(encode(1.0, step=1234, wall_time=0.0), id="no wall time"),
    pytest.param(encode(1.0, step=1234, name="größe"), id="a name of many letters"),
    pytest.param(PLAIN, id="as smdebug writes"),
    pytest.param(of_type(14, b"\xc0\x3f"), id="bfloat16"),
    pytest.param(of_type(14, b"\xc0\x3f", NO_DIMENSION), id="a scalar of bfloat16"),
    pytest.param(of_type(14, b"\xc0\x3f" * 2, write_bytes(2, write_bytes(2, write_number(1, 2)))), id="two bfloat16"),
    pytest.param(of_type(24, b"\x3f"), id="float8_e5m2"),
    pytest.param(of_type(25, b"\x3f", NO_DIMENSION), id="a scalar of float8_e4m3fn"),
    pytest.param(of_type(6, b"\xff"), id="int8"),
    pytest.param(of_type(23, b"\xff" * 8), id="uint64"),
    pytest.param(event(VALUE + write_bytes(77, b"new")), id="an unknown field"),
    pytest.param(event(VALUE, b"\x10\x00"), id="step 0, written"),
]


@pytest.mark.parametrize("data", SERVED)
def test_serves_what_it_was_made_of(data: bytes) -> None:
    full, template = decode_fully(data), template_of(data)
    assert full is not None
    assert template is not None
    assert (template.name, template.mode, template.size) == (full.name, full.mode, len(data))
    assert (template.dtype, template.shape) == (full.value.dtype, full.value.shape)
    for view in (data, memoryview(data), memoryview(b"before" + data + b"after")[6:-5]):
        assert same(template.decode(view, step=full.step, mode_step=full.mode_step), full.value)


NOT_SERVED = [
    pytest.param(encode(["a", "b"], step=1234), id="texts"),
    pytest.param(event(NAME + write_bytes(8, FLOAT + write_bytes(5, b"\0\0\0\0")) + METADATA), id="float_val"),
    pytest.param(
        event(NAME + write_bytes(8, write_number(1, 1) + write_bytes(2, write_bytes(2, b""))) + METADATA),
        id="no values",
    ),
    pytest.param(event(NAME + TENSOR), id="no step within the mode: the step is taken"),
    pytest.param(event(NAME + METADATA + TENSOR), id="another order of fields"),
    pytest.param(event(VALUE, STEP + TIME), id="another order in the event"),
    pytest.param(event(NAME + TENSOR * 2 + METADATA), id="two tensors"),
    pytest.param(event(VALUE + METADATA), id="two times the metadata"),
    pytest.param(event(VALUE, STEP * 2), id="two steps"),
    pytest.param(event(VALUE, write_double(1, 1.0) * 2 + STEP), id="two times"),
    pytest.param(event(write_bytes(1, b"y") + VALUE), id="two names"),
    pytest.param(event(NAME + write_bytes(8, FLOAT + CONTENT * 2) + METADATA), id="two contents"),
    pytest.param(event(NAME + TENSOR + write_bytes(9, plugin("mode_step", b"34") * 2)), id="two steps within the mode"),
    pytest.param(event(NAME + TENSOR + write_bytes(9, plugin("mode_step", b"034"))), id="a leading zero"),
    pytest.param(event(VALUE, b"\x10\xd2\x89\x00"), id="a padded step"),
    pytest.param(event(VALUE, b"\x10\x80\x00"), id="a padded step 0"),
    pytest.param(event(VALUE, footer=struct.pack("<I", masked_crc(PLAIN[12:-4]))), id="a real checksum"),
]


@pytest.mark.parametrize("data", NOT_SERVED)
def test_leaves_to_full_decoding_what_it_cannot_serve(data: bytes) -> None:
    assert decode_fully(data) is not None
    assert template_of(data) is None


def test_refuses_what_full_decoding_refuses() -> None:
    damaged = bytearray(encode(1.0, step=1234))
    damaged[3] ^= 1
    with pytest.raises(RecordError, match="checksum") as caught:
        RecordTemplate.of(bytes(damaged), key="events/x", offset=1000)
    assert (caught.value.key, caught.value.offset) == ("events/x", 1000)


def test_a_value_belongs_to_the_caller() -> None:
    data = encode(np.zeros(3), step=1234)
    template = template_of(data)
    assert template is not None
    value = template.decode(data, step=1234, mode_step=34)
    assert value is not None
    value += 1
    rows = np.frombuffer(data, np.uint8)[None]
    values, _ = template.decode_many(rows, steps=np.array([1234]), mode_steps=np.array([34]))
    values += 1
    assert decode_record(data, key="k", offset=0).value.tolist() == [0, 0, 0]


def test_serves_other_steps_times_and_values() -> None:
    template = template_of(encode(1.0, step=1234, mode_step=34))
    assert template is not None
    for step, mode_step in ((128, 10), (16383, 99), (1234, 34)):
        data = encode(float(step), step=step, mode_step=mode_step, wall_time=float(step))
        assert template.decode(data, step=step, mode_step=mode_step) == step


OTHERS = [
    pytest.param(encode(1.0, step=1234), {"step": 1235}, id="another step than was asked for"),
    pytest.param(encode(1.0, step=1234), {"mode_step": 35}, id="another step within the mode"),
    pytest.param(encode(1.0, step=127), {"step": 127}, id="a shorter step"),
    pytest.param(encode(1.0, step=16384), {"step": 16384}, id="a longer step"),
    pytest.param(encode(1.0, step=1234, mode_step=9), {"mode_step": 9}, id="fewer digits"),
    pytest.param(encode(1.0, step=1234, mode_step=100), {"mode_step": 100}, id="more digits"),
    pytest.param(encode(1.0, step=127, mode_step=100), {"step": 127, "mode_step": 100}, id="a digit for a byte"),
    pytest.param(encode(1.0, step=0), {"step": 0}, id="no step"),
    pytest.param(encode(1.0, step=1234, name="gradient/v"), {}, id="another tensor"),
    pytest.param(encode(1.0, step=1234, mode="TRAIN"), {}, id="another mode"),
    pytest.param(encode(1, step=1234), {}, id="another type of the same size"),
    pytest.param(encode([1.0], step=1234), {}, id="another shape"),
    pytest.param(encode(1.0, step=1234, wall_time=0.0), {}, id="no time"),
    pytest.param(encode(1.0, step=1234)[:-1], {}, id="cut"),
    pytest.param(encode(1.0, step=1234) + b"x", {}, id="more"),
    pytest.param(b"", {}, id="empty"),
    pytest.param(encode(1.0, step=1234), {"step": -1}, id="a step below 0"),
    pytest.param(encode(1.0, step=1234), {"step": 2**63}, id="a step beyond 63 bits"),
    pytest.param(encode(1.0, step=1234).replace(b"\x12\x0234", b"\x12\x02-4"), {"mode_step": -4}, id="a minus"),
    pytest.param(encode(1.0, step=1234).replace(b"\x12\x0234", b"\x12\x02 4"), {"mode_step": 4}, id="a blank"),
    pytest.param(encode(1.0, step=1234), {"mode_step": 10**20}, id="a step within the mode beyond 63 bits"),
]


@pytest.mark.parametrize(("data", "asked"), OTHERS)
def test_passes_over_other_records(data: bytes, asked: dict[str, int]) -> None:
    template = template_of(encode(1.0, step=1234, mode_step=34))
    assert template is not None
    at = {"step": 1234, "mode_step": 34} | asked
    assert template.decode(data, **at) is None
    if len(data) == template.size and all(0 <= number < 2**63 for number in at.values()):
        rows = np.frombuffer(data, np.uint8)[None]
        _, fits = template.decode_many(rows, steps=np.array([at["step"]]), mode_steps=np.array([at["mode_step"]]))
        assert fits.tolist() == [False]


class TestMany:
    def rows(self, template: RecordTemplate, records: list[bytes]) -> Any:
        """A view with strides, as it is cut out of whole event files."""
        files = np.frombuffer(b"".join(b"before" + data + b"after" for data in records), np.uint8)
        return files.reshape(len(records), -1)[:, 6 : 6 + template.size]

    @pytest.mark.parametrize("shape", [(), (1,), (2, 3), (100,)])
    @pytest.mark.parametrize("first_step", [0, 100, 16_300, 2**63 - 70])
    def test_equals_one_by_one(self, shape: tuple[int, ...], first_step: int) -> None:
        steps = range(first_step, first_step + 70)
        by_size: dict[int, list[int]] = {}
        for step in steps:
            by_size.setdefault(len(encode(np.zeros(shape), step=step, mode_step=step)), []).append(step)
        for members in by_size.values():
            records = [
                encode(np.full(shape, float(step)), step=step, mode_step=step, wall_time=step / 2) for step in members
            ]
            template = template_of(records[0])
            assert template is not None
            at = np.array(members, np.int64)
            values, fits = template.decode_many(self.rows(template, records), steps=at, mode_steps=at)
            assert (values.shape, values.dtype) == ((len(members), *shape), np.dtype("f8"))
            for data, step, value, fit in zip(records, members, values, fits, strict=True):
                alone = template.decode(data, step=step, mode_step=step)
                assert (alone is not None) == fit
                assert not fit or same(np.asarray(value), alone)
            assert fits[0]

    def test_tells_which_fit(self) -> None:
        records = [encode(float(step), step=step, mode_step=step) for step in range(200, 210)]
        records[3] = encode(1.0, step=203, mode_step=203, name="gradient/v")
        records[7] = records[7][:-1] + b"x"
        template = template_of(records[0])
        assert template is not None
        at = np.arange(200, 210)
        at[5] += 1
        values, fits = template.decode_many(self.rows(template, records), steps=at, mode_steps=at)
        assert np.flatnonzero(~fits).tolist() == [3, 5, 7]
        assert values[fits].tolist() == [200, 201, 202, 204, 206, 208, 209]

    @pytest.mark.parametrize("number", [14, 24, 25])
    def test_widens_small_floats(self, number: int) -> None:
        records = [of_type(number, content * (2 if number == 14 else 1)) for content in (b"\x3f", b"\x40", b"\xff")]
        template = template_of(records[0])
        assert template is not None
        at = {"steps": np.full(3, 1234), "mode_steps": np.full(3, 34)}
        values, fits = template.decode_many(self.rows(template, records), **at)
        assert fits.all()
        for data, value in zip(records, values, strict=True):
            full = decode_fully(data)
            assert full is not None
            assert same(value, full.value)

    def test_none_at_all(self) -> None:
        template = template_of(PLAIN)
        assert template is not None
        nothing = np.zeros(0, np.int64)
        values, fits = template.decode_many(np.zeros((0, template.size), np.uint8), steps=nothing, mode_steps=nothing)
        assert (values.shape, fits.shape) == ((0, 1), (0,))

    @pytest.mark.parametrize("shape", [(1, 1), (2, 90), (2,)])
    def test_refuses_rows_of_another_size(self, shape: tuple[int, ...]) -> None:
        template = template_of(PLAIN)
        assert template is not None
        at = np.zeros(shape[0], np.int64)
        with pytest.raises(ValueError, match=f"Rows of {len(PLAIN)} bytes"):
            template.decode_many(np.zeros(shape, np.uint8), steps=at, mode_steps=at)


def check_against_full_decoding(template: RecordTemplate, data: bytes, step: int, mode_step: int) -> None:
    """The answer is None, or what full decoding says; many give what one gives."""
    found, full = template.decode(data, step=step, mode_step=mode_step), decode_fully(data)
    if found is not None:
        assert full is not None
        assert (full.name, full.mode, full.step, full.mode_step) == (template.name, template.mode, step, mode_step)
        assert same(found, full.value)
    if len(data) == template.size:
        rows = np.frombuffer(data, np.uint8)[None]
        values, fits = template.decode_many(rows, steps=np.array([step]), mode_steps=np.array([mode_step]))
        assert bool(fits[0]) == (found is not None)
        assert found is None or same(np.asarray(values[0]), found)


BASES = [data for row in SERVED + NOT_SERVED for data in row.values if isinstance(data, bytes)]
mutations = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=3)


def mutated(data: bytes, mutation: list[tuple[int, int]], cut: int) -> bytes:
    """Some bytes replaced, anywhere or (for a place beyond the end) in the head, where most depends on them."""
    changed = bytearray(data)
    for place, byte in mutation:
        changed[place if place < len(data) else 12 + place % (len(data) - 12)] = byte
    return bytes(changed[: len(changed) - cut])


@settings(deadline=None, max_examples=600)
@given(st.sampled_from(BASES), mutations, mutations, st.sampled_from([0, 0, 0, 0, 1, 5]))
def test_never_reads_what_full_decoding_does_not(
    base: bytes, first: list[tuple[int, int]], second: list[tuple[int, int]], cut: int
) -> None:
    """A template of a damaged record, which may be an odd one, reads no other differently than it is."""
    source = mutated(base, first, 0)
    full = decode_fully(source)
    if full is None:
        with pytest.raises(RecordError):
            template_of(source)
        return
    template = template_of(source)
    if template is None:
        return
    assert same(template.decode(source, step=full.step, mode_step=full.mode_step), full.value)
    other = mutated(source, second, cut)
    read = decode_fully(other)
    for step, mode_step in {(full.step, full.mode_step), (read.step, read.mode_step) if read else (0, 0)}:
        check_against_full_decoding(template, other, step, mode_step)


def flips(data: bytes) -> list[tuple[int, bytes]]:
    return [
        (place, data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
        for place in range(len(data))
        for bit in (1, 128)
    ]


@pytest.mark.parametrize("data", [PLAIN, encode(1.0, step=1234), encode([[1], [2]], step=5, mode_step=5)])
def test_every_byte_matters(data: bytes) -> None:
    """Of one record, every byte is changed in turn: only time and values may differ."""
    full, template = decode_fully(data), template_of(data)
    assert full is not None
    assert template is not None
    read = set()
    for place, changed in flips(data):
        check_against_full_decoding(template, changed, full.step, full.mode_step)
        if template.decode(changed, step=full.step, mode_step=full.mode_step) is not None:
            read.add(place)
    assert len(read) == 8 + full.value.nbytes


numbers = st.integers(0, 2**63 - 1) | st.integers(0, 300)
arrays = npst.arrays(
    st.sampled_from(["f2", "f4", "f8", "i4", "i8", "u1", "?", "c16"]), npst.array_shapes(min_dims=0, max_side=3)
)


@settings(deadline=None)
@given(arrays, numbers, numbers, numbers, numbers, st.floats(), st.text(max_size=5))
def test_serves_all_that_we_write(  # noqa: PLR0917 - hypothesis gives them by position
    value: Any, step: int, mode_step: int, other: int, other_mode_step: int, wall_time: float, name: str
) -> None:
    data = encode(value, step=step, mode_step=mode_step, wall_time=wall_time, name=name)
    template = template_of(data)
    assert template is not None
    later = encode(value, step=other, mode_step=other_mode_step, wall_time=wall_time, name=name)
    check_against_full_decoding(template, later, other, other_mode_step)
    alike = (
        len(write_varint(step)) == len(write_varint(other))
        and bool(step) == bool(other)
        and len(str(mode_step)) == len(str(other_mode_step))
    )
    assert (template.decode(later, step=other, mode_step=other_mode_step) is not None) == alike
