"""The rows of evaluations that were trained on: their share, by digests of rows.

A row is what the tensors of a batch hold at one place of their first dimension, inputs and labels together. Of each row
some 64 elements of each tensor are read. Rows that augmentation changes, or that are padded to another length, are
different rows: what is found was trained on, and what is not found may have been.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from trackside.frameworks.pytorch.data.fingerprint import rows_of
from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors

MOST_REMEMBERED = 1 << 16  # rows of the training
MOST_OF_A_BATCH = 1024  # rows of one batch of the training
SAMPLED = 64  # elements of a row, of each tensor
EVALUATED_BATCHES, EVALUATED_ROWS = 8, 32  # of each pass of an evaluation, and of each of its batches
FEWEST_ROWS = 32  # different ones of a pass that is judged
FEWEST_ELEMENTS = 8  # of a row: smaller ones are equal by chance
_MOST_ALIKE = 0.1  # share of the training's rows that come twice in a pass: the data have few different rows


class _Pass:
    """One pass of an evaluation over its data."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = weakref.ref(iterator)
        self.batches = 0
        self.rows: set[int] = set()
        self.known = 0


class EvaluatedRows:
    """The rows trained on, and those of the newest evaluation."""

    def __init__(self) -> None:
        self._trained: set[int] = set()
        self._count = self._again = 0
        self._passes: list[_Pass] = []

    @property
    def is_waiting(self) -> bool:
        """True if an evaluation was looked at since `share` was taken."""
        return bool(self._passes)

    def train(self, batch: Any) -> None:
        """Remember the rows of a batch of the first pass over the training data, in which each row comes once.

        Args:
            batch: The batch, as a DataLoader returned it.
        """
        if len(self._trained) >= MOST_REMEMBERED:
            return
        digests = row_digests(batch, most=MOST_OF_A_BATCH)
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

    def share(self, *, besides: Any) -> float | None:
        """Return the share of the newest evaluation's rows that were trained on, of the pass with the least.

        None if no pass had enough different rows, or if rows of the training are often equal. Forget the evaluation.

        Args:
            besides: The iterator of the training. Its first batch may come before the model is put into training mode.
        """
        passes = [one for one in self._passes if one.iterator() is not besides]
        shares = [one.known / len(one.rows) for one in passes if len(one.rows) >= FEWEST_ROWS]
        self._passes = []
        if not shares or self._again > _MOST_ALIKE * self._count:
            return None
        return min(shares)


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
