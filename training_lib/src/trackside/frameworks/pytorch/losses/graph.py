"""Facts in the graph of a loss: its reduction, the functions that made its predictions, and what detectors see.

Unpacks no tensor except the weights of classes, which are no part of the graph; detectors unpack some, once a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from trackside.contracts.model_facts import LossFacts
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.description import UNNAMED, LossDescription, constant_factor, describe_loss
from trackside.frameworks.pytorch.losses.detector import SeenLoss, observed
from trackside.frameworks.pytorch.losses.targets import shape_of

MOST_NODES = 300  # that are looked at for half precision
MOST_ADDENDS = 16
_LONGEST_WALK = 16
_SUMS = {"AddBackward0", "SubBackward0"}
_REDUCTIONS = ("none", "mean", "sum")
_OF_CLASSES = {"CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"}

_FUNCTION_OF_NODE: Mapping[str, str] = {
    "SoftmaxBackward0": "softmax", "LogSoftmaxBackward0": "log_softmax", "SigmoidBackward0": "sigmoid",
    "LogSigmoidBackward0": "sigmoid", "TanhBackward0": "tanh", "HardtanhBackward0": "tanh", "ReluBackward0": "relu",
    "ClampMinBackward0": "relu", "LeakyReluBackward0": "leaky_relu", "EluBackward0": "leaky_relu",
    "GeluBackward0": "gelu", "SiluBackward0": "silu", "AddmmBackward0": "linear", "MmBackward0": "linear",
    "BmmBackward0": "linear", "BaddbmmBackward0": "linear", "LinearBackward0": "linear", "MvBackward0": "linear",
    "ConvolutionBackward0": "linear", "MkldnnConvolutionBackward0": "linear", "CudnnConvolutionBackward0": "linear",
}  # fmt: skip
_LAYOUT_ONLY = {
    "ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "TransposeBackward0", "TBackward0",
    "PermuteBackward0", "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0", "ToCopyBackward0",
    "CloneBackward0", "AliasBackward0", "SelectBackward0", "SliceBackward0", "ExpandBackward0", "AsStridedBackward0",
    "IndexBackward0", "CatBackward0", "StackBackward0",
}  # fmt: skip
_OF_WEIGHTS = {  # what a node calls the weights that its loss was given
    "NllLossBackward0": ("_saved_weight",),
    "NllLoss2DBackward0": ("_saved_weight",),
    "BinaryCrossEntropyBackward0": ("_saved_weight",),
    "BinaryCrossEntropyWithLogitsBackward0": ("_saved_weight", "_saved_pos_weight"),
}
_HALF = {torch.float16, torch.bfloat16}


def facts_of(end: Any, loss: LossDescription, *, name: str = "") -> LossFacts:
    """Return the facts of a described loss with the graph that ends in `end`. Keep no reference to its graph.

    Args:
        end: The last node.
        loss: Its description.
        name: The name of its tensor.
    """
    scale = loss.scale if isinstance(loss.scale, float) else 1.0
    if loss.name == UNNAMED and type(end).__name__ == "NegBackward0":
        loss, scale = describe_loss(_next(end)[0]), -scale
    type_name = "" if loss.name == UNNAMED else loss.name
    if loss.node is None:
        return LossFacts(name, type_name, scale=scale, observed=observed(SeenLoss(end, loss.name)))
    number = getattr(loss.node, "_saved_reduction", None)
    node, output = _predictions(loss)
    shape = shape_of(node, output)
    is_scored = loss.name == "CrossEntropyLoss"
    source, is_log = _source(node, is_scored=is_scored)
    return LossFacts(
        name,
        type_name,
        _REDUCTIONS[number] if isinstance(number, int) and 0 <= number < len(_REDUCTIONS) else "",
        scale,
        _function(node, is_scored=is_scored),
        shape,
        shape[1 if len(shape) > 1 else 0] if loss.name in _OF_CLASSES and shape else None,
        is_weighted=_is_weighted(end),
        observed=observed(SeenLoss(end, loss.name, loss.node, None if is_log else source)),
    )


def addends(end: Any) -> list[tuple[Any, LossDescription]]:
    """Return the framework's losses that are summed up in a loss, with their last nodes; [] if it is no sum."""
    found: list[tuple[Any, LossDescription]] = []
    waiting, seen = [end], 0
    while waiting and seen < MOST_NODES and len(found) < MOST_ADDENDS:
        node = waiting.pop()
        seen += 1
        if type(node).__name__ in _SUMS:
            waiting += [following for following, _ in reversed(node.next_functions) if following is not None]
        elif node is not end:
            term = _without_weight(node)
            loss = describe_loss(term)
            if loss.name != UNNAMED:
                found.append((term, loss))
    return found


