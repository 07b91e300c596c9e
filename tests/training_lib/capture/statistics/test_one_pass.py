"""The compiled loops against NumPy in double: any lengths, any values, at any address."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trackside.capture.statistics.one_pass import LOOPS, Arrays, Loops, Sample

Floats = NDArray[np.float32]

pytestmark = pytest.mark.skipif(LOOPS is None, reason="trackside-native is not installed: no C compiler was found")
LENGTHS = [1, 2, 15, 16, 17, 255, 4095, 4096, 4097, 70_000]
# Blocks of 256 additions in single precision, and the sixteen lanes and the blocks in double.
RELATIVE = 256 * 2.0**-24


@pytest.fixture
def loops() -> Loops:
    assert LOOPS is not None
    return LOOPS


def sums_of(loops: Loops, arrays: Sequence[Floats]) -> NDArray[np.float64]:
    return loops.sums(Arrays([len(array) for array in arrays]), [array.ctypes.data for array in arrays])


def assert_right(found: NDArray[np.float64], array: Floats) -> None:
    wide = array.astype(np.float64)
    total, sizes, squares, least, largest, zeros = found.tolist()
    assert sizes == pytest.approx(np.abs(wide).sum(), rel=RELATIVE)
    assert total == pytest.approx(wide.sum(), abs=RELATIVE * np.abs(wide).sum())
    assert squares == pytest.approx(np.square(wide).sum(), rel=RELATIVE)
    assert (least, largest, zeros) == (wide.min(), wide.max(), np.count_nonzero(wide == 0))


@pytest.mark.parametrize("length", LENGTHS)
def test_all_sums_of_any_length_and_size(loops: Loops, length: int) -> None:
    for scale in (1e-30, 1e-13, 1e-3, 1.0, 1e10, 1e16, 1e30):
        random = np.random.default_rng(length)
        array = (random.normal(size=length) * scale).astype(np.float32)
        array[:: max(2, length // 5)] = 0
        assert_right(sums_of(loops, [array])[:, 0], array)
        assert loops.squares(Arrays([length]), [array.ctypes.data])[0] == pytest.approx(
            np.square(array.astype(np.float64)).sum(), rel=RELATIVE
        )


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=40),
        min_size=1,
        max_size=5,
    )
)
def test_several_arrays_are_kept_apart(values: list[list[float]]) -> None:
    assert LOOPS is not None
    arrays = [np.array(numbers, np.float32) for numbers in values]
    found = sums_of(LOOPS, arrays)
    assert found.shape == (6, len(arrays))
    for place, array in enumerate(arrays):
        assert_right(found[:, place], array)


@pytest.mark.parametrize("place", [0, 15, 16, 4096, 4999])
@pytest.mark.parametrize(
    ("value", "least", "largest"),
    [
        pytest.param(math.nan, math.nan, math.nan, id="nan"),
        pytest.param(math.inf, 1.0, math.inf, id="infinite"),
        pytest.param(-math.inf, -math.inf, 1.0, id="minus-infinite"),
    ],
)
def test_a_value_that_is_not_finite_shows(loops: Loops, place: int, value: float, least: float, largest: float) -> None:
    array = np.ones(5000, np.float32)
    array[place] = value
    total, sizes, squares, smallest, greatest, zeros = sums_of(loops, [array])[:, 0].tolist()
    assert not any(map(math.isfinite, (total, sizes, squares)))
    np.testing.assert_equal([smallest, greatest, zeros], [least, largest, 0])
    assert not math.isfinite(loops.squares(Arrays([5000]), [array.ctypes.data])[0])


@pytest.mark.parametrize("offset", range(4))
@pytest.mark.parametrize("length", LENGTHS)
def test_a_copy_and_then_the_change(loops: Loops, length: int, offset: int) -> None:
    """Nothing before or after the copy is written to, wherever in memory it begins."""
    random = np.random.default_rng(length)
    before, now = (random.normal(size=length + offset).astype(np.float32)[offset:] for _ in range(2))
    room = np.full(length + 8, 7.0, np.float32)
    arrays, copy = Arrays([length]), room[offset + 1 : offset + 1 + length]
    squares = loops.copy(arrays, [before.ctypes.data], [copy.ctypes.data])
    assert squares[0] == pytest.approx(np.square(before.astype(np.float64)).sum(), rel=RELATIVE)
    np.testing.assert_array_equal(copy, before)
    changed = loops.change(arrays, [now.ctypes.data], [copy.ctypes.data])
    difference = before - now
    np.testing.assert_array_equal(copy, difference)
    assert changed[0] == pytest.approx(np.square(difference.astype(np.float64)).sum(), rel=RELATIVE)
    assert set(room[: offset + 1]) | set(room[offset + 1 + length :]) == {7.0}


def test_a_sample_remembers_the_values_of_the_call_before(loops: Loops) -> None:
    first, second = np.arange(10, dtype=np.float32), np.array([3.0], np.float32)
    sample = Sample([first.ctypes.data, second.ctypes.data], [3, 1], [4, 1])
    loops.sampled_change(sample)
    assert loops.sampled_change(sample) == (0.0, 0 + 9 + 36 + 81 + 9)
    first[3] += 2
    first[4] += 100  # between two sampled ones
    second[0] = 0
    assert loops.sampled_change(sample) == (4 + 9, 0 + 25 + 36 + 81)
    assert loops.sampled_change(sample)[0] == 0
