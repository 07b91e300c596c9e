"""The rows of a batch: the axis of its samples, and batches in which some rows are exchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from trackside.rehearsal.probe import NotTriedError


@dataclass(frozen=True)
class Batch:
    """Tensors that hold one row for each sample, along the axis `axis`.

    size     number of samples
    members  the tensors
    """

    size: int
    members: tuple[torch.Tensor, ...]
    axis: int = 0

    def axis_of(self, output: torch.Tensor) -> int | None:
        """Return the axis along which an output has a row for each sample; None without one.

        A table of all samples against all has none.
        """
        is_table = output.ndim == 2 and output.shape[0] == output.shape[1]
        if is_table:
            return None
        axes = (axis for axis in (self.axis, 0) if output.ndim > axis and output.shape[axis] == self.size)
        return next(axes, None)

    def turned(self) -> dict[int, torch.Tensor]:
        """Return copies of the tensors, by id, in which each sample stands in the place of the one before.

        Raises:
            NotTriedError: All samples are alike.
        """
        turned = {id(each): each.roll(1, self.axis) for each in self.members}
        if all(torch.equal(each, turned[id(each)]) for each in self.members):
            raise NotTriedError("all samples of the batch are alike")
        return turned

    def with_row(self, row: int, *, of: int) -> dict[int, torch.Tensor]:
        """Return copies of the tensors, by id, in which one sample is replaced by another."""
        changed = {}
        for each in self.members:
            copy = each.clone()
            copy.select(self.axis, row).copy_(each.select(self.axis, of))
            changed[id(each)] = copy
        return changed

    def differing_row(self) -> tuple[int, int]:
        """Return two samples that differ.

        Raises:
            NotTriedError: All are alike.
        """
        for row in range(1, self.size):
            if any(not torch.equal(each.select(self.axis, 0), each.select(self.axis, row)) for each in self.members):
                return 0, row
        raise NotTriedError("all samples of the batch are alike")


def batch_with_rows(inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Batch:
    """Return the batch along the first axis, or the second, for which an output has a row for each sample.

    Raises:
        NotTriedError: Neither axis is such a one.
    """
    batch = batch_of(inputs)
    if any(batch.axis_of(output) is not None for output in outputs):
        return batch
    if all(each.ndim > 1 for each in inputs):
        batch = batch_of(inputs, axis=1)
        if any(batch.axis_of(output) is not None for output in outputs):
            return batch
    raise NotTriedError("no output has a row for each sample")


def batch_of(inputs: Sequence[torch.Tensor], *, axis: int = 0) -> Batch:
    """Return the batch that these tensors make up.

    Raises:
        NotTriedError: They have no common number of rows, or less than two.
    """
    tensors = [each for each in inputs if each.ndim > axis and each.numel()]
    sizes = Counter(each.shape[axis] for each in tensors)
    if not sizes:
        raise NotTriedError("the models are called without a batch of samples")
    if len(sizes) > 1:
        listed = ", ".join(str(size) for size in sorted(sizes))
        raise NotTriedError(f"the inputs have no common number of samples ({listed} rows)")
    size = next(iter(sizes))
    if size < 2:
        raise NotTriedError("a batch has one sample only")
    return Batch(size, tuple(tensors), axis)
