"""Samples of the rows that LightGBM is given: of arrays, frames and sparse matrices; none of files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from trackside.adapters.lightgbm.given_rows import given_rows

ROWS = np.arange(12.0).reshape(6, 2)
ANSWERS = np.arange(6)
HOLES = np.array([[1.0, np.nan], [np.nan, 4.0]])


@pytest.mark.parametrize(
    ("data", "labels", "expected"),
    [
        pytest.param(ROWS, ANSWERS, ROWS, id="array"),
        pytest.param(ROWS.astype(np.float32), list(range(6)), ROWS, id="float32, and a list"),
        pytest.param(sparse.csr_matrix(ROWS), ANSWERS, ROWS, id="sparse"),
        pytest.param(pd.DataFrame(ROWS), pd.Series(ANSWERS), ROWS, id="frame"),
        pytest.param(
            pd.DataFrame({"kind": pd.Categorical(["b", "a", "b"]), "size": pd.array([1, None, 3], "Int64")}),
            ANSWERS[:3],
            [[1, 1], [0, 0], [1, 3]],
            id="categories and missing numbers",
        ),
        pytest.param(HOLES, ANSWERS[:2], [[1, 0], [0, 4]], id="missing numbers"),
        pytest.param("train.csv", ANSWERS, None, id="file"),
        pytest.param(None, ANSWERS, None, id="given up"),
        pytest.param([ROWS, ROWS], ANSWERS, None, id="several tables"),
        pytest.param(ROWS, None, None, id="no labels"),
        pytest.param(ROWS, ANSWERS[:4], None, id="fewer labels"),
        pytest.param(ROWS[:, :0], ANSWERS, None, id="no columns"),
        pytest.param(ROWS[:0], ANSWERS[:0], None, id="no rows"),
    ],
)
def test_samples(data: Any, labels: Any, expected: Any) -> None:
    found = given_rows(data, labels)
    if expected is None:
        assert found is None
        return
    assert found is not None
    names, arrays = zip(*found.named(), strict=True)
    assert names == ("inputs", "inputs/labels")
    np.testing.assert_array_equal(arrays[0], expected)
    np.testing.assert_array_equal(arrays[1], np.asarray(labels))


def test_a_large_table_gives_rows_that_lie_evenly_apart() -> None:
    found = given_rows(np.arange(20_000.0).reshape(10_000, 2), np.arange(10_000))
    assert found is not None
    assert found.inputs.shape == (512, 2)
    np.testing.assert_array_equal(found.inputs[:, 0], 2 * found.labels)
    assert (found.labels[0], found.labels[-1]) == (0, 9_999)


def test_words_are_no_numbers() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        given_rows(pd.DataFrame({"word": ["a", "b"]}), [0, 1])
