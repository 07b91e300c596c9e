"""The dropouts before a loss, of modules and functions alike, and the share of values that each drops.

Reads some values of the masks that the graph keeps, once a run.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from trackside.contracts.observations import DROPOUTS
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.targets import LAYERS
from trackside.frameworks.shared.detectors import sees

_MOST_NODES = 300  # of a graph, from the loss on
_MOST_READ = 16  # masks and other factors
_MOST_KEPT = 4
_VALUES = 4096  # of a mask
_FEWEST = 64
_ERRORS = 6.0  # standard errors that the share of zeros may be off


@sees(DROPOUTS)
def dropped_shares(loss: SeenLoss) -> tuple[float, ...]:
    """Return the shares of the values that dropouts before the last layer drop, the largest four, largest first.

    On a processor a dropout is a product with a mask: zeros, and 1 / (1 - p) elsewhere. Behind the last layer such a
    product is the mean over some of the samples, and does not count.

    Raises:
        RuntimeError: The script has written over values that the graph keeps.
    """
    waiting, seen, read = [(loss.end, False)], set[Any](), 0
    shares: list[float] = []
    while waiting and len(seen) < _MOST_NODES and read < _MOST_READ:
        node, is_before_layer = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        kind = type(node).__name__
        if is_before_layer and (factor := _factor(node)) is not None:
            read += 1
            shares.append(share_of_mask(factor))
        elif getattr(node, "_saved_train", False) and kind == "NativeDropoutBackward0":  # on a GPU
            shares.append(float(node._saved_p))
        elif kind.startswith("ScaledDotProduct"):
            shares.append(float(getattr(node, "_saved_dropout_p", 0.0)))
        is_before_layer = is_before_layer or kind in LAYERS
        waiting += [(following, is_before_layer) for following, _ in getattr(node, "next_functions", ())]
    return tuple(sorted((share for share in shares if share > 0), reverse=True)[:_MOST_KEPT])


def share_of_mask(factor: torch.Tensor) -> float:
    """Return p if a factor is a dropout's mask, zero with probability p and 1 / (1 - p) elsewhere; else 0.

    Args:
        factor: A tensor of any shape.
    """
    values = factor.detach().reshape(-1)[:_VALUES].float()
    if len(values) < _FEWEST:
        return 0.0
    largest = float(values.max())
    if not (1 < largest < math.inf) or not bool(((values == 0) | (values == largest)).all()):
        return 0.0
    p = 1 - 1 / largest
    error = math.sqrt(p * (1 - p) / len(values))
    return p if abs(float((values == 0).float().mean()) - p) <= _ERRORS * error else 0.0


def _factor(node: Any) -> torch.Tensor | None:
    """Return what a node multiplies its input with, if that is a tensor of floats and no part of the graph."""
    if type(node).__name__ != "MulBackward0" or [following is None for following, _ in node.next_functions] != [0, 1]:
        return None
    factor = kept(node, "other")
    return factor if factor is not None and factor.is_floating_point() and factor.layout is torch.strided else None
