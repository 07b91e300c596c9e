"""Parts of a tensor put together: exactly, or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import ConfigurationError
from trackside.records.shards import Shard
from trackside.trial.shards import joined

WHOLE = np.arange(30, dtype=np.float32).reshape(5, 6)
TOP, BOTTOM = (Shard((5, 6), (0, 0)), WHOLE[:3]), (Shard((5, 6), (3, 0)), WHOLE[3:])


@given(rows=st.integers(1, 7), columns=st.integers(1, 7), row=st.integers(0, 7), column=st.integers(0, 7))
def test_any_cut_comes_together(rows: int, columns: int, row: int, column: int) -> None:
    whole = np.arange(rows * columns).reshape(rows, columns)
    row, column = min(row, rows), min(column, columns)
    places = [(0, 0), (row, 0), (0, column), (row, column)]
    ends = [(row, column), (rows, column), (row, columns), (rows, columns)]
    parts = [
        (Shard(whole.shape, (top, left)), whole[top:bottom, left:right])
        for (top, left), (bottom, right) in zip(places, ends, strict=True)
    ]
    np.testing.assert_array_equal(joined("a", parts), whole)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([TOP, BOTTOM], id="halves"),
        pytest.param([BOTTOM, TOP, TOP, BOTTOM], id="replicas"),
        pytest.param([TOP, (Shard((5, 6), (2, 0)), WHOLE[2:])], id="overlap"),
    ],
)
def test_whole(parts: list[tuple[Shard, np.ndarray]]) -> None:
    np.testing.assert_array_equal(joined("a", parts), WHOLE)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param([TOP], "18 of 30", id="missing"),
        pytest.param([TOP, TOP], "18 of 30", id="a-replica-is-no-other-part"),
        pytest.param([TOP, (Shard((5, 7), (3, 0)), WHOLE[3:])], "do not fit", id="another-shape"),
        pytest.param([TOP, (Shard((5, 6), (4, 0)), WHOLE[3:])], "do not fit", id="outside"),
        pytest.param([TOP, (Shard((5, 6), (3, 0)), WHOLE[3])], "do not fit", id="other-dimensions"),
        pytest.param([TOP, (Shard((5, 6), (3, 0)), WHOLE[3:].astype(int))], "do not fit", id="other-type"),
        pytest.param([(Shard((1 << 40, 6), (0, 0)), WHOLE)], "30 of", id="a-shape-that-is-never-allocated"),
    ],
)
def test_not_whole(parts: list[tuple[Shard, np.ndarray]], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        joined("a", parts)
