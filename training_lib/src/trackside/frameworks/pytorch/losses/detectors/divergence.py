"""A Kullback-Leibler divergence that is given probabilities or scores where it expects their logarithms.

Its graph is a constant less the targets times what it was given, or, with logarithms of the targets, the targets times
their difference. Reads some rows of the targets, once a run: each holds probabilities that add up to one.
"""

from __future__ import annotations

from typing import Any

import torch

from trackside.contracts.observations import DIVERGENCE_OF
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.targets import LAYERS, WHOLE
from trackside.frameworks.shared.detectors import sees

_MOST_NODES = 64
_ROWS = 64
_ROUNDING = 1e-2
_ABOVE = {  # what may stand between the end of a loss and a divergence
    "AddBackward0", "SubBackward0", "MulBackward0", "DivBackward0", "SumBackward0", "SumBackward1", "MeanBackward0",
    "MeanBackward1", "NegBackward0",
} | WHOLE  # fmt: skip
_SCALED = {"MulBackward0", "DivBackward0"} | WHOLE
_GIVEN = {"SoftmaxBackward0": "probabilities", "SigmoidBackward0": "probabilities"} | dict.fromkeys(LAYERS, "scores")


@sees(DIVERGENCE_OF)
def divergence_of(loss: SeenLoss) -> str:
    """Return "probabilities" or "scores", where a divergence in a loss by hand is given these; else "".

    Raises:
        RuntimeError: The script has written over values that the graph keeps.
    """
    waiting, seen = [loss.end], set[Any]()
    while waiting and loss.node is None and len(seen) < _MOST_NODES:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        if found := _given(node):
            return found
        if type(node).__name__ in _ABOVE:
            waiting += [following for following, _ in node.next_functions]
    return ""


def _given(node: Any) -> str:
    """Return what a divergence that ends in this node was given for logarithms, if it is neither these nor unknown."""
    kind = type(node).__name__
    if kind == "SubBackward0":  # t log t - t x
        first, product = (following for following, _ in node.next_functions)
        return _source(_times_targets(product)) if first is None else ""
    inner = _times_targets(node)  # t (log t - x)
    if type(inner).__name__ != "SubBackward0" or inner.next_functions[0][0] is not None:
        return ""
    return _source(inner.next_functions[1][0])


def _times_targets(node: Any) -> Any:
    """Return the node that rows of probabilities, which are no part of the graph, are multiplied with; else None."""
    if type(node).__name__ != "MulBackward0":
        return None
    (first, _), (second, _) = node.next_functions
    if (first is None) == (second is None):
        return None
    targets = kept(node, "self" if first is None else "other")
    return (second if first is None else first) if targets is not None and _are_shares(targets) else None


def _are_shares(targets: torch.Tensor) -> bool:
    if targets.dim() < 2 or not targets.is_floating_point() or not targets.numel():
        return False
    rows = targets.detach()[:_ROWS].float()
    is_whole = [bool(((rows.sum(axis) - 1).abs() <= _ROUNDING).all()) for axis in {1, rows.dim() - 1}]
    return any(is_whole) and bool((rows >= 0).all())


def _source(node: Any) -> str:
    for _ in range(_MOST_NODES):
        inputs = [following for following, _ in getattr(node, "next_functions", ()) if following is not None]
        if len(inputs) != 1 or type(node).__name__ not in _SCALED:
            break
        node = inputs[0]
    return _GIVEN.get(type(node).__name__, "")
