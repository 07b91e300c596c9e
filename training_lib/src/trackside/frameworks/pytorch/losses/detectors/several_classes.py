"""Targets of cross entropy with several classes in a row, where it expects probabilities. Reads them once a run."""

from __future__ import annotations

import torch

from trackside.contracts.observations import SEVERAL_CLASSES
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.shared.detectors import sees

_LONGEST_WALK = 8
_ROWS = 256  # that stand for all


@sees(SEVERAL_CLASSES)
def several_classes(loss: SeenLoss) -> float:
    """Return the share of the rows of targets, zeros and ones, with more than one one; 0 for any other targets."""
    if loss.name != "CrossEntropyLoss" or type(loss.node).__name__ != "LogSoftmaxBackward0":
        return 0.0
    node, before = loss.end, None
    for _ in range(_LONGEST_WALK):
        inputs = [following for following, _ in getattr(node, "next_functions", ()) if following is not None]
        if len(inputs) != 1:
            return 0.0
        if type(before).__name__.startswith("SumBackward") and type(node).__name__ == "MulBackward0":
            name = "other" if node.next_functions[0][0] is not None else "self"
            return _share(kept(node, name))
        before, node = node, inputs[0]
    return 0.0


def _share(targets: torch.Tensor | None) -> float:
    if targets is None or targets.ndim != 2 or not targets.shape[0]:
        return 0.0
    rows = targets.detach()[:_ROWS]
    if not bool(((rows == 0) | (rows == 1)).all()):
        return 0.0
    return float((rows.sum(1) > 1).double().mean())
