"""Inputs of evaluations from one to the next: if they are changed at random, or scaled by statistics of their own.

Of each evaluation the first pass over a data set is looked at, of batches with one tensor of inputs in floating point.

- Changed: the labels of the first batch are classes, and those of the evaluation before; the inputs are not. Two views
  of each row, a second pass in the same evaluation, and targets in floating point are another task: nothing is said.
- Own statistics: over the whole pass columns (channels of images) have mean 0 and deviation 1 to four digits, which
  statistics of other rows leave them no nearer to than a sample is. Where the first batch, or the first half of a
  single one, has so too, rows or batches are scaled one by one.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import torch

from trackside.frameworks.pytorch.data.fingerprint import fingerprint, rows_of
from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors
from trackside.frameworks.pytorch.ground.script_objects import length_of

FEWEST_ROWS = 32  # of a pass
MOST_SUMMED = 2  # evaluations whose columns are summed up: a preparation does not change
MOST_NUMBERS = 1 << 22  # of a batch whose statistics are taken
_EXACT = 1e-4
_SMALL = 1e-12  # variance of a column that is constant


class HeldOut(NamedTuple):
    """The findings of one evaluation.

    changed        1 if its inputs are others than those of the evaluation before with the same labels, else 0; None if
                   that cannot be compared
    own_statistics  share of the columns of its inputs with mean 0 and deviation 1; None if the pass was not whole
    """

    changed: float | None
    own_statistics: float | None


class _Moments:
    """Sums of columns over a pass."""

    def __init__(self) -> None:
        self.count = 0
        self.sums = self.squares = torch.zeros(0, dtype=torch.float64)

    def add(self, inputs: torch.Tensor) -> None:
        table = inputs.detach().double().transpose(0, 1).reshape(inputs.shape[1], -1)
        sums, squares = table.sum(1), table.square().sum(1)
        if self.count and sums.shape != self.sums.shape:
            raise ValueError("columns of another number")
        self.sums, self.squares = (self.sums + sums, self.squares + squares) if self.count else (sums, squares)
        self.count += table.shape[1]

    def exact(self) -> float:
        """Return the share of the columns with mean 0 and deviation 1."""
        if not self.count:
            return 0.0
        means = self.sums / self.count
        variances = self.squares / self.count - means.square()
        differ = variances > _SMALL
        near = (means.abs() <= _EXACT) & ((variances - 1).abs() <= _EXACT + 1.5 / self.count) & differ
        return float(near.sum()) / max(1, int(differ.sum()))


class HeldOutInputs:
    """The inputs of the newest evaluation, and the first batch of those before."""

    def __init__(self) -> None:
        self._before: tuple[int, int] | None = None  # fingerprints of labels and inputs
        self._iterator: weakref.ref[Any] | None = None
        self._passes = self._rows = 0
        self._first = 0  # numbers in each column of the first batch
        self._print: tuple[int, int] | None = None
        self._moments: _Moments | None = _Moments()
        self._summed = 0  # evaluations
        self._is_whole = False

    def evaluate(self, iterator: Any, batch: Any) -> None:
        """Look at a batch of an evaluation.

        Args:
            iterator: That of its pass.
            batch: The batch, as a DataLoader returned it.
        """
        is_new = self._iterator is None or self._iterator() is not iterator
        if is_new:
            self._passes += 1
            self._iterator = weakref.ref(iterator)
        if self._passes > 1:
            return
        inputs, labels = _parts(batch)
        if is_new and inputs is not None and labels is not None:
            prints = fingerprint([labels]), fingerprint([inputs])
            if prints[0] is not None and prints[1] is not None:
                self._print = prints[0].number, prints[1].number
        self._add(inputs, is_first=is_new)
        if inputs is not None:
            self._rows += len(inputs)
        self._is_whole = iterator._num_yielded == length_of(iterator._index_sampler)

    def _add(self, inputs: torch.Tensor | None, *, is_first: bool) -> None:
        if self._moments is None or inputs is None or inputs.dim() < 2 or inputs.numel() > MOST_NUMBERS:
            self._moments = None
            return
        if is_first:
            part = _Moments()
            part.add(inputs[: max(1, len(inputs) // 2)])
            if part.exact() > 0:
                self._moments = None
                return
        elif self._moments.count == self._first and self._moments.exact() > 0:
            self._moments = None
            return
        self._moments.add(inputs)
        if is_first:
            self._first = self._moments.count

    def take(self) -> HeldOut:
        """Return the findings of the newest evaluation, and forget it."""
        changed = own = None
        if self._passes == 1:
            if self._print is not None and self._before is not None and self._print[0] == self._before[0]:
                changed = float(self._print[1] != self._before[1])
            if self._is_whole and self._moments is not None and self._rows >= FEWEST_ROWS:
                own = self._moments.exact()
                self._summed += 1
        self._before = self._print
        self._iterator = self._print = None
        self._moments = _Moments() if self._summed < MOST_SUMMED else None
        self._passes = self._rows = 0
        self._is_whole = False
        return HeldOut(changed, own)


def _parts(batch: Any) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return the inputs of a batch and its labels of classes; None for either that is missing or comes twice."""
    tensors = [tensor for tensor in readable_tensors(batch) if tensor.dim()]
    if rows_of(tensors) < 2:
        return None, None
    inputs = [tensor for tensor in tensors if tensor.is_floating_point() and tensor.dim() > 1]
    labels = [tensor for tensor in tensors if not tensor.is_floating_point() and tensor.numel() == len(tensor)]
    others = len(tensors) - len(inputs) - len(labels)
    one = inputs[0] if len(inputs) == 1 and inputs[0].shape[1] * inputs[0][0].numel() > 1 else None
    return one, labels[0] if len(labels) == 1 and not others else None
