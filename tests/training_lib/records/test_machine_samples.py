"""Files of samples of a machine: every number comes back, whole, in pieces, cut off or damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.records.machine.machine_samples import MAGIC, Sample, SamplesEncoder, without_exports
from trackside.records.machine.machine_samples_reader import MachineSamplesReader, decode_machine_samples
from trackside.records.machine.system_metrics_file import SystemSample

GOLDEN = Path(__file__).parent / "golden" / "machine-samples.tms"
SECOND = 1_700_000_000
CORE: Sample = ("cpu", "cpu0", "CPUUtilization", 12.34)
MEMORY: Sample = ("container", "MemoryBytes", "Container", 4_689_809_408.0)
DISK: Sample = ("i/o", "DiskReadBytesPerSecond", "Disk", 5_617_405.85)
WATTS: Sample = ("gpu", "gpu0", "GPUPowerWatts", 651.5)
ROWS: list[tuple[float, list[Sample]]] = [
    (0.25, [MEMORY]),
    (0.75, [CORE, MEMORY, DISK]),
    (1.25, [(*CORE[:3], 99.0), (*MEMORY[:3], 4_689_727_488.0), (*DISK[:3], 0.0)]),
    (1.75, [WATTS]),
    (2.25, [(*CORE[:3], 0.0), (*MEMORY[:3], 0.0), (*DISK[:3], 16_515.97)]),
]


def encoded(rows: Iterable[tuple[float, Sequence[Sample]]], *, node: str = "algo-1") -> bytes:
    encoder = SamplesEncoder(node=node, second=SECOND)
    return b"".join(encoder.encode(metrics, wall_time=SECOND + after) for after, metrics in rows)


def expected(rows: Iterable[tuple[float, Sequence[Sample]]]) -> list[tuple[str, str, str, float, float]]:
    return sorted(
        (kind, name, dimension, SECOND + after, _stored(name, dimension, value))
        for after, metrics in rows
        for kind, name, dimension, value in metrics
    )


def _stored(name: str, dimension: str, value: float) -> float:
    return round(value / 1000) * 1000.0 if "Bytes" in name + dimension else round(value * 100) / 100


def found(samples: Iterable[SystemSample]) -> list[tuple[str, str, str, float, float]]:
    return sorted((each.kind, each.name, each.dimension, each.timestamp, each.value) for each in samples)


def test_the_golden_file_never_changes() -> None:
    assert encoded(ROWS) == GOLDEN.read_bytes(), "machine-samples.tms"
    assert found(decode_machine_samples(GOLDEN.read_bytes(), key="machine-samples.tms")) == expected(ROWS)


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_a_file_is_read_as_it_grows(size: int) -> None:
    data = encoded(ROWS)
    reader = MachineSamplesReader("k")
    samples = []
    for start in range(0, len(data), size):
        for series in reader.feed(data[start : start + size]):
            of = (series.kind, series.name, series.dimension, series.node)
            for time, value in zip(series.times.tolist(), series.values.tolist(), strict=True):
                samples.append(SystemSample(*of[:3], value, of[3], time))
    assert found(samples) == expected(ROWS)


numbers = st.floats(-1e12, 1e12)
names = st.sampled_from([CORE[:3], MEMORY[:3], DISK[:3], WATTS[:3], ("process", "tr\u00e4ining", "ProcessCount")])
samples_of_a_moment = st.dictionaries(names, numbers, max_size=4).map(lambda of: [(*name, v) for name, v in of.items()])
rows_of_a_file = st.lists(samples_of_a_moment, max_size=8).map(
    lambda all_of: [(k / 2, of) for k, of in enumerate(all_of)]
)


@given(rows_of_a_file)
def test_every_number_comes_back(rows: list[tuple[float, list[Sample]]]) -> None:
    read = found(decode_machine_samples(encoded(rows) or MAGIC, key="k"))
    for one, other in zip(read, expected(rows), strict=True):
        assert one[:4] == other[:4]
        assert one[4] == pytest.approx(other[4], abs=1000 if "Bytes" in one[1] + one[2] else 0.01)


@given(rows_of_a_file, st.integers(0, 400))
def test_a_file_that_was_cut_off_counts_as_far_as_it_goes(rows: list[tuple[float, list[Sample]]], length: int) -> None:
    whole = found(decode_machine_samples(encoded(rows), key="k"))
    assert set(found(decode_machine_samples(encoded(rows)[:length], key="k"))) <= set(whole)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_damage_is_an_error_of_ours_or_other_numbers(place: int, byte: int) -> None:
    data = bytearray(encoded(ROWS))
    data[place % len(data)] = byte
    samples: list[SystemSample] = []
    with contextlib.suppress(RecordError):
        samples = decode_machine_samples(bytes(data), key="k")
    assert all(np.isfinite(each.value) and np.isfinite(each.timestamp) for each in samples)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_error_of_ours_or_few_samples(data: bytes) -> None:
    with contextlib.suppress(RecordError):
        assert len(decode_machine_samples(MAGIC + data, key="k")) <= len(data)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        pytest.param(b'{"Type":"cpu"', "is no file of samples", id="JSON"),
        pytest.param(MAGIC + b"\x05", "table 3 of 0", id="a table that is not there"),
        pytest.param(MAGIC + b"\x00\x02[]", "a head without a second", id="no head"),
        pytest.param(MAGIC + b"\x00\x01{", "Expecting", id="no JSON in it"),
        pytest.param(MAGIC + b"\xff" * 12 + b"\x00", "more than 9 bytes", id="a number without an end"),
        pytest.param(MAGIC + b"\x01\xff\xff\x7f", "a length of", id="a table too long"),
        pytest.param(encoded(ROWS[:1]) + b"\x01\x01\x09", "unknown metrics", id="metrics that are not there"),
    ],
)
def test_damage_is_named(data: bytes, what: str) -> None:
    with pytest.raises(RecordError, match=what):
        decode_machine_samples(data, key="k")


def test_numbers_that_are_not_finite_are_left_out() -> None:
    rows = [(0.0, [CORE, (*WATTS[:3], float("nan"))]), (0.5, [(*WATTS[:3], float("inf"))])]
    assert found(decode_machine_samples(encoded(rows), key="k")) == expected([(0.0, [CORE])])


@pytest.mark.parametrize(
    ("keys", "read"),
    [
        pytest.param(["s/10.algo-1.json", "s/70.algo-1.json"], [0, 1], id="of the original"),
        pytest.param(["s/10.algo-1.tms", "s/610.algo-1.tms.open"], [0, 1], id="ours"),
        pytest.param(["s/10.algo-1.tms", "s/10.algo-1.json", "s/70.algo-1.json"], [0], id="ours and its export"),
        pytest.param(["s/10.algo-1.json", "s/70.algo-1.tms"], [0, 1], id="the original before ours"),
        pytest.param(["s/10.algo-1.tms", "s/10.algo-2.json"], [0, 1], id="another machine"),
        pytest.param(["s/10.algo-1.tms", "s/about.json"], [0, 1], id="another file"),
    ],
)
def test_an_export_is_not_read_again(keys: list[str], read: list[int]) -> None:
    assert without_exports(keys) == [keys[place] for place in read]
