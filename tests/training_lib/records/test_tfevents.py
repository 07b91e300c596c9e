"""Event records: what smdebug wrote, what we write, and what a damaged file may hold."""

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.for_each import for_each
from trackside.contracts.errors import RecordError
from trackside.records.protobuf_wire import write_bytes, write_number, write_varint
from trackside.records.tfevents import FOOTER, decode_record, encode_tensor, masked_crc, read_records

GOLDEN = Path(__file__).parent / "golden" / "step.tfevents"
AT = {"step": 1234, "mode": "EVAL", "mode_step": 34, "wall_time": 1700000000.25}

GOLDEN_TENSORS: dict[str, Any] = {
    "CrossEntropyLoss_output_0": np.array(2.5, "f4"),
    "gradient/Net_fc1.weight": np.arange(6, dtype="f4").reshape(2, 3) / 4,
    "half": np.array([1.5, -2], "f2"),
    "double": np.array([[[1e300]]], "f8"),
    "int32": np.array([-1, 2], "i4"),
    "int64": np.array([-(2**62)], "i8"),
    "uint8": np.array([0, 255], "u1"),
    "bool": np.array([True, False]),
    "complex128": np.array([1 + 2j]),
    "not finite": np.array([np.nan, np.inf, -np.inf], "f4"),
    "texts/größe": np.array(["ab", "größe", ""]),
}


def record(payload: bytes, footer: bytes = FOOTER) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc(length)) + payload + footer


def event(tensor: bytes, *, metadata: bytes = b"", name: bytes = b"x") -> bytes:
    """A whole record around the bytes of a `TensorProto`."""
    value = write_bytes(1, name) + write_bytes(8, tensor) + metadata
    return record(write_number(2, 7) + write_bytes(5, write_bytes(1, value)))


def shape(*sizes: int) -> bytes:
    return write_bytes(2, b"".join(write_bytes(2, write_number(1, size)) for size in sizes))


def packed(number: int, *values: int) -> bytes:
    return write_bytes(number, b"".join(map(write_varint, values)))


def decode(data: bytes) -> Any:
    return decode_record(data, key="events/x", offset=0)


def test_writes_what_smdebug_wrote() -> None:
    ours = b"".join(encode_tensor(name, value, **AT) for name, value in GOLDEN_TENSORS.items())  # type: ignore[arg-type]  # a dict of keywords
    assert ours == GOLDEN.read_bytes()


def test_reads_what_smdebug_wrote() -> None:
    records = [*read_records(GOLDEN.read_bytes(), key="golden")]
    assert [found.name for found in records] == list(GOLDEN_TENSORS)
    for found in records:
        expected = GOLDEN_TENSORS[found.name]
        assert found.value.dtype == expected.dtype
        assert found.value.shape == expected.shape
        assert found.value.tobytes() == expected.tobytes()
        assert (found.step, found.mode, found.mode_step, found.wall_time) == (1234, "EVAL", 34, 1700000000.25)


def test_frames_as_the_contract_says() -> None:
    assert bytes.fromhex("B3C02D06") == FOOTER
    assert record(bytes(94))[:12] == bytes.fromhex("5E00000000000000D8B06EBC")


