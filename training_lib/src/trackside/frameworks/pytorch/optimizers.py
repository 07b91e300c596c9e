"""What is read off an optimizer."""

from __future__ import annotations

import torch
from torch.optim.optimizer import Optimizer


def fused_scale(optimizer: Optimizer) -> float:
    """What AMP has multiplied the gradients by and a fused optimizer will divide by, inside of its step."""
    scale = getattr(optimizer, "grad_scale", None)
    return float(scale) if isinstance(scale, torch.Tensor) and scale.numel() == 1 else 1.0
