"""Event files of TensorBoard: every point of the real writers, and no crash on what is broken."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from trackside.imported.event_records import read_events
from trackside.imported.files import StoredFile
from trackside.imported.histograms import ABS_MAX, ABS_MEAN, L2, STATISTICS
from trackside.imported.log import Series
from trackside.records.tensorboard_file import (
    encode_histogram,
    encode_scalar,
    encode_text,
    encode_version,
    histogram_of,
)
from trackside.storage.memory import MemoryStore

SAMPLES = Path(__file__).with_name("samples")  # written by PyTorch's SummaryWriter and by TensorBoard 2.21


def read(data: bytes, *, size: int = 1 << 20) -> Series:
    """Return the series of an event file that is read in parts of so many bytes."""
    series = Series()
    store = MemoryStore()
    store.put("events", data)
    read_events(StoredFile(store, "events", len(data)), series, size=size)
    return series


def written(count: int, *, first: int = 0) -> bytes:
    """Return an event file with two scalars a step."""
    parts = [encode_version(1.7e9)]
    for step in range(first, first + count):
        parts += [
            encode_scalar("loss", 1 / (step + 1), step=step, wall_time=1.7e9 + step),
            encode_scalar("rate", 0.5, step=step, wall_time=1.7e9 + step),
        ]
    return b"".join(parts)


@pytest.mark.parametrize("size", [1 << 20, 4096, 61, 16])
def test_all_points_in_order_however_the_file_comes(size: int) -> None:
    steps = np.r_[0:200, 16_380:16_390, 2**40 : 2**40 + 3]  # numbers of one byte to six
    data = encode_version(1.0) + b"".join(
        encode_scalar("loss", 1 / (step + 1), step=step, wall_time=step / 8) for step in steps.tolist()
    )
    series = read(data, size=size)
    (points,) = series.points().values()
    np.testing.assert_array_equal(points.steps, steps)
    np.testing.assert_array_equal(points.values, (1 / (steps + 1)).astype(np.float32).astype(np.float64))
    np.testing.assert_array_equal(points.times, steps / 8)
    assert series.damage == []


def test_the_file_of_pytorch() -> None:
    series = read((SAMPLES / "torch" / "events.out.tfevents.1700000000.host").read_bytes())
    points = series.points()
    assert {name: len(own) for name, own in points.items()} == {"train/loss": 40, "lr": 40, "val/loss": 4}
    np.testing.assert_allclose(points["train/loss"].values, 2 * np.exp(-np.arange(40) / 20), rtol=1e-6)
    assert points["val/loss"].steps.tolist() == [90, 190, 290, 390]
    assert points["lr"].times[0] == 1.7e9


def test_scalars_in_tensors() -> None:
    series = read((SAMPLES / "keras" / "train" / "events.out.tfevents.1700000000.host").read_bytes())
    (points,) = series.points().values()
    np.testing.assert_allclose(points.values, 2 * np.exp(-np.arange(12) / 5), rtol=1e-6)


def test_pictures_and_texts_are_passed_over() -> None:
    data = written(3) + encode_text("note", "x" * 5000, step=1, wall_time=1.0)
    data += written(2, first=3)[len(encode_version(1.7e9)) :]
    series = read(data)
    steps = [0, 1, 2, 3, 4]
    assert {name: own.steps.tolist() for name, own in series.points().items()} == {"loss": steps, "rate": steps}
    assert series.damage == []
    assert series.tensor_points() == {}


@pytest.mark.parametrize(
    ("writer", "tags", "exact"),
    [
        pytest.param("torch", ("fc.weight", "fc.weight.grad"), 1e-6, id="sums-of-pytorch"),
        pytest.param("tensorboard", ("dense/kernel", "dense/kernel/gradient"), 0.02, id="buckets-of-tensorflow"),
    ],
)
def test_histograms_of_other_writers(writer: str, tags: tuple[str, str], exact: float) -> None:
    file = SAMPLES / "histograms" / f"events.out.tfevents.1700000000.{writer}"
    found = read(file.read_bytes()).tensor_points()
    chance = np.random.default_rng(0)
    expected: dict[tuple[str, str], list[float]] = {(tag, name): [] for tag in tags for name in STATISTICS}
    for _ in range(2):
        for tag, scale in zip(tags, (1.0, 1e-9), strict=True):
            values = chance.normal(0, scale, 400).astype(np.float32).astype(np.float64)
            numbers = (np.linalg.norm(values), np.abs(values).mean(), np.abs(values).max())
            for name, number in zip(STATISTICS, numbers, strict=True):
                expected[tag, name].append(float(number))
    assert found.keys() == expected.keys()
    for key, own in expected.items():
        assert found[key].steps.tolist() == [0, 1]
        assert found[key].times.tolist() == [1.7e9, 1.7e9 + 1]
        np.testing.assert_allclose(found[key].values, own, rtol=max(exact, 0.03 if key[1] == ABS_MEAN else 0.0))


@given(arrays(np.float64, st.integers(1, 200), elements=st.floats(-1e6, 1e6, width=32)))
def test_a_histogram_says_the_size_of_what_it_counts(values: NDArray[np.float64]) -> None:
    histogram = histogram_of(values)
    assert histogram is not None
    found = read(encode_version(1.0) + encode_histogram("w", histogram, step=7, wall_time=2.0)).tensor_points()
    sizes = {name: float(found["w", name].values[0]) for name in STATISTICS}
    assert sizes[ABS_MAX] == np.abs(values).max()
    assert sizes[L2] == pytest.approx(np.linalg.norm(values), rel=1e-6, abs=1e-300)
    assert 0 <= sizes[ABS_MEAN] <= sizes[ABS_MAX]


@pytest.mark.parametrize("size", [1 << 20, 61])
@pytest.mark.parametrize("count", [50, 5_000])
def test_a_damaged_histogram_is_left_out_and_counted(count: int, size: int) -> None:
    histogram = histogram_of(np.random.default_rng(0).normal(size=count))
    assert histogram is not None
    good = encode_histogram("w", histogram, step=1, wall_time=1.0)
    bad = good[:-30] + bytes([good[-30] ^ 1]) + good[-29:]
    series = read(written(2) + bad + good, size=size)
    assert len(series.tensor_points()["w", L2]) == 1
    assert series.all_damage() == ("1 record has a wrong checksum, left out, in events",)


def test_values_that_are_not_finite_are_values() -> None:
    data = encode_version(1.0) + b"".join(
        encode_scalar("loss", value, step=step, wall_time=1.0) for step, value in enumerate((1.0, math.nan, math.inf))
    )
    np.testing.assert_array_equal(read(data).points()["loss"].values, [1.0, np.nan, np.inf])


@pytest.mark.parametrize(
    ("broken", "damage", "count"),
    [
        pytest.param(lambda data: data, "", 20, id="whole"),
        pytest.param(lambda data: data[:-3], "ends within a record", 19, id="cut-off"),
        pytest.param(lambda data: data[:-20] + b"\x00" + data[-19:], "1 record has a wrong checksum", 19, id="a-bit"),
        pytest.param(lambda data: b"hello" * 9, "does not begin with a record", 0, id="no-event-file"),
        pytest.param(lambda data: b"", "", 0, id="empty"),
        pytest.param(lambda data: data[:500] + b"\xff" * 40, "is damaged from byte", 5, id="a-length-beyond-all"),
    ],
)
def test_what_is_broken_is_named_and_the_rest_is_read(broken: object, damage: str, count: int) -> None:
    assert callable(broken)
    series = read(broken(written(20)))
    assert len(series.points().get("rate", ())) == count
    assert (damage in " ".join(series.all_damage())) if damage else not series.damage
