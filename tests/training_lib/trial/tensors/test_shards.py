"""Parts of a tensor put together: exactly, or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import ConfigurationError
from trackside.records.shards import Shard
from trackside.trial.tensors.shards import joined

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


def test_pieces_of_a_row_come_together() -> None:
    row = WHOLE.reshape(-1)
    parts = [(Shard(WHOLE.shape, (start,), is_flat=True), row[start:end]) for start, end in ((19, 30), (0, 19))]
    np.testing.assert_array_equal(joined("x", parts), WHOLE)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        pytest.param(
            [(Shard((5, 6), (0,), is_flat=True), WHOLE.reshape(-1)[:19])], "19 of 30", id="a-piece-is-missing"
        ),
        pytest.param([(Shard((5, 6), (9,), is_flat=True), WHOLE.reshape(-1))], "do not fit", id="a-piece-too-long"),
        pytest.param([(Shard((5, 6), (0,), is_flat=True), WHOLE)], "do not fit", id="no-row"),
        pytest.param(
            [TOP, (Shard((5, 6), (0, 0), placement="Partial(sum)"), WHOLE)], r"\(Partial\(sum\)\) cannot", id="sums"
        ),
    ],
)
def test_what_cannot_be_put_together_is_refused(parts: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        joined("x", parts)
