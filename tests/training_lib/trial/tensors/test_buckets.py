from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trackside.trial.tensors.buckets import bucketed, edges_of


@pytest.mark.parametrize(
    ("first", "last", "count", "expected"),
    [
        pytest.param(0, 0, 400, [0, 1], id="one-step"),
        pytest.param(5, 7, 400, [5, 6, 7, 8], id="a-bucket-a-step"),
        pytest.param(0, 9, 2, [0, 5, 10], id="several-steps-a-bucket"),
        pytest.param(10**12, 10**12 + 1, 1, [10**12, 10**12 + 2], id="far-steps"),
    ],
)
def test_edges_cover_all_steps(first: int, last: int, count: int, expected: list[int]) -> None:
    assert edges_of(first, last, count).tolist() == expected


NUMBERS = arrays(np.float64, st.integers(1, 200), elements=st.floats(width=64))


@given(values=NUMBERS, gap=st.integers(1, 1000), count=st.integers(1, 50))
def test_no_extreme_and_no_broken_number_is_hidden(values: np.ndarray, gap: int, count: int) -> None:
    steps = np.arange(len(values)) * gap
    found = bucketed(steps, values, edges_of(0, int(steps[-1]), count))
    finite = values[np.isfinite(values)]
    assert int(found.count.sum()) == len(values)
    assert bool(found.is_broken.any()) == (len(finite) < len(values))
    if len(finite):
        assert np.nanmin(found.low) == finite.min()
        assert np.nanmax(found.high) == finite.max()
    known = np.isfinite(found.low)
    assert (found.low[known] <= found.high[known]).all()
    assert len(found.first) <= count


def test_no_numbers_are_no_buckets() -> None:
    found = bucketed(np.empty(0, np.int64), np.empty(0), edges_of(0, 9, 3))
    assert len(found.first) == 0
