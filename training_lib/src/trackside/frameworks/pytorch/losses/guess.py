"""The cost of a constant answer: what a loss of one batch would be if its predictions did not depend on the inputs.

From the targets that the node of the loss keeps: the variance of each target over the batch for a squared error, the
entropy of its mean for binary targets and for classes. A constant that fits this very batch is meant, so it is the
least that any answer costs that ignores the inputs.
"""

from __future__ import annotations

from typing import Any

import torch

from trackside.frameworks.pytorch.losses.description import LossDescription, inputs_in_graph

FEWEST_ROWS = 8
_MOST_ELEMENTS = 1 << 22
_SUM = 2  # torch's enum of reductions


def guess_of(loss: LossDescription) -> torch.Tensor | None:
    """Return that cost, one element, in the unit of the loss before its weight; None if it is unknown.

    Args:
        loss: A loss with the node that keeps its targets.
    """
    inputs = inputs_in_graph(loss.node)
    node: Any = loss.node
    if inputs is None or getattr(node, "_saved_weight", None) is not None:
        return None
    if getattr(node, "_saved_pos_weight", None) is not None:
        return None
    targets = inputs.labels
    if targets.dim() == 0 or len(targets) < FEWEST_ROWS or targets.numel() > _MOST_ELEMENTS:
        return None
    with torch.no_grad():
        found = _of(loss.name, inputs.predictions, targets, inputs.ignored_label)
        if found is None:
            return None
        mean, elements = found
        return mean * elements if getattr(node, "_saved_reduction", None) == _SUM else mean


def _of(
    name: str, predictions: torch.Tensor, targets: torch.Tensor, ignored: int | None
) -> tuple[torch.Tensor, int] | None:
    """Return the mean cost, and the number of elements that it is a mean of."""
    if name == "MSELoss" and targets.shape == predictions.shape:
        return targets.float().var(0, correction=0).mean(), targets.numel()
    if name in {"BCELoss", "BCEWithLogitsLoss"} and targets.shape == predictions.shape:
        mean = targets.float().mean(0)
        return -(torch.special.xlogy(mean, mean) + torch.special.xlogy(1 - mean, 1 - mean)).mean(), targets.numel()
    if name in {"CrossEntropyLoss", "NLLLoss"} and not targets.is_floating_point() and predictions.dim() > 1:
        kept = targets[targets != ignored] if ignored is not None else targets.reshape(-1)
        if len(kept) < FEWEST_ROWS or bool((kept < 0).any()):
            return None
        share = torch.bincount(kept.reshape(-1), minlength=predictions.shape[1]).float() / len(kept)
        return -torch.special.xlogy(share, share).sum(), len(kept)
    return None
