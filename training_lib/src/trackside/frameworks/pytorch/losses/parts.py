"""The losses in the sum of a loss: `mse + 0.1 * cross_entropy` has two, each with its own name and value.

Their values are computed again from the tensors that their graph nodes keep for the backward pass, without gradients,
by the same kernels: so they are exact, and nothing need be watched before. A part is left out if its node keeps too
little (CTC, cross entropy with smoothed labels or of probabilities, a loss composed of plain operations), or if its
weight is trained.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from trackside.frameworks.pytorch.ground.memory import readable
from trackside.frameworks.pytorch.losses.description import UNNAMED, describe_loss

_SUMS = {"AddBackward0", "SubBackward0"}
_PASSED_THROUGH = {
    "MulBackward0", "DivBackward0", "NegBackward0", "ToCopyBackward0", "CloneBackward0", "AliasBackward0",
}  # fmt: skip
_REDUCTIONS = ("none", "mean", "sum")
_SUMS_OF_STACKED = {"SumBackward0", "MeanBackward0"}
_MOST_PARTS, _MOST_NODES, _LONGEST_WALK = 16, 256, 16


class LossPart(NamedTuple):
    """A part of a loss: its name, its value before the weight (a tensor of one element), and its graph node."""

    name: str
    value: torch.Tensor
    node: Any


def parts_of(node: Any) -> list[LossPart]:
    """Return the named parts of the loss that ends in this node, in the order of addition; [] if it is no sum.

    Errors: `RuntimeError` if the script has written over values that a node keeps.
    """
    found: list[LossPart] = []
    for term in _terms(node):
        if len(found) >= _MOST_PARTS:
            break
        part = part_of(term)
        if part is not None:
            found.append(part)
    return found


def terms_of(node: Any, *, most: int) -> list[Any]:
    """Return the nodes of the terms of a summed loss, leftmost first, each without its weight; [] if it is no sum.

    Args:
        node: The last node of the loss.
        most: The number of terms after which it ends.
    """
    return list(itertools.islice(_terms(node), most))


def is_term_among_others(node: Any, end: Any) -> bool:
    """Return True if a number is a term by hand of a sum: not the sum itself, and without a loss function of torch.nn.

    Args:
        node: The last node of the number.
        end: The last node of the loss.
    """
    if any(describe_loss(each).name != UNNAMED for each in (node, *_terms(node))):
        return False
    number, waiting = _unweighted(node), _summands(_unweighted(end))
    for _ in range(_MOST_NODES):  # not `_terms`: the number may be a sum itself
        if not waiting:
            return False
        term = _unweighted(waiting.pop())
        if term is number:
            return True
        waiting += _summands(term)
    return False


def _terms(node: Any) -> Iterator[Any]:
    """Return the nodes that are summed up, leftmost first, each without its weight; none if nothing is."""
    waiting = _summands(_unweighted(node))[::-1]
    for _ in range(_MOST_NODES):
        if not waiting:
            return
        term = _unweighted(waiting.pop())
        summands = _summands(term)
        if summands:
            waiting += summands[::-1]
        else:
            yield term


def _summands(node: Any) -> list[Any]:
    """Return the nodes that a sum of several losses adds up; [] for anything else, also with smoothed labels."""
    inputs = _inputs(node)
    if type(node).__name__ in _SUMS_OF_STACKED and len(inputs) == 1 and type(inputs[0]).__name__ == "StackBackward0":
        return _inputs(inputs[0])
    is_sum = type(node).__name__ in _SUMS and describe_loss(node).name == UNNAMED
    return inputs if is_sum else []


def _unweighted(node: Any) -> Any:
    for _ in range(_LONGEST_WALK):
        inputs = _inputs(node)
        if type(node).__name__ not in _PASSED_THROUGH or len(inputs) != 1:
            return node
        node = inputs[0]
    return node


def _inputs(node: Any) -> list[Any]:
    return [following for following, _ in getattr(node, "next_functions", ()) if following is not None]


def part_of(node: Any) -> LossPart | None:
    """Return the part of a loss that ends in this node of a term; None if it is no loss function, or keeps too little.

    Errors: `RuntimeError` if the script has written over values that a node keeps.
    """
    loss = describe_loss(node)
    if loss.name == UNNAMED:
        return None
    reduce = _REDUCED_AFTERWARDS.get(type(node).__name__)
    source = _inputs(node)[0] if reduce is not None else node
    compute = _VALUE_OF_NODE.get(type(source).__name__)
    if compute is None or loss.node not in {None, source}:
        return None
    with torch.no_grad():
        value = compute(source)
        value = reduce(value) if reduce is not None else value
    return LossPart(loss.name, value, loss.node) if value.numel() == 1 else None


# The values that a node keeps, and the function that computed the loss from them.


def _reduction(node: Any) -> str:
    return _REDUCTIONS[node._saved_reduction]


def _kept(value: Any) -> Any:
    return readable(value) if isinstance(value, torch.Tensor) else value


def _of_pairs(function: Callable[..., torch.Tensor], **names: str) -> Callable[[Any], torch.Tensor]:
    """Return the function of a loss of two tensors. `names` maps its other arguments to the node's names of them."""

    def compute(node: Any) -> torch.Tensor:
        others = {name: _kept(getattr(node, f"_saved_{saved}")) for name, saved in names.items()}
        return function(readable(node._saved_self), readable(node._saved_target), reduction=_reduction(node), **others)

    return compute


def _nll(node: Any) -> torch.Tensor:
    ignored = node._saved_ignore_index
    ignored = ignored - 2**64 if ignored >= 2**63 else ignored  # a node keeps -100 without its sign
    scores, labels, weight = readable(node._saved_self), readable(node._saved_target), _kept(node._saved_weight)
    return functional.nll_loss(scores, labels, weight=weight, ignore_index=ignored, reduction=_reduction(node))


def _absolute(node: Any) -> torch.Tensor:
    return readable(node._saved_self).abs()  # of the difference; their mean is the L1 loss


# A loss of elements that the script reduces by itself, as `((a - b) ** 2).mean()` does.
_REDUCED_AFTERWARDS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "MeanBackward0": torch.mean,
    "SumBackward0": torch.sum,
}
_VALUE_OF_NODE: Mapping[str, Callable[[Any], torch.Tensor]] = {
    "AbsBackward0": _absolute,
    "NllLossBackward0": _nll,
    "NllLoss2DBackward0": _nll,
    "MseLossBackward0": _of_pairs(functional.mse_loss),
    "BinaryCrossEntropyBackward0": _of_pairs(functional.binary_cross_entropy, weight="weight"),
    "BinaryCrossEntropyWithLogitsBackward0": _of_pairs(
        functional.binary_cross_entropy_with_logits, weight="weight", pos_weight="pos_weight"
    ),
    "HuberLossBackward0": _of_pairs(functional.huber_loss, delta="delta"),
    "SmoothL1LossBackward0": _of_pairs(functional.smooth_l1_loss, beta="beta"),
    "SoftMarginLossBackward0": _of_pairs(functional.soft_margin_loss),
}
