"""Views on the way to a loss that move an axis without a transposition: (rows, channels, steps) as (rows, steps, ...).

A view keeps the order of the numbers. It may cut an axis up or put neighbours together; an axis that keeps its length
beside others that do not keep their places was to be turned. No value is read, and views of parameters are left alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from trackside.contracts.observations import MOVED_AXIS
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.detectors.joined_samples import joined_samples
from trackside.frameworks.pytorch.losses.targets import shape_of
from trackside.frameworks.shared.detectors import sees

_MOST_NODES = 4000  # of the graph, nearest to the loss
_SHORTEST = 3  # places along an axis: shorter ones are alike by chance
_LONGEST_WALK = 8
_VIEWS = {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0"}
_PADDED = {"ConstantPadNdBackward0", "CatBackward0"}  # a view after them shifts each row by one place, on purpose
_PARAMETER = "AccumulateGrad"
_CONVOLUTIONS = {"ConvolutionBackward0", "MkldnnConvolutionBackward0", "CudnnConvolutionBackward0"}
_OF_EACH = {  # what keeps the axes of a convolution's output
    "ReluBackward0", "GeluBackward0", "SiluBackward0", "LeakyReluBackward0", "EluBackward0", "TanhBackward0",
    "SigmoidBackward0", "NativeBatchNormBackward0", "CudnnBatchNormBackward0", "NativeGroupNormBackward0",
    "MaxPool2DWithIndicesBackward0", "AvgPool2DBackward0", "AdaptiveAvgPool2DBackward0", "NativeDropoutBackward0",
    "MulBackward0", "AddBackward0", "SqueezeBackward1", "HardtanhBackward0",
}  # fmt: skip


@sees(MOVED_AXIS)
def moved_axis(loss: SeenLoss) -> int:
    """Return the number of places along an axis that a view moves; 0 without one, or where samples are joined."""
    found = next((places for node, users in _views(loss.end) if (places := _moved_by(node, users))), 0)
    return 0 if found and joined_samples(loss) else found


def _views(end: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield the views of a graph, each with the names of the nodes that use it."""
    users: dict[Any, list[str]] = {end: []}
    order = [end]
    for node in order:
        for following, _ in getattr(node, "next_functions", ()):
            if following is None:
                continue
            if following not in users:
                if len(order) >= _MOST_NODES:
                    continue
                users[following] = []
                order.append(following)
            users[following].append(type(node).__name__)
    return ((node, users[node]) for node in order if type(node).__name__ in _VIEWS)


def _moved_by(node: Any, users: Sequence[str]) -> int:
    before = getattr(node, "_saved_self_sym_sizes", ())
    if not all(type(size) is int for size in before):
        return 0
    made_by = node.next_functions[0][0]
    if made_by is None or type(made_by).__name__ in {*_PADDED, _PARAMETER}:
        return 0
    places, is_certain = moved(before, shape_of(node, 0))
    if places and not is_certain:  # the same lengths may come about by a cut of one axis, and a joint of others
        is_of_channels = len(before) > 2 and _is_of_convolution(made_by)
        is_certain = is_of_channels or "LogSoftmaxBackward0" in users
    return places if is_certain else 0


def moved(before: Sequence[int], after: Sequence[int]) -> tuple[int, bool]:
    """Return the number of places along an axis that a view moves, and True if its shapes leave no other reading.

    Args:
        before: The shape of what is viewed.
        after: The shape of the view.
    """
    old, new = ([size for size in shape if size != 1] for shape in (before, after))
    if min(len(old), len(new)) < 2 or math.prod(old) != math.prod(new) or 0 in old:
        return 0, False
    before_strides, after_strides = _strides(old), _strides(new)
    cuts, new_cuts = set(before_strides), set(after_strides)
    if cuts <= new_cuts or new_cuts <= cuts:  # axes were cut up only, or only joined
        return 0, False
    kept = set(zip(new, after_strides, strict=True))
    found = [
        size
        for size, stride in zip(old, before_strides, strict=True)
        if size >= _SHORTEST and size in new and (size, stride) not in kept
    ]
    shared = next((place for place, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), 0)
    inner, inner_new = old[shared:], new[shared:]
    if not found or (sorted(old) == sorted(new) and _is_by_one(inner)):
        return 0, False
    ordered = sorted(cuts | new_cuts)
    has_no_cut = any(large % small for small, large in itertools.pairwise(ordered))
    return max(found), has_no_cut or _is_of_heads(inner, inner_new) or (shared > 0 and _is_of_heads(inner_new, inner))


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[place + 1 :]) for place in range(len(shape))]


def _is_by_one(inner: Sequence[int]) -> bool:
    """Return True for places and one more: such a view shifts rows against one another."""
    return len(inner) > 1 and abs(inner[0] - inner[1]) == 1


def _is_of_heads(before: Sequence[int], after: Sequence[int]) -> bool:
    """Return True for (places, width) as (heads, places, width of a head)."""
    return len(before) == 2 and len(after) == 3 and after[1] == before[0] and after[0] * after[2] == before[1]


def _is_of_convolution(node: Any) -> bool:
    for _ in range(_LONGEST_WALK):
        if type(node).__name__ in _CONVOLUTIONS:
            return True
        inputs = [following for following, _ in getattr(node, "next_functions", ()) if following is not None]
        if not inputs or type(node).__name__ not in _OF_EACH:
            return False
        node = inputs[0]
    return False
