"""The margin of a loss that wants one distance smaller than another: `mean(max(0, near - far + margin))`.

A number added to a tensor leaves nothing in the graph, but the tensor does. Reads the values of two distances, once a
run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from trackside.contracts.observations import MARGIN
from trackside.frameworks.pytorch.ground.memory import readable
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.shared.detectors import sees

_HINGES = {"ClampMinBackward0": "_saved_self", "ClampBackward1": "_saved_self", "ReluBackward0": "_saved_result"}
_LENGTHS = {"NormBackward1", "LinalgVectorNormBackward0", "SqrtBackward0"}  # which keep what they gave
_LONGEST_WALK = 8
_ROUNDING = 1e-3


@sees(MARGIN)
def margin(loss: SeenLoss) -> float:
    """Return the margin of a loss; 0 if it is no such loss, or has none.

    Raises:
        RuntimeError: The script has written over values that the graph keeps.
    """
    return 0.0 if loss.node is not None else _margin(loss.end) or 0.0


def _margin(end: Any) -> float | None:
    hinge: Any = end.next_functions[0][0] if type(end).__name__ == "MeanBackward0" else None
    kept = _HINGES.get(type(hinge).__name__)
    if kept is None:
        return None
    distances = list(_terms(hinge.next_functions[0][0], 1.0, _LONGEST_WALK))
    if sorted(sign for sign, _ in distances) != [-1.0, 1.0]:
        return None
    (sign, first), (_, second) = ((sign, _distance(node)) for sign, node in distances)
    total = readable(getattr(hinge, kept))
    if first is None or second is None or not first.shape == second.shape == total.shape:
        return None
    rest = (total - sign * (first - second))[total > 0].double()
    if rest.numel() == 0:
        return None
    found, spread = (float(number) for number in (rest.mean(), rest.max() - rest.min()))
    return found if found > 0 and spread <= _ROUNDING * (found + float(total.max())) else None


def _terms(node: Any, sign: float, depth: int) -> Iterator[tuple[float, Any]]:
    """Return the nodes that are added up in a node, each with its sign."""
    kind = type(node).__name__
    if kind not in {"AddBackward0", "SubBackward0", "AddBackward1", "SubBackward1", "RsubBackward1"} or not depth:
        yield sign, node
        return
    for place, (following, _) in enumerate(node.next_functions):
        if following is not None:
            is_taken_off = (place == 1 and kind == "SubBackward0") or kind == "RsubBackward1"
            yield from _terms(following, -sign if is_taken_off else sign, depth - 1)


def _distance(node: Any) -> torch.Tensor | None:
    """Return the values of a distance: a norm, or a sum of squares."""
    if type(node).__name__ in _LENGTHS:
        return readable(node._saved_result)
    before: Any = node.next_functions[0][0] if type(node).__name__ == "SumBackward1" else None
    if type(before).__name__ == "PowBackward0" and before._saved_exponent == 2:
        dimensions = [d - 2**64 if d >= 2**63 else d for d in node._saved_dim]
        return readable(before._saved_self).square().sum(dimensions, node._saved_keepdim)
    return None
