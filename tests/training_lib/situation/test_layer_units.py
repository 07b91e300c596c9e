"""Which unit of a layer is how active."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trackside.situation.layer_units import share_within


@pytest.mark.parametrize(
    ("values", "shares"),
    [
        pytest.param(np.array([[1.0, -1.0], [1.0, 1.0]]), [100, 50], id="features"),
        pytest.param(np.ones((2, 3, 4)), [100] * 4, id="features at positions"),
        pytest.param(np.stack([np.ones((3, 2, 2)), np.zeros((3, 2, 2))]), [50] * 3, id="channels of images"),
        pytest.param(np.array([[1], [0]]), [50], id="whole numbers"),
        pytest.param(np.array([[np.nan], [np.inf]]), [0], id="neither NaN nor infinity lies within"),
    ],
)
def test_shares(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], shares: list[float]) -> None:
    found = share_within(values, above=0.0, below=np.inf)
    assert found is not None
    assert found.tolist() == shares


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.float64(1), id="a scalar"),
        pytest.param(np.ones(4), id="a vector"),
        pytest.param(np.ones((0, 4)), id="nothing"),
        pytest.param(np.array([["a"]]), id="texts"),
        pytest.param(np.array([[True]]), id="truth values"),
    ],
)
def test_what_is_no_layer(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> None:
    assert share_within(np.asarray(values), above=0.0, below=1.0) is None


@given(arrays(np.int64, (5, 3), elements=st.integers(-2, 2)))
def test_what_is_above_and_what_is_not_make_a_hundred(
    values: np.ndarray[tuple[int, int], np.dtype[np.int64]],
) -> None:
    above, at_most = share_within(values, above=0.0, below=3.0), share_within(-values, above=-0.5, below=3.0)
    assert above is not None
    assert at_most is not None
    assert above + at_most == pytest.approx(np.full(3, 100.0))
