"""Updates that are lost to rounding: elements of half-precision weights that a step leaves as they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.optim.optimizer import Optimizer

HALF = frozenset({torch.float16, torch.bfloat16})


def rounds_to_nearest(optimizer: Optimizer) -> bool:
    """Return True for an optimizer of PyTorch. Others may round at random or keep what is lost, and lose nothing."""
    return type(optimizer).__module__.startswith("torch.optim.")


def lost_share(
    weights: Sequence[torch.Tensor], updates: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor | None]
) -> torch.Tensor | None:
    """Return the share of elements with a gradient that a step left unmoved, of all half-precision weights together.

    Args:
        weights: Weights after the step.
        updates: The difference that the step made to each.
        gradients: The gradient of each; None where there is none.

    Returns:
        A tensor of one element, where the weights lie; None if no weight of half precision had a gradient.
    """
    lost, with_gradient = [], []
    for weight, update, gradient in zip(weights, updates, gradients, strict=True):
        if weight.dtype in HALF and gradient is not None and gradient.shape == update.shape:
            has_gradient = gradient != 0
            with_gradient.append(has_gradient.sum())
            lost.append((has_gradient & (update == 0)).sum())
    if not lost:
        return None
    return (torch.stack(lost).sum() / torch.stack(with_gradient).sum().clamp(min=1)).reshape(1)
