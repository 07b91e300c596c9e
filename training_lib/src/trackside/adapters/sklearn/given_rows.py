"""The training set as the script gave it to `fit`: samples of its rows and labels, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from trackside.adapters.shared.rounds import MOST_CLASSES, MOST_LABELS, Named, Source

_MOST_ROWS = 512  # of a sample
_MOST_NUMBERS = 1 << 20  # of a sample: a wide table has fewer rows in it
_MOST_COLUMNS = 20_000  # those that rules look at
_DIGESTED = 64  # columns of a row
_FEWEST_COLUMNS = 8  # rows of fewer are equal by chance


@dataclass(frozen=True)
class GivenRows:
    """The arguments of one `fit`. Nothing of them is changed, and a copy holds a sample alone.

    estimator  the estimator
    rows       a table, dense or sparse, of whatever library; None if it is one of distances between samples
    labels     one for each row, or a row of them; None without any
    weights    one for each row; None without any
    """

    estimator: Any
    rows: Any
    labels: Any
    weights: Any = None

    def sources(self, number: int, *, kind: str, name: str) -> Mapping[str, Source]:
        """Return the sample of a step, by collection; another number gives another sample.

        Args:
            number: The number of the step.
            kind: The collection of the rows.
            name: The name of the rows.
        """
        found: dict[str, Source] = {}
        if self.rows is not None:
            found[kind] = lambda: self._named(name, _numbers(self._picked(self.rows, number)))
        if self.labels is not None:
            found["labels"] = lambda: self._named("labels", self._coded(_dense(self._picked(self.labels, number))))
        return found

    @property
    def is_weighted(self) -> bool:
        """True if the loss has weights of rows or classes."""
        return self.weights is not None or getattr(self.estimator, "class_weight", None) is not None

    def classes(self) -> tuple[int, ...]:
        """Return the number of rows of each class, by rows that lie evenly apart in a large set.

        Nothing for numbers to regress, several labels a row, and more than 20 classes.
        """
        classes = getattr(self.estimator, "classes_", ()) if is_classifier(self.estimator) else ()
        if self.labels is None or not 0 < len(classes) <= MOST_CLASSES:
            return ()
        count = _num_samples(self.labels)
        codes = self._coded(_dense(_safe_indexing(self.labels, np.arange(0, count, 1 + count // MOST_LABELS))))
        return tuple(np.bincount(codes[codes >= 0], minlength=len(classes)).tolist()) if codes.ndim == 1 else ()

    def _picked(self, table: Any, number: int) -> Any:
        """Return the rows of a sample, the same of all tables with as many rows."""
        count = _num_samples(self.labels if self.rows is None else self.rows)
        width = min(_MOST_COLUMNS, int(np.prod(getattr(self.rows, "shape", (1,))[1:])) or 1)
        size = min(count, _MOST_ROWS, max(1, _MOST_NUMBERS // width))
        chosen = np.sort(np.random.default_rng(number).choice(count, size, replace=False))
        return _rows_at(table, chosen)

    def _coded(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return numbers of classes, of shape (rows,), or (rows, labels) for several of each; else the labels.

        -1 stands for a label that is no class, such as that of a row without one.
        """
        flat = labels.reshape(-1) if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if not is_classifier(self.estimator):
            return flat.astype(np.float64)
        classes = getattr(self.estimator, "classes_", ())
        if flat.ndim != 1 or not len(classes):
            return flat
        codes = np.minimum(np.searchsorted(classes, flat), len(classes) - 1)
        return np.where(np.asarray(classes)[codes] == flat, codes, -1)

    @staticmethod
    def _named(name: str, array: NDArray[Any]) -> Named:
        return ((name, array),)


def row_digests(table: Any, *, most: int) -> list[int]:
    """Return a number for each row of a table, equal for equal rows; none for rows with few columns.

    Args:
        table: As for `GivenRows`.
        most: Number of rows after which rows that lie evenly apart are taken.
    """
    count = _num_samples(table)
    rows = _rows_at(table, np.arange(0, count, max(1, -(-count // most))))
    shape = getattr(rows, "shape", None) or np.shape(rows)
    width = shape[1] if len(shape) > 1 else 1
    if width < _FEWEST_COLUMNS:
        return []
    if width > _DIGESTED:
        rows = _safe_indexing(rows, np.arange(0, width, width // _DIGESTED | 1), axis=1)
    return [hash(row.tobytes()) for row in _numbers(rows)]


def _rows_at(table: Any, places: NDArray[np.intp]) -> Any:
    return _safe_indexing(table.tocsr() if hasattr(table, "tocsr") else table, places)


def _dense(table: Any) -> NDArray[Any]:
    return np.asarray(table.toarray() if hasattr(table, "toarray") else table)


def _numbers(table: Any) -> NDArray[np.float64]:
    """Return a table as numbers, of shape (rows, columns). A missing one is 0, and a text the number of its kind."""
    array = _dense(table[:, :_MOST_COLUMNS] if hasattr(table, "toarray") else table)
    array = array.reshape(len(array), -1)[:, :_MOST_COLUMNS]
    if array.dtype.kind not in "fiub":
        array = np.stack([_column(column) for column in array.T], axis=1)
    found = array.astype(np.float64)
    found[np.isnan(found)] = 0.0
    return found


def _column(values: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        return np.unique(values.astype(str), return_inverse=True)[1].astype(np.float64)
