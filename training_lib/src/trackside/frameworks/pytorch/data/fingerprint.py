"""Fingerprints of batches: the same for equal batches, from a few hundred elements of each tensor."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trackside.frameworks.pytorch.ground.batch_tensors import readable_tensors

SAMPLED = 512  # elements of a tensor
MOST_COPIED = 1 << 16  # elements of a tensor that is not contiguous
FEWEST_ELEMENTS = 16  # of a batch: smaller ones are equal by chance
_BITS = 24  # a float of single precision holds such a number exactly


@dataclass(frozen=True)
class BatchPrint:
    """The fingerprint of a batch.

    number        between 0 and 2**24, the same for equal batches
    rows          number of rows, of the tensors that agree in it; 0 if unknown
    is_one_row    all its rows are equal in each of its larger tensors
    """

    number: int
    rows: int
    is_one_row: bool


def fingerprint(batch: Any) -> BatchPrint | None:
    """Return the fingerprint of a batch; None if it holds too few elements in memory of the processor."""
    tensors = readable_tensors(batch)
    if sum(tensor.numel() for tensor in tensors) < FEWEST_ELEMENTS:
        return None
    checksum = 0
    for tensor in tensors:
        checksum = zlib.crc32(_sample(tensor), checksum)
    rows = rows_of(tensors)
    return BatchPrint(checksum >> (32 - _BITS), rows, rows > 1 and _is_one_row(tensors, rows))


def _sample(tensor: torch.Tensor) -> bytes:
    """Return the bytes of elements that lie evenly in the tensor, at a distance that is odd."""
    if not tensor.is_contiguous() and tensor.numel() > MOST_COPIED:
        tensor = tensor[:1] if tensor.dim() else tensor
    flat = tensor.reshape(-1)
    distance = len(flat) // SAMPLED
    part = flat[:: distance | 1] if distance > 1 else flat
    return part.contiguous().view(torch.uint8).numpy().tobytes()


def rows_of(tensors: Sequence[torch.Tensor]) -> int:
    """Return the number of rows, if all tensors with dimensions agree in it; else 0."""
    counts = {len(tensor) for tensor in tensors if tensor.dim()}
    return counts.pop() if len(counts) == 1 else 0


def _is_one_row(tensors: Sequence[torch.Tensor], rows: int) -> bool:
    largest = max(tensor.numel() for tensor in tensors)
    if largest // rows < 2:
        return False  # a single number in each row may well be equal in all
    large = [tensor for tensor in tensors if tensor.numel() * 2 >= largest]
    return all(torch.equal(tensor[0], tensor[rows // 2]) for tensor in large) and all(
        bool((tensor == tensor[:1]).all()) for tensor in large
    )
