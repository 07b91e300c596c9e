"""Scores that are cosines times a factor, and smoothed labels, keep cross entropy near the loss of a guess.

Reads values once a run.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from trackside.contracts.observations import LEAST_SHARE
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.description import constant_factor
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.smoothing import least_share as of_smoothed_labels
from trackside.frameworks.pytorch.losses.smoothing import smoothing_of
from trackside.frameworks.pytorch.losses.targets import WHOLE, shape_of
from trackside.frameworks.shared.detectors import sees

_LONGEST_WALK = 16
_ROWS = 64  # that stand for all
_ROUNDING = 1e-2  # half precision's too
_FACTORS = {"MulBackward0", "DivBackward0"}


@sees(LEAST_SHARE)
def least_share(loss: SeenLoss) -> float:
    """Return the least that cross entropy can be over what equal scores cost; 0 where it has no such bound.

    Scores between -f and f leave at least log(1 + (n - 1) exp(-2 f)) of n classes, smoothed labels their entropy.
    """
    if loss.name != "CrossEntropyLoss":
        return 0.0
    return max(_of_scores(loss), of_smoothed_labels(smoothing_of(loss.end), _classes(loss)))


def _of_scores(loss: SeenLoss) -> float:
    if loss.function is None:
        return 0.0
    factor, node, is_turned = 1.0, loss.function, False
    for _ in range(_LONGEST_WALK):
        kind = type(node).__name__
        inputs = [following for following, _ in node.next_functions if following is not None]
        if kind == "MmBackward0":
            return _share(node, abs(factor), is_turned=is_turned)
        if len(inputs) != 1 or kind not in {*WHOLE, *_FACTORS, "TBackward0"}:
            return 0.0
        if kind in _FACTORS:
            constant = constant_factor(kind, node)
            if constant is None or not isinstance(constant.value, float) or not constant.value:
                return 0.0
            factor *= 1 / constant.value if constant.is_divisor else constant.value
        is_turned ^= kind == "TBackward0"
        node = inputs[0]
    return 0.0


def _classes(loss: SeenLoss) -> int:
    """Return the number of classes; 0 if it is unknown."""
    shape = shape_of(*loss.node.next_functions[0]) if loss.node is not None and loss.node.next_functions else ()
    return shape[1] if len(shape) > 1 else 0


def _share(product: Any, factor: float, *, is_turned: bool) -> float:
    rows, columns = kept(product, "self"), kept(product, "mat2")
    if rows is None or columns is None or not (_are_directions(rows) and _are_directions(columns.T)):
        return 0.0
    classes = len(rows) if is_turned else columns.shape[1]
    return math.log1p((classes - 1) * math.exp(-2 * factor)) / math.log(classes) if classes > 1 else 0.0


def _are_directions(rows: torch.Tensor) -> bool:
    """Return True if all vectors, shape (n, dimensions), have the length one."""
    lengths = rows.detach()[:_ROWS].double().square().sum(1)
    return bool(((lengths - 1).abs() < _ROUNDING).all())
