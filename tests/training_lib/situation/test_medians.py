"""Medians agree with NumPy's to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trackside.situation.medians import median, medians_of_rows, medians_of_three

FINITE = st.floats(-1e100, 1e100)


@given(arrays(np.float64, st.integers(1, 60), elements=st.one_of(FINITE, st.sampled_from([np.nan, np.inf]))))
def test_median_is_that_of_numpy(values: np.ndarray) -> None:
    before = values.copy()
    np.testing.assert_array_equal(median(values), np.median(values))
    np.testing.assert_array_equal(values, before)


def test_no_values_have_no_median() -> None:
    assert np.isnan(median(np.empty(0)))


@given(
    arrays(
        np.float64,
        st.tuples(st.integers(0, 5), st.integers(1, 20)),
        elements=st.one_of(FINITE, st.sampled_from([np.nan, np.inf])),
    )
)
def test_medians_of_rows_are_those_of_numpy(rows: np.ndarray) -> None:
    before = rows.copy()
    np.testing.assert_array_equal(medians_of_rows(rows), np.median(rows, axis=1))
    np.testing.assert_array_equal(rows, before)


@given(arrays(np.float64, st.integers(3, 60), elements=FINITE))
def test_medians_of_three_are_those_of_numpy(values: np.ndarray) -> None:
    expected = np.median(np.lib.stride_tricks.sliding_window_view(values, 3), axis=1)
    np.testing.assert_array_equal(medians_of_three(values), expected)