def _without_weight(node: Any) -> Any:
    """Return the node that an addend's weight of zero multiplies: it is phased in later. Without one, the node."""
    if type(node).__name__ != "MulBackward0" or constant_factor("MulBackward0", node) is not None:
        return node
    weight = node._saved_other if node.next_functions[0][0] is not None else node._saved_self
    is_number = isinstance(weight, torch.Tensor) and weight.is_cpu and weight.numel() == 1 and has_memory(weight)
    inputs = [following for following, _ in node.next_functions if following is not None]
    return inputs[0] if is_number and len(inputs) == 1 and not bool(weight) else node


def _next(node: Any, place: int = 0) -> tuple[Any, int]:
    following = getattr(node, "next_functions", ())
    return following[place] if place < len(following) else (None, 0)


def _predictions(loss: LossDescription) -> tuple[Any, int]:
    """Return the node that made the input of the loss, and the number of its output; for cross entropy, log-softmax."""
    if type(loss.node).__name__ == "LogSoftmaxBackward0":
        return loss.node, 0
    found = _next(loss.node)
    return found if found[0] is not None else _next(loss.node, 1)


def _function(node: Any, *, is_scored: bool) -> str:
    """Return the name of the function that made the predictions.

    `is_scored`: the node is cross entropy's own log-softmax, or leads to it.
    """
    node, is_log = _source(node, is_scored=is_scored)
    if node is None:
        return ""
    kind = type(node).__name__
    function = _FUNCTION_OF_NODE.get(kind, "")
    if kind == "ClampBackward1" and node._saved_min == 0 and node._saved_max is None:
        function = "relu"
    if is_log:
        return "log_softmax" if function == "softmax" else "other"
    if function:
        return function
    return "" if kind.startswith("CompiledFunction") else "other"


def _source(node: Any, *, is_scored: bool) -> tuple[Any, bool]:
    """Return the node of the function that made the predictions, and True if a logarithm was taken of what it gave.

    `is_scored`: as in `_function`.
    """
    is_own_softmax = is_scored
    is_log = False
    for _ in range(_LONGEST_WALK):
        kind = type(node).__name__
        if kind in _LAYOUT_ONLY:
            node = _next(node)[0]
        elif is_own_softmax and kind == "LogSoftmaxBackward0":
            is_own_softmax = False
            node = _next(node)[0]
        elif kind == "LogBackward0" and not is_log:
            is_log = True
            node = _next(node)[0]
        else:
            break
    return node, is_log


def _is_weighted(node: Any) -> bool:
    """Return True if the loss has weights of classes or samples."""
    for _ in range(_LONGEST_WALK):
        names = _OF_WEIGHTS.get(type(node).__name__)
        if names is not None:
            return any(getattr(node, name, None) is not None for name in names)
        node = _next(node)[0]
    return False


def half_precision(node: Any) -> torch.dtype | None:
    """Return the half precision of a layer near the loss; None if no such layer used one."""
    waiting = [node]
    seen: set[Any] = set()
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        if _FUNCTION_OF_NODE.get(type(node).__name__) == "linear":
            metadata = getattr(node, "_input_metadata", None)
            if metadata and metadata[0].dtype in _HALF:
                return metadata[0].dtype  # type: ignore[no-any-return] # torch has no types for nodes
        waiting += [following for following, _ in getattr(node, "next_functions", ())]
    return None
