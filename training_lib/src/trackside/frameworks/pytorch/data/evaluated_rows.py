"""The rows of evaluations that were trained on, or overlap with such: their share, by digests of rows.

A row is what the tensors of a batch hold at one place of their first dimension, inputs and labels together. Of each row
some 64 elements of each tensor are read. Rows that augmentation changes, or that are padded to another length, are
different rows: what is found was trained on, and what is not found may have been.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from trackside.frameworks.pytorch.data.fingerprint import rows_of
from trackside.frameworks.pytorch.data.overlapping_rows import Ends, OverlappingRows
from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors
from trackside.frameworks.pytorch.ground.script_objects import length_of

MOST_REMEMBERED = 1 << 16  # rows of the training
MOST_OF_A_BATCH = 1024  # rows of one batch of the training
SAMPLED = 64  # elements of a row, of each tensor
EVALUATED_BATCHES, EVALUATED_ROWS = 8, 32  # of each pass of an evaluation, and of each of its batches
FEWEST_ROWS = 32  # different ones of a pass that is judged
FEWEST_ELEMENTS = 8  # of a row: smaller ones are equal by chance
_MOST_ALIKE = 0.1  # share of the training's rows that come twice in a pass: the data have few different rows
_OF_TRAINING = 0.5  # share of a pass that was trained on, from which it is one over the training data


class Evaluated(NamedTuple):
    """The findings of one evaluation, of the pass with the least.

    share    share of its rows that were trained on
    overlap  share of its rows that begin and end within others that were trained on; None if that cannot be judged
    """

    share: float
    overlap: float | None


class _Pass:
    """One pass of an evaluation over its data."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.batches = 0
        self.rows: set[int] = set()
        self.known = 0
        self.ends = Ends.of_axes()

    @property
    def share(self) -> float:
        return self.known / len(self.rows)


class EvaluatedRows:
    """The rows trained on, and those of the newest evaluation."""

    def __init__(self) -> None:
        self._trained: set[int] = set()
        self._count = self._again = 0
        self._passes: list[_Pass] = []
        self._overlapping = OverlappingRows()
        self._dataset = 0  # id of the newest whose rows were remembered
        self._batches, self._length = 0, -1  # of it, and of a pass over it

    @property
    def is_waiting(self) -> bool:
        """True if an evaluation was looked at since it was taken."""
        return bool(self._passes)

    @property
    def of_training(self) -> list[weakref.ref[Any]]:
        """The iterators of those passes of the newest evaluation that are over training data."""
        return [one.iterator for one in self._passes if one.rows and one.share >= _OF_TRAINING]

    @property
    def _knows_all(self) -> bool:
        """True if all rows of the newest data of the training are remembered: others are held out."""
        return self._batches == self._length and len(self._trained) < MOST_REMEMBERED

    def train(self, iterator: Any, batch: Any) -> None:
        """Remember the rows of a batch of the first pass over the training data, in which each row comes once.

        Args:
            iterator: That of its pass.
            batch: The batch, as a DataLoader returned it.
        """
        if len(self._trained) >= MOST_REMEMBERED:
            return
        if self._dataset != id(iterator._dataset):
            self._dataset, self._batches, self._overlapping = id(iterator._dataset), 0, OverlappingRows()
            self._length = length_of(iterator._index_sampler) or -1
        self._batches += 1
        digests = row_digests(batch, most=MOST_OF_A_BATCH)
        if 0 < len(digests) < MOST_OF_A_BATCH:
            self._overlapping.remember(batch)
        else:
            self._length = -1  # not all of them are remembered
        self._count += len(digests)
        self._again += sum(digest in self._trained for digest in digests)
        self._trained.update(digests)

    def evaluate(self, iterator: Any, batch: Any) -> None:
        """Look up the rows of a batch of an evaluation. Each iterator is a pass."""
        newest = self._passes[-1] if self._passes else None
        if newest is None or newest.iterator() is not iterator:
            newest = _Pass(iterator)
            self._passes.append(newest)
        newest.batches += 1
        if newest.batches > EVALUATED_BATCHES or not self._trained:
            return
        for digest in row_digests(batch, most=EVALUATED_ROWS):
            if digest not in newest.rows:
                newest.rows.add(digest)
                newest.known += digest in self._trained
        if self._knows_all:
            self._overlapping.evaluate(newest.ends, batch, most=EVALUATED_ROWS)

    def take(self, *, besides: Any) -> Evaluated | None:
        """Return the findings of the newest evaluation, and forget it.

        None if no pass had enough different rows, or if rows of the training are often equal.

        Args:
            besides: The iterator of the training. Its first batch may come before the model is put into training mode.
        """
        passes = [one for one in self._passes if one.iterator() is not besides and len(one.rows) >= FEWEST_ROWS]
        self._passes = []
        if not passes or self._again > _MOST_ALIKE * self._count:
            return None
        held_out = [one for one in passes if one.share < _OF_TRAINING] if self._knows_all else []
        found = [self._overlapping.share(one.ends) for one in held_out]
        overlaps = [overlap for overlap in found if overlap is not None]
        return Evaluated(min(one.share for one in passes), min(overlaps, default=None))


def row_digests(batch: Any, *, most: int) -> Sequence[int]:
    """Return a number for each row of a batch, equal for equal rows; none for rows with too few elements.

    Args:
        batch: The batch; any structure of tensors.
        most: Number of rows after which evenly chosen ones are taken.
    """
    tensors = [tensor for tensor in readable_tensors(batch) if tensor.dim()]
    rows = rows_of(tensors)
    if rows < 2 or sum(tensor.numel() for tensor in tensors) < rows * FEWEST_ELEMENTS:
        return ()
    distance = max(1, -(-rows // most))
    parts = [_sampled(tensor[::distance]) for tensor in tensors]
    if len(parts) == 1:
        return [hash(row) for row in parts[0]]
    return [hash(row) for row in zip(*parts, strict=True)]


def _sampled(tensor: torch.Tensor) -> list[bytes]:
    """Return the bytes of each row: of elements that lie evenly in it, at a distance that is odd."""
    flat = tensor.reshape(len(tensor), -1)
    distance = flat.shape[1] // SAMPLED
    part = flat[:, :: distance | 1] if distance > 1 else flat
    data = part.contiguous().view(torch.uint8).numpy().tobytes()
    width = len(data) // len(tensor)
    return [data[place : place + width] for place in range(0, len(data), width)]