def test_a_value_belongs_to_the_caller() -> None:
    data = encode_tensor("x", np.zeros(3), **AT)  # type: ignore[arg-type]  # a dict of keywords
    value = decode(data).value
    value += 1
    assert decode(data).value.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param(np.array([-128, 127], "i1"), np.array([-128, 127], "i4"), id="int8"),
        pytest.param(np.array([-(2**15)], "i2"), np.array([-(2**15)], "i4"), id="int16"),
        pytest.param(np.array([2**16 - 1], "u2"), np.array([2**16 - 1], "i4"), id="uint16"),
        pytest.param(np.array([2**32 - 1], "u4"), np.array([2**32 - 1], "i8"), id="uint32"),
        pytest.param(np.array([2**63 - 1], "u8"), np.array([2**63 - 1], "i8"), id="uint64 that fits int64"),
        pytest.param(np.array([2**64 - 1], "u8"), np.array([2.0**64], "f8"), id="uint64 that does not"),
        pytest.param(np.array([1 + 2j], "c8"), np.array([1 + 2j], "c16"), id="complex64"),
        pytest.param(np.array([1.5], "g"), np.array([1.5], "f8"), id="long double"),
        pytest.param(np.array([1.5, 2], ">f4"), np.array([1.5, 2], "<f4"), id="big-endian"),
        pytest.param(np.arange(6.0).reshape(2, 3).T, np.array([[0.0, 3], [1, 4], [2, 5]]), id="transposed"),
        pytest.param(np.arange(10.0)[::3], np.array([0.0, 3, 6, 9]), id="strided"),
        pytest.param(np.array(7, "i4"), np.array(7, "i4"), id="no dimension"),
        pytest.param(np.zeros((0, 3), "f4"), np.zeros((0, 3), "f4"), id="no elements"),
        pytest.param(np.array([b"ab", b"c"]), np.array(["ab", "c"]), id="bytes"),
        pytest.param(np.array(["a", "bc"], dtype=object), np.array(["a", "bc"]), id="texts as objects"),
        pytest.param(np.array("abc"), np.array(["abc"]), id="one text"),
        pytest.param(np.array([["a", "b"], ["c", "d"]]), np.array([["a", "b"], ["c", "d"]]), id="a table of texts"),
    ],
)
def test_stores_in_a_type_that_old_readers_read(written: Any, read: Any) -> None:
    found = decode(encode_tensor("x", written, **AT)).value  # type: ignore[arg-type]  # a dict of keywords
    assert found.dtype == read.dtype
    np.testing.assert_array_equal(found, read, strict=True)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(np.array(["2020-01-01"], "datetime64[D]"), id="dates"),
        pytest.param(np.zeros(2, [("a", "f4")]), id="structures"),
        pytest.param(np.array([{}, 1], dtype=object), id="objects"),
        pytest.param(np.zeros(2, "V4"), id="void"),
    ],
)
def test_says_what_cannot_be_stored(value: Any) -> None:
    with pytest.raises(TypeError, match="'odd'"):
        encode_tensor("odd", value, **AT)  # type: ignore[arg-type]  # a dict of keywords


def test_refuses_unknown_modes_and_negative_steps() -> None:
    with pytest.raises(ValueError, match=r"'train' is not a mode\. Modes: TRAIN, EVAL, PREDICT, GLOBAL"):
        encode_tensor("x", np.zeros(1), step=0, mode="train", mode_step=0, wall_time=1.0)
    for step, mode_step in ((-1, 0), (0, -1), (2**63, 0)):
        with pytest.raises(ValueError, match="Steps count from 0"):
            encode_tensor("x", np.zeros(1), step=step, mode="TRAIN", mode_step=mode_step, wall_time=1.0)


def test_reads_a_real_checksum_as_the_footer() -> None:
    """TensorBoard's own files have one, and a successor may."""
    data = encode_tensor("x", np.ones(2), **AT)  # type: ignore[arg-type]  # a dict of keywords
    payload = data[12:-4]
    assert decode(record(payload, struct.pack("<I", masked_crc(payload)))).value.tolist() == [1, 1]


def test_passes_over_events_without_a_summary() -> None:
    header = record(write_bytes(3, b"brain.Event:2"))
    data = header + encode_tensor("x", np.ones(2), **AT)  # type: ignore[arg-type]  # a dict of keywords
    assert [found.name for found in read_records(data, key="k")] == ["x"]
    with pytest.raises(RecordError, match="holds no tensor"):
        decode(header)


def test_a_scalar_from_before_the_first_step_of_its_mode() -> None:
    """smdebug writes -1 for the step of a mode that has none yet (issue 19)."""
    plugins = [(b"mode", b"2"), (b"mode_step", b"-1")]
    metadata = b"".join(write_bytes(1, write_bytes(1, name) + write_bytes(2, content)) for name, content in plugins)
    found = decode(
        event(write_number(1, 3) + shape(1) + write_bytes(4, b"\1\0\0\0"), metadata=write_bytes(9, metadata))
    )
    assert (found.mode, found.mode_step, found.step) == ("EVAL", -1, 7)


