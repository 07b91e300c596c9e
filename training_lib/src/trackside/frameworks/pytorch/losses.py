"""What a scalar that `backward` is called on is: which loss function, and what its value was multiplied by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

# What the losses of torch.nn.functional leave in the graph, and the module that computes the same.
_LOSS_OF_NODE: Mapping[str, str] = {
    "NllLossBackward0": "NLLLoss",
    "NllLoss2DBackward0": "NLLLoss",
    "MseLossBackward0": "MSELoss",
    "BinaryCrossEntropyBackward0": "BCELoss",
    "BinaryCrossEntropyWithLogitsBackward0": "BCEWithLogitsLoss",
    "HuberLossBackward0": "HuberLoss",
    "SmoothL1LossBackward0": "SmoothL1Loss",
    "SoftMarginLossBackward0": "SoftMarginLoss",
    "MultiMarginLossBackward0": "MultiMarginLoss",
    "MultilabelMarginLossBackward0": "MultiLabelMarginLoss",
}
_SCALING = {"MulBackward0", "DivBackward0"}
_VALUE_KEEPING = {"ToCopyBackward0", "CloneBackward0", "AliasBackward0", "ViewBackward0", "SqueezeBackward0"}
_LONGEST_WALK = 16
_SMALLEST_AMP_SCALE = 16.0


class LossDescription(NamedTuple):
    """`name`: what to call the loss, in the words of torch.nn; `scale`: what its true value was multiplied by."""

    name: str
    scale: float


def describe_loss(node: Any) -> LossDescription:
    """Walks back from the graph node of a scalar to the loss function it came from.

    Behind an unknown function a factor may be part of the loss (a mean by hand), so only AMP's is undone there: a
    last multiplication by a power of two.
    """
    scale = 1.0
    outermost = 1.0
    for depth in range(_LONGEST_WALK):
        kind = type(node).__name__
        if kind in _LOSS_OF_NODE:
            return LossDescription(_loss_name(kind, node), scale)
        inputs = [following for following, _ in getattr(node, "next_functions", ()) if following is not None]
        if len(inputs) != 1 or kind not in _SCALING | _VALUE_KEEPING:
            break
        if kind in _SCALING:
            factor = _constant_factor(kind, node)
            if factor is None:
                break
            scale *= factor
            outermost = factor if depth == 0 and kind == "MulBackward0" else outermost
        node = inputs[0]
    is_amp = outermost >= _SMALLEST_AMP_SCALE and np.frexp(outermost)[0] == 0.5
    return LossDescription("loss", outermost if is_amp else 1.0)


def _loss_name(kind: str, node: Any) -> str:
    before = node.next_functions[0][0]
    if _LOSS_OF_NODE[kind] == "NLLLoss" and type(before).__name__ == "LogSoftmaxBackward0":
        return "CrossEntropyLoss"
    return _LOSS_OF_NODE[kind]


def _constant_factor(kind: str, node: Any) -> float | None:
    """The constant that a node multiplies its only graph input by; None if it cannot be known or undone."""
    is_first = node.next_functions[0][0] is not None
    if kind == "DivBackward0" and not is_first:
        return None  # constant / loss
    constant = node._saved_other if is_first else node._saved_self
    if not isinstance(constant, torch.Tensor) or constant.numel() != 1:
        return None
    factor = float(constant.detach())
    if factor == 0 or not np.isfinite(factor):
        return None
    return 1 / factor if kind == "DivBackward0" else factor
