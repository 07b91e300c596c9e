from __future__ import annotations

import math
import struct
from collections.abc import Iterator

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trackside.records.protobuf_wire import WireField, read_fields
from trackside.records.tensorboard_file import (
    clean_tag,
    encode_histogram,
    encode_scalar,
    encode_version,
    event_file_name,
    histogram_of,
    original_file_name,
)


def payloads(data: bytes) -> Iterator[bytes]:
    """The payloads of a chain of records; every checksum must hold."""
    while data:
        length, check = struct.unpack_from("<QI", data)
        payload, (footer,) = data[12 : 12 + length], struct.unpack_from("<I", data, 12 + length)
        assert (check, footer) == (masked(data[:8]), masked(payload))
        yield payload
        data = data[16 + length :]


def masked(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return int((crc >> 15 | (crc << 17) & 0xFFFFFFFF) + 0xA282EAD8) % 2**32


def fields(data: bytes | memoryview) -> dict[int, WireField]:
    return {field.number: field for field in read_fields(memoryview(data), 0)}


def value_of(record: bytes) -> dict[int, WireField]:
    (payload,) = payloads(record)
    return fields(fields(fields(payload)[5].data)[1].data)


def test_a_file_begins_with_its_version() -> None:
    (payload,) = payloads(encode_version(1.5))
    assert payload == b"\x09" + struct.pack("<d", 1.5) + b"\x1a\x0dbrain.Event:2"


def test_the_worked_example_of_a_scalar() -> None:
    record = encode_scalar("loss", 0.5, step=7, wall_time=1.0)
    (payload,) = payloads(record)
    value = b"\x0a\x04loss" + b"\x15" + struct.pack("<f", 0.5)
    assert payload == b"\x09" + struct.pack("<d", 1.0) + b"\x10\x07" + b"\x2a\x0d\x0a\x0b" + value
    assert record[:8] == struct.pack("<Q", len(payload))


def test_records_are_a_chain() -> None:
    chain = (
        encode_version(1.0) + encode_scalar("a", 1, step=0, wall_time=1) + encode_scalar("a", 2, step=1, wall_time=2)
    )
    assert len(list(payloads(chain))) == 3


@given(st.text(), st.floats(), st.integers(0, 2**63 - 1), st.floats(0, 1e10))
def test_a_scalar_holds_what_was_given(tag: str, value: float, step: int, wall_time: float) -> None:
    tag = tag.encode("utf-8", "replace").decode()
    record = encode_scalar(tag, value, step=step, wall_time=wall_time)
    (payload,) = payloads(record)
    event, found = fields(payload), value_of(record)
    assert (event[2].number_value if 2 in event else 0) == step
    assert (event[1].double() if 1 in event else 0.0) == wall_time
    assert found[1].text() == tag
    (number,) = struct.unpack("<f", found[2].number_value.to_bytes(4, "little"))
    with np.errstate(over="ignore"):
        assert number == float(np.float32(value)) or (math.isnan(number) and math.isnan(value))


@pytest.mark.parametrize("step", [pytest.param(-1, id="negative"), pytest.param(2**63, id="too-large")])
def test_steps_that_there_cannot_be(step: int) -> None:
    with pytest.raises(ValueError, match="Steps count from 0"):
        encode_scalar("a", 1.0, step=step, wall_time=0)


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        pytest.param("loss:0", "loss_0", id="as-the-contract-says"),
        pytest.param("/a/b", "a/b", id="leading-slash"),
        pytest.param("//a", "a", id="leading-slashes"),
        pytest.param("a b*c", "a_b_c", id="other-characters"),
        pytest.param("Net_fc1.weight", "Net_fc1.weight", id="usual"),
        pytest.param("gradient/Net_fc-1.weight", "gradient/Net_fc-1.weight", id="nothing-to-clean"),
        pytest.param("größe", "größe", id="letters"),
        pytest.param("", "", id="empty"),
    ],
)
def test_tags_are_cleaned(name: str, tag: str) -> None:
    assert clean_tag(name) == tag


def test_file_names() -> None:
    assert event_file_name(1_700_000_000.9, host="a b/c") == "events.out.tfevents.1700000000.a_b_c"
    assert event_file_name(0, host="h") == "events.out.tfevents.0000000000.h"
    assert original_file_name("TRAIN", 12, process_id=34, host="h") == "TRAIN/000000000012_34_h.tfevents"


def test_a_histogram_by_hand() -> None:
    histogram = histogram_of(np.array([[0.0, 0.0], [1e-13, -3.0]]))
    assert histogram is not None
    assert (histogram.smallest, histogram.largest, histogram.count) == (-3.0, 1e-13, 4)
    assert histogram.total == pytest.approx(-3.0)
    assert histogram.sum_squares == 9.0
    assert histogram.counts[0] == 0
    assert histogram.counts[1] == 1, "the -3"
    assert histogram.counts[-1] == 3, "two zeros and 1e-13, above 0 and below 1e-12"
    assert histogram.limits[-1] == 1e-12
    assert sum(histogram.counts) == 4
    assert len(histogram.limits) == len(histogram.counts)


@given(
    arrays.arrays(
        st.sampled_from(["f2", "f4", "f8", "i1", "i8", "u8", "?"]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0),
    )
)
def test_every_finite_value_is_counted_in_its_bucket(values: np.ndarray) -> None:
    numbers = values.astype(np.float64).reshape(-1)
    numbers = numbers[np.isfinite(numbers)]
    histogram = histogram_of(values)
    if not numbers.size:
        assert histogram is None
        return
    assert histogram is not None
    assert sum(histogram.counts) == histogram.count == numbers.size
    assert (histogram.smallest, histogram.largest) == (numbers.min(), numbers.max())
    limits, counts = histogram.limits, histogram.counts
    assert list(limits) == sorted(set(limits))
    assert counts[0] == 0
    assert counts[1] > 0
    assert counts[-1] > 0
    for low, high, count in zip(limits, limits[1:], counts[1:], strict=False):
        is_last = high == np.finfo(np.float64).max
        assert count == np.count_nonzero((numbers >= low) & ((numbers <= high) if is_last else (numbers < high)))


def test_values_beyond_the_buckets_of_the_original_are_not_lost() -> None:
    histogram = histogram_of(np.array([1e300, -1e300, np.inf, np.nan]))
    assert histogram is not None
    assert (histogram.count, sum(histogram.counts)) == (2, 2)
    assert histogram.sum_squares == math.inf


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.array([]), id="empty"),
        pytest.param(np.array([np.nan, np.inf]), id="nothing-finite"),
    ],
)
def test_nothing_to_count_is_no_histogram(values: np.ndarray) -> None:
    assert histogram_of(values) is None


@pytest.mark.parametrize(
    "values", [pytest.param(np.array(["a"]), id="text"), pytest.param(np.array([1j]), id="complex")]
)
def test_what_is_no_number_is_refused(values: np.ndarray) -> None:
    with pytest.raises(TypeError, match="No histogram"):
        histogram_of(values)


def test_a_histogram_is_written_whole() -> None:
    histogram = histogram_of(np.array([1.0, 2.0, 2.0]))
    assert histogram is not None
    found = fields(value_of(encode_histogram("w/a", histogram, step=3, wall_time=1.0))[5].data)
    assert [found[number].double() for number in (1, 2, 3, 4, 5)] == [1.0, 2.0, 3.0, 5.0, 9.0]
    assert np.frombuffer(found[6].data, "<f8").tolist() == list(histogram.limits)
    assert np.frombuffer(found[7].data, "<f8").tolist() == list(histogram.counts)