def test_what_is_missing_has_smdebugs_defaults() -> None:
    found = decode(event(write_number(1, 3) + shape(1) + write_bytes(4, b"\1\0\0\0")))
    assert (found.mode, found.mode_step, found.step, found.wall_time) == ("GLOBAL", 7, 7, 0.0)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        pytest.param(write_number(1, 1) + shape(2) + write_bytes(5, struct.pack("<2f", 1, 2)), [1, 2], id="float_val"),
        pytest.param(write_number(1, 2) + shape(1) + b"\x31" + struct.pack("<d", 3), [3], id="double_val, not packed"),
        pytest.param(write_number(1, 3) + shape(2) + packed(7, 5, -6), [5, -6], id="int_val"),
        pytest.param(write_number(1, 9) + shape(1) + packed(10, -(2**63)), [-(2**63)], id="int64_val"),
        pytest.param(write_number(1, 10) + shape(2) + packed(11, 1, 0), [True, False], id="bool_val"),
        pytest.param(write_number(1, 19) + shape(1) + packed(13, 0x3E00), [1.5], id="half_val"),
        pytest.param(write_number(1, 14) + shape(1) + packed(13, 0x3FC0), [1.5], id="half_val of a bfloat16"),
        pytest.param(write_number(1, 14) + shape(1) + write_bytes(4, b"\xc0\x3f"), [1.5], id="bfloat16"),
        pytest.param(write_number(1, 6) + shape(2) + write_bytes(4, b"\xff\x01"), [-1, 1], id="int8"),
        pytest.param(write_number(1, 23) + shape(1) + write_bytes(4, b"\xff" * 8), [2**64 - 1], id="uint64"),
        pytest.param(write_number(1, 1) + shape(0), [], id="nothing"),
        pytest.param(write_number(1, 7) + write_bytes(8, b"a"), ["a"], id="texts without a shape"),
    ],
)
def test_reads_what_other_writers_write(tensor: bytes, expected: list[object]) -> None:
    assert decode(event(tensor)).value.tolist() == expected


FOUR_BYTES = write_bytes(4, b"\0\0\0\0")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        pytest.param(b"", "only 0 are left", id="empty"),
        pytest.param(record(b"")[:11], "only 11 are left", id="cut in the header"),
        pytest.param(bytes(12), "checksum of a record's length", id="zeros"),
        pytest.param(struct.pack("<QI", 2**63, masked_crc(struct.pack("<Q", 2**63))), "claims", id="a huge record"),
        pytest.param(record(b"", b"\0\0\0\0"), "footer", id="a wrong footer"),
        pytest.param(encode_tensor("x", np.ones(1), **AT) + b"more", "4 bytes follow", id="more"),  # type: ignore[arg-type]  # a dict
        pytest.param(record(b"\xff" * 12), "longer than ten bytes", id="an endless number"),
        pytest.param(record(b"\x80"), "ends within a number", id="a number cut"),
        pytest.param(record(b"\x07"), "number 0", id="a field 0"),
        pytest.param(record(b"\x2f"), "wire type 7", id="a wire type out of use"),
        pytest.param(record(b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), "claims", id="a huge field"),
        pytest.param(record(write_number(5, 1)), "wire type 0, not 2", id="a summary that is a number"),
        pytest.param(record(write_number(1, 1)), "wire type 0, not 1", id="a time that is a number"),
        pytest.param(record(write_bytes(5, b"")), "summary is empty", id="an empty summary"),
        pytest.param(record(write_bytes(5, write_bytes(1, b"") * 2)), "one value", id="two values"),
        pytest.param(
            record(write_bytes(5, write_bytes(1, write_bytes(1, b"lr")))), "'lr' is no tensor", id="no tensor"
        ),
        pytest.param(event(FOUR_BYTES, name=b"\xff"), "not valid UTF-8", id="a name that is no text"),
        pytest.param(event(write_number(1, 1) + shape(2) + FOUR_BYTES), "cannot have 4 bytes", id="too few bytes"),
        pytest.param(event(write_number(1, 1) + shape(10**15)), "cannot have 0 values", id="a huge shape"),
        pytest.param(event(write_number(1, 1) + shape(*[2**40] * 9)), "cannot have 0 values", id="a gigantic shape"),
        pytest.param(event(write_number(1, 1) + shape(0, 2**62, 2**62)), "no array has", id="an impossible shape"),
        pytest.param(event(write_number(1, 1) + shape(*[1] * 99) + FOUR_BYTES), "no array has", id="99 dimensions"),
        pytest.param(event(write_number(1, 1) + shape(-1) + FOUR_BYTES), "negative size", id="a negative size"),
        pytest.param(event(write_number(1, 99) + shape(1) + FOUR_BYTES), "type number 99", id="an unknown type"),
        pytest.param(event(write_number(1, 20) + shape(1) + FOUR_BYTES), "type number 20", id="a resource"),
        pytest.param(event(write_number(1, 1) + write_bytes(2, write_number(3, 1))), "unknown", id="no known shape"),
        pytest.param(event(write_number(1, 1) + shape(1) + write_bytes(5, b"\0\0\0")), "ends within", id="half"),
        pytest.param(event(write_number(1, 1) + shape(1) + write_number(5, 1)), "wire type 0, not 5", id="no float"),
    ],
)
def test_a_damaged_record_is_told(data: bytes, what: str) -> None:
    with pytest.raises(RecordError, match=what) as caught:
        decode(data)
    assert caught.value.key == "events/x"
    assert 0 <= caught.value.offset <= len(data)


