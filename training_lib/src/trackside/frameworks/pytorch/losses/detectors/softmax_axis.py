"""A softmax over one axis of a matrix of weights, before a product that sums them over the other."""

from __future__ import annotations

from typing import Any

from trackside.contracts.observations import OTHER_AXIS
from trackside.frameworks.pytorch.losses.attention import attention_nodes, kept
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.shared.detectors import sees

_LONGEST_WALK = 8
_SOFTMAX = {"SoftmaxBackward0", "SafeSoftmaxBackward0"}
_PRODUCTS = {"BmmBackward0": ("self", "mat2"), "MmBackward0": ("self", "mat2")}
_SUMMED = (-1, -2)  # axis of the first and of the second matrix
_IN_PLACE = {  # what leaves both axes of a matrix where they are; a dropout multiplies
    "ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "ExpandBackward0", "CloneBackward0",
    "ToCopyBackward0", "AliasBackward0", "NativeDropoutBackward0", "MulBackward0",
}  # fmt: skip


@sees(OTHER_AXIS)
def other_axis(loss: SeenLoss) -> int:
    """Return the number of places under a softmax before a product that sums over the other axis; 0 without one.

    Weights that are divided once more between the two (competing slots), or turned, are left alone.
    """
    for product in attention_nodes(loss.end, kinds=frozenset(_PRODUCTS)):
        for (node, _), name, summed in zip(product.next_functions, _PRODUCTS[product.name()], _SUMMED, strict=False):
            found = _places(node, product, name, summed)
            if found:
                return found
    return 0


def _places(node: Any, product: Any, name: str, summed: int) -> int:
    for _ in range(_LONGEST_WALK):
        inputs = [following for following, _ in node.next_functions if following is not None] if node else []
        if len(inputs) != 1 or node.name() not in _IN_PLACE:
            break
        node = inputs[0]
    if node is None or node.name() not in _SOFTMAX:
        return 0
    weights, matrix = kept(node, "result"), kept(product, name)
    if weights is None or matrix is None or weights.dim() < 2 or weights.shape[-2:] != matrix.shape[-2:]:
        return 0
    axis = node._saved_dim
    axis = axis - (1 << 64) if axis >= 1 << 63 else axis  # torch keeps a negative number as an unsigned one
    is_summed = axis % weights.dim() == weights.dim() + summed
    return 0 if is_summed or weights.shape[summed] < 2 else int(weights.shape[axis])
