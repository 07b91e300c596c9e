"""The tensors of a batch that can be read at once."""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.structures import flatten

MOST_TENSORS = 8  # of a batch


def readable_tensors(batch: Any) -> list[torch.Tensor]:
    """Return the first tensors of a batch that lie in memory of the processor, detached; at most `MOST_TENSORS`."""
    return [tensor.detach() for tensor in islice(filter(_is_readable, flatten(batch)), MOST_TENSORS)]


def _is_readable(tensor: torch.Tensor) -> bool:
    if not tensor.is_cpu or tensor.layout != torch.strided or tensor.numel() == 0 or tensor.is_complex():
        return False
    return type(tensor) is torch.Tensor and has_memory(tensor) and not tensor.is_quantized