@pytest.mark.parametrize(
    ("plugins", "what"),
    [
        pytest.param([(b"mode", b"9")], "9 is not the number of a mode", id="an unknown mode"),
        pytest.param([(b"mode_step", b"-2")], "not a whole number", id="a negative step"),
        pytest.param([(b"mode", b"-1")], "not a whole number", id="a negative mode"),
        pytest.param([(b"mode_step", b"9223372036854775808")], "not a whole number", id="a step beyond 63 bits"),
        pytest.param([(b"mode_step", "٣".encode())], "not a whole number", id="a digit of another script"),
        pytest.param([(b"mode_step", b"9" * 5000)], "not a whole number", id="a step of 5000 digits"),
    ],
)
def test_damaged_metadata_is_told(plugins: list[tuple[bytes, bytes]], what: str) -> None:
    entries = [write_bytes(1, write_bytes(1, name) + write_bytes(2, content)) for name, content in plugins]
    metadata = write_bytes(9, b"".join(entries))
    with pytest.raises(RecordError, match=what):
        decode(event(write_number(1, 1) + shape(1) + FOUR_BYTES, metadata=metadata))


def test_the_offset_counts_from_the_start_of_the_file() -> None:
    whole = encode_tensor("x", np.ones(2), **AT)  # type: ignore[arg-type]  # a dict of keywords
    damaged = bytearray(whole * 3)
    damaged[len(whole) * 2] ^= 1
    found = read_records(bytes(damaged), key="events/x")
    assert next(found).name == next(found).name == "x"
    with pytest.raises(RecordError) as caught:
        next(found)
    assert caught.value.offset == len(whole) * 2
    with pytest.raises(RecordError) as caught:
        decode_record(whole[:-1], key="events/x", offset=1000)
    assert caught.value.offset == 1000


def test_one_long_text_among_many_is_no_allocation() -> None:
    texts = write_bytes(8, b"x" * 100_000) + write_bytes(8, b"") * 10_000
    data = event(write_number(1, 7) + texts)
    tracemalloc.start()
    try:
        value = decode(data).value
        assert tracemalloc.get_traced_memory()[1] < 50_000_000, "in a NumPy array of texts it would be 4 GB"
    finally:
        tracemalloc.stop()
    assert len(value) == 10_001


names = st.text(min_size=1, max_size=20)
modes = st.sampled_from(["TRAIN", "EVAL", "PREDICT", "GLOBAL"])
steps = st.integers(0, 2**63 - 1)
kept_types = st.sampled_from(["f2", "f4", "f8", "i4", "i8", "u1", "?", "c16"])
arrays = npst.arrays(kept_types, npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
texts = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5), min_size=1)


@settings(deadline=None)
@given(names, arrays | texts.map(np.array), steps, modes, steps, st.floats(allow_nan=False))
def test_comes_back_as_it_was(  # noqa: PLR0917 - hypothesis gives them by position
    name: str, value: Any, step: int, mode: str, mode_step: int, wall_time: float
) -> None:
    found = decode(encode_tensor(name, value, step=step, mode=mode, mode_step=mode_step, wall_time=wall_time))
    assert (found.name, found.step, found.mode, found.mode_step) == (name, step, mode, mode_step)
    assert struct.pack("<d", found.wall_time) == struct.pack("<d", wall_time)
    assert found.value.shape == value.shape
    if value.dtype.kind == "U":
        assert found.value.tolist() == value.tolist()
    else:
        assert found.value.dtype == value.dtype
        assert found.value.tobytes() == value.tobytes()


def read_or_refuse(data: bytes) -> None:
    try:
        for found in read_records(data, key="events/x"):
            assert found.value.nbytes <= 4 * len(data)
    except RecordError as error:
        told = error.offset
    else:
        return
    assert 0 <= told <= len(data)


@for_each({f"{length} bytes": (length,) for length in range(0, GOLDEN.stat().st_size, 7)})
def test_a_file_cut_anywhere_is_told(length: int) -> None:
    read_or_refuse(GOLDEN.read_bytes()[:length])


@settings(deadline=None, max_examples=300)
@given(st.integers(0, GOLDEN.stat().st_size - 1), st.integers(0, 7), st.booleans())
def test_a_flipped_bit_never_crashes(place: int, bit: int, framed: bool) -> None:
    damaged = bytearray(GOLDEN.read_bytes())
    damaged[place] ^= 1 << bit
    read_or_refuse(bytes(damaged))
    if framed:  # inside an intact frame, so that the message itself is damaged
        read_or_refuse(record(bytes(damaged[12:104])))


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=60))
def test_noise_in_an_intact_frame_never_crashes(noise: bytes) -> None:
    read_or_refuse(record(noise))
    read_or_refuse(event(noise))
