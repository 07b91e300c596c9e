"""A sample of the rows that a boosting is trained on, taken before LightGBM gives the data up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MOST_ROWS = 512
_MOST_COLUMNS = 2048


class GivenRows(NamedTuple):
    """Rows that lie evenly apart, and their labels.

    inputs  of shape (rows, columns); a missing number is 0
    labels  of shape (rows,)
    """

    inputs: NDArray[np.float64]
    labels: NDArray[np.float64]

    def named(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Yield the two by the names under which they are saved."""
        yield "inputs", self.inputs
        yield "inputs/labels", self.labels


def given_rows(data: Any, labels: Any) -> GivenRows | None:
    """Return a sample of a table; None of a file, of several tables, and of one that does not fit its labels.

    Args:
        data: A NumPy array, a pandas frame or a sparse matrix.
        labels: One for each row.
    """
    shape = getattr(data, "shape", None)
    if shape is None or len(shape) != 2 or labels is None or len(labels) != shape[0] or 0 in shape:
        return None
    chosen = np.linspace(0, shape[0] - 1, min(shape[0], _MOST_ROWS)).astype(np.int64)
    columns = min(shape[1], _MOST_COLUMNS)
    answers = np.asarray(labels, np.float64).reshape(-1)[chosen]
    return GivenRows(np.nan_to_num(_numbers(data, chosen, columns)), answers)


def _numbers(data: Any, chosen: NDArray[np.int64], columns: int) -> NDArray[np.float64]:
    if hasattr(data, "iloc"):
        picked = data.iloc[chosen, :columns]
        return np.column_stack([_of_column(picked.iloc[:, place]) for place in range(columns)])
    picked = data[chosen]
    dense = picked.toarray() if hasattr(picked, "toarray") else picked
    return np.asarray(dense, np.float64)[:, :columns]


def _of_column(column: Any) -> NDArray[np.float64]:
    codes = column.cat.codes if hasattr(column, "cat") else column
    found: NDArray[np.float64] = codes.to_numpy(dtype=np.float64, na_value=np.nan)
    return found
