"""Targets that do not fit their predictions: met by several of them, or beyond the reach of the model's last function.

Reads what the graph keeps of the targets, once a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from trackside.frameworks.pytorch.losses.attention import kept

_LONGEST_WALK = 16
_LINEAR = {"AddmmBackward0", "MmBackward0"}
_SUMS = {"AddBackward0", "SubBackward0"}
_PAIRS = -1
LAYERS = _LINEAR | {
    "BmmBackward0", "BaddbmmBackward0", "LinearBackward0", "MvBackward0", "ConvolutionBackward0",
    "MkldnnConvolutionBackward0", "CudnnConvolutionBackward0",
}  # fmt: skip
WHOLE = {
    "ViewBackward0",
    "UnsafeViewBackward0",
    "ToCopyBackward0",
    "AliasBackward0",
}  # what keeps all rows as they are
_ROWS = 64  # that stand for a batch
_ROUNDING = 1e-3
_SLACK = 0.01  # beyond the end of a range
_MOST_TARGETS = 1 << 16
_ENDLESS = (-math.inf, math.inf)

# Scores on both sides of zero: above it for yes, below it for no.
_OF_SCORES = {"CrossEntropyLoss", "BCEWithLogitsLoss"}
_OF_VALUES = {"MSELoss", "HuberLoss", "SmoothL1Loss"}


def targets_of_each(node: Any) -> int:
    """Return the number of targets that each prediction met by broadcasting; 0 if each met its own alone.

    n if n predictions met n targets as n times n (a column less a row), k if a score for each of k classes met the
    number of the class.

    Args:
        node: The last node of the loss.
    """
    terms, met = [node], [0]
    while terms and len(met) <= _LONGEST_WALK:
        of_term, further = _met_by_term(terms.pop())
        met.append(of_term)
        terms += further
    return 0 if _PAIRS in met else max(met)


def _met_by_term(node: Any) -> tuple[int, list[Any]]:
    """Return the number of targets that each prediction of one term met, and the terms that are added up in it.

    `_PAIRS` for all pairs of two results, as of an energy distance: there pairs with the targets are meant, too.
    """
    for _ in range(_LONGEST_WALK):
        if classes := _met_class_numbers(node):
            return classes, []
        following = [pair for pair in getattr(node, "next_functions", ()) if pair[0] is not None]
        if len(following) > 1 and type(node).__name__ in _SUMS and not shape_of(node, 0):
            return 0, [term for term, _ in following]
        wide = shape_of(node, 0)
        is_of_pairs = len(wide) == 2 and wide[0] == wide[1] > 1
        narrow = [shape_of(*pair) for pair in following if is_of_pairs]
        if len(narrow) == 2 and {(wide[0], 1), (1, wide[0])} == set(narrow):
            return _PAIRS, []
        if len(following) != 1 or type(node).__name__ in LAYERS:
            break
        if is_of_pairs and narrow[0] in {wide[:1], (wide[0], 1)}:
            return wide[0], []
        node = following[0][0]
    return 0, []


def share_beyond_reach(loss_name: str, loss: Any, function: Any) -> float:
    """Return the share of the targets that the function of the predictions cannot reach; 0 where that is unknown.

    1 for scores of classes that can never be negative.

    Args:
        loss_name: The name of the loss in torch.nn.
        loss: The node of the loss function.
        function: The node of the function that made the predictions.

    Raises:
        RuntimeError: The script has written over values that the graph keeps.
    """
    low, high = _range_of(function)
    if loss_name in _OF_SCORES:
        is_of_yes_alone = low >= 0 and (high == math.inf or loss_name == "BCEWithLogitsLoss")
        return float(is_of_yes_alone)
    if loss_name not in _OF_VALUES or (low, high) == _ENDLESS:
        return 0.0
    targets = kept(loss, "target" if loss.next_functions[0][0] is not None else "self")
    return 0.0 if targets is None else _share_outside(targets, low, high)


def share_beyond_reach_by_hand(end: Any) -> float:
    """Return that share for an absolute or squared difference by hand, or for an L1 loss; 0 where it is unknown.

    The graph keeps the difference and what the last function put out, and so the targets.

    Args:
        end: The last node of the loss.

    Raises:
        RuntimeError: The script has written over values that the graph keeps.
    """
    node = end
    for _ in range(_LONGEST_WALK):
        if (found := _less_targets(node)) is not None:
            difference, function, is_first = found
            output = _output_of_function(function)
            if output is None or output.shape != difference.shape:
                return 0.0
            return _share_outside(output - difference if is_first else output + difference, *_range_of(function))
        following = [pair[0] for pair in getattr(node, "next_functions", ()) if pair[0] is not None]
        if len(following) != 1 or type(node).__name__ in LAYERS:
            return 0.0
        node = following[0]
    return 0.0


def _share_outside(targets: torch.Tensor, low: float, high: float) -> float:
    some = targets.detach().reshape(-1)[:_MOST_TARGETS].float()
    slack = _SLACK * (high - low if math.isfinite(high - low) else 1.0)
    return float(((some < low - slack) | (some > high + slack)).float().mean()) if some.numel() else 0.0


def shape_of(node: Any, output: int) -> tuple[int, ...]:
    """Return the shape of an output of a node; () if it is unknown."""
    metadata = getattr(node, "_input_metadata", None)  # what it gets in the backward pass has the shape of its output
    if metadata is None or output >= len(metadata):
        return ()
    return tuple(size for size in metadata[output].shape if isinstance(size, int))


def _clamped(node: Any) -> tuple[float, float]:
    low, high = getattr(node, "_saved_min", None), getattr(node, "_saved_max", None)
    return -math.inf if low is None else float(low), math.inf if high is None else float(high)


_RANGES: Mapping[str, Callable[[Any], tuple[float, float]]] = {
    "ReluBackward0": lambda _: (0.0, math.inf),
    "SoftplusBackward0": lambda _: (0.0, math.inf),
    "ExpBackward0": lambda _: (0.0, math.inf),
    "SigmoidBackward0": lambda _: (0.0, 1.0),
    "SoftmaxBackward0": lambda _: (0.0, 1.0),
    "TanhBackward0": lambda _: (-1.0, 1.0),
    "ClampMinBackward0": _clamped,
    "ClampBackward1": _clamped,
    "HardtanhBackward0": lambda node: (float(node._saved_min_val), float(node._saved_max_val)),
}


def _range_of(node: Any) -> tuple[float, float]:
    """Return the ends of the values that a function can put out."""
    found = _RANGES.get(type(node).__name__)
    return found(node) if found else _ENDLESS


def _met_class_numbers(node: Any) -> int:
    """Return k if each row of k predictions met the same target, else 0.

    The targets are whole numbers from 0 to below k.
    """
    try:
        targets = kept(node, "target")
        if targets is None:
            targets = _subtracted(node)
    except RuntimeError:  # the script has written over what the graph keeps
        return 0
    if not isinstance(targets, torch.Tensor) or targets.layout is not torch.strided or targets.dim() != 2:
        return 0
    if not targets.is_floating_point() or targets.shape[1] <= 2 or not targets.any():
        return 0
    numbers = targets.detach()[:, :1]
    is_one = (targets == numbers).all(1, keepdim=True)
    are_classes = (is_one & (numbers >= 0) & (numbers < targets.shape[1]) & (numbers == numbers.round())).all()
    return int(targets.shape[1]) if are_classes else 0


def _less_targets(node: Any) -> tuple[torch.Tensor, Any, bool] | None:
    """Return a difference that is squared or of which the size is taken, if one side of it is no part of the graph.

    With it the node of the other side, and True if that is the first; None for any other node.
    """
    kind = type(node).__name__
    if kind != "AbsBackward0" and not (kind == "PowBackward0" and node._saved_exponent == 2):
        return None
    before = node.next_functions[0][0]
    inputs: Any = getattr(before, "next_functions", ())
    if type(before).__name__ != "SubBackward0" or sum(found is not None for found, _ in inputs) != 1:
        return None
    is_first = inputs[0][0] is not None
    difference = kept(node, "self")
    return None if difference is None else (difference.detach(), inputs[0 if is_first else 1][0], is_first)


def _subtracted(node: Any) -> torch.Tensor | None:
    """Return what a squared or absolute difference by hand takes off the output of a linear layer, rounded.

    The graph keeps the difference, and the layer's input and weights, so that the layer's output can be had again.
    None for anything else, and for what is nowhere near whole numbers.
    """
    found = _less_targets(node)
    output = None if found is None else _output_of(found[1])
    if found is None or output is None:
        return None
    difference, _, is_first = found
    difference = difference[:_ROWS]
    if output.shape != difference.shape or not output.is_floating_point():
        return None
    targets = output.double() - difference.double() if is_first else output.double() + difference.double()
    whole = targets.round()
    return whole if bool(((targets - whole).abs() <= _ROUNDING).all()) else None


def _output_of_function(node: Any) -> torch.Tensor | None:
    """Return what an activation put out, as the graph keeps it or has it again; None for anything else."""
    kind = type(node).__name__
    if kind in {"ClampBackward1", "ClampMinBackward0"}:
        low, high = _clamped(node)
        before = kept(node, "self")
        return None if before is None else before.detach().clamp(low, high)
    found = kept(node, "result") if kind in _RANGES else None
    return None if found is None else found.detach()


def _output_of(node: Any) -> torch.Tensor | None:
    """Return the first rows of the output of a linear layer, computed again; None for anything else."""
    added = None
    for _ in range(_LONGEST_WALK):
        kind = type(node).__name__
        if kind == "AddBackward0" and added is None:  # the bias of a layer with inputs of more dimensions
            added = _parameter(node.next_functions[1][0])
            if added is None or added.dim() != 1:
                return None
        elif kind not in WHOLE:
            break
        node = node.next_functions[0][0]
    product = _product(node)
    return product if product is None or added is None else product + added.detach()


def _product(node: Any) -> torch.Tensor | None:
    """Return the first rows of a product of matrices, and of the bias that was added with it; None if it is none."""
    kind = type(node).__name__
    if kind not in _LINEAR:
        return None
    inputs, weight = kept(node, "mat1" if kind == "AddmmBackward0" else "self"), kept(node, "mat2")
    parameters = [_parameter(found) for found, _ in node.next_functions]
    if weight is None and parameters[-1] is not None:  # kept only if the layer's input has a gradient
        weight = parameters[-1]
    bias = parameters[0] if kind == "AddmmBackward0" else None
    if inputs is None or weight is None or (kind == "AddmmBackward0" and bias is None):
        return None
    with torch.no_grad():
        found: torch.Tensor = inputs.detach()[:_ROWS] @ weight.detach()
        return found if bias is None else found + bias.detach()


def _parameter(node: Any) -> torch.Tensor | None:
    """Return the parameter that a node leads to, transposed if the node does that."""
    if type(node).__name__ == "TBackward0":
        found = _parameter(node.next_functions[0][0])
        return None if found is None else found.t()
    found = getattr(node, "variable", None)
    return found if isinstance(found, torch.Tensor) else None
