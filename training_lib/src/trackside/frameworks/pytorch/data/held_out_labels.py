"""Labels of evaluations of classes that the training hardly has, as where sorted data were cut in two.

Labels are the one tensor of a batch with a whole number for each row. Those of the first pass over the training data
are counted, and those of each pass of an evaluation; what is below zero counts as no label. Row numbers are no labels:
those of the training come ten times each, on average.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from trackside.frameworks.pytorch.data.fingerprint import rows_of
from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors
from trackside.frameworks.pytorch.ground.script_objects import length_of

MOST_CLASSES = 1000
FEWEST_LABELS = 64  # of the training, and of a pass
_OF_A_CLASS = 10  # labels of the training
_HARDLY = 0.01  # share of the training's labels: a class below it is hardly there

Counts = NDArray[np.int64]


class Untrained(NamedTuple):
    """The labels of one evaluation that are of classes that the training hardly has.

    share    share of the labels of the pass with the least
    highest  the highest such class; -1 without one
    """

    share: float
    highest: int


class _Pass:
    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.counts: Counts = np.zeros(MOST_CLASSES, np.int64)


class HeldOutLabels:
    """The classes of the training's labels, and of those of the newest evaluation."""

    def __init__(self) -> None:
        self._trained: Counts = np.zeros(MOST_CLASSES, np.int64)
        self._dataset = 0  # id of the newest
        self._batches, self._length = 0, -1  # of it, and of a pass over it
        self._passes: list[_Pass] = []
        self._is_known = True  # each batch of the training had labels

    def remember(self, iterator: Any, batch: Any) -> None:
        """Count the labels of a batch of the first pass over the training data.

        Args:
            iterator: That of its pass.
            batch: The batch, as a DataLoader returned it.
        """
        if self._dataset != id(iterator._dataset):
            self._dataset, self._batches = id(iterator._dataset), 0
            self._length = length_of(iterator._index_sampler) or -1
        self._batches += 1
        counts = _counts_of(batch)
        self._is_known &= counts is not None
        if counts is not None:
            self._trained += counts

    def evaluate(self, iterator: Any, batch: Any) -> None:
        """Count the labels of a batch of an evaluation. Each iterator is a pass."""
        if self._batches != self._length or not self._is_known:
            return
        newest = self._passes[-1] if self._passes else None
        if newest is None or newest.iterator() is not iterator:
            newest = _Pass(iterator)
            self._passes.append(newest)
        counts = _counts_of(batch)
        if counts is not None:
            newest.counts += counts

    def take(self, *, besides: Collection[weakref.ref[Any]]) -> Untrained | None:
        """Return the findings of the newest evaluation, and forget it; None if too few labels are known.

        Args:
            besides: The iterators of passes over training data, and that of the training, of which the first batch may
                come before the model is put into training mode.
        """
        passes, self._passes = [one.counts for one in self._passes if one.iterator not in besides], []
        passes = [counts for counts in passes if counts.sum() >= FEWEST_LABELS]
        total, classes = int(self._trained.sum()), int(np.count_nonzero(self._trained))
        if not passes or not self._is_known or total < max(FEWEST_LABELS, _OF_A_CLASS * classes):
            return None
        return min(self._untrained(counts) for counts in passes)

    def _untrained(self, counts: Counts) -> Untrained:
        found = np.flatnonzero((counts > 0) & (self._trained < _HARDLY * self._trained.sum()))
        return Untrained(float(counts[found].sum() / counts.sum()), int(found.max(initial=-1)))


def _counts_of(batch: Any) -> Counts | None:
    """Return the number of labels of each class; None without labels of up to `MOST_CLASSES`."""
    tensors = [tensor for tensor in readable_tensors(batch) if tensor.dim()]
    rows = rows_of(tensors)
    whole = [tensor for tensor in tensors if tensor.numel() == rows and not tensor.is_floating_point()]
    if len(whole) != 1 or rows < 1:
        return None
    labels = whole[0].reshape(-1).to(torch.int64)
    labels = labels[labels >= 0]
    if not len(labels) or int(labels.max()) >= MOST_CLASSES:
        return None
    return labels.bincount(minlength=MOST_CLASSES).numpy()
