"""Description of a scalar that `backward` is called on: its loss function, its inputs, and the factors of its value."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from trackside.capture.steps.loss_parts import Part
from trackside.frameworks.pytorch.ground.memory import has_memory

UNNAMED = "loss"  # a loss by hand, or a sum of several

# What the losses of torch.nn.functional leave in the graph, and the module that computes the same.
_LOSS_OF_NODE: Mapping[str, str] = {
    "NllLossBackward0": "NLLLoss",
    "NllLoss2DBackward0": "NLLLoss",
    "MseLossBackward0": "MSELoss",
    "BinaryCrossEntropyBackward0": "BCELoss",
    "BinaryCrossEntropyWithLogitsBackward0": "BCEWithLogitsLoss",
    "HuberLossBackward0": "HuberLoss",
    "SmoothL1LossBackward0": "SmoothL1Loss",
    "SoftMarginLossBackward0": "SoftMarginLoss",
    "MultiMarginLossBackward0": "MultiMarginLoss",
    "MultilabelMarginLossBackward0": "MultiLabelMarginLoss",
    "CtcLossBackward0": "CTCLoss",
}
# By their functions, under the names that their graphs lead to: without a graph, in validation, a loss must have the
# name that it has in training. The others of torch.nn.functional leave nothing in the graph that identifies them.
LOSS_OF_FUNCTION: Mapping[str, str] = {
    "cross_entropy": "CrossEntropyLoss",
    "nll_loss": "NLLLoss",
    "mse_loss": "MSELoss",
    "l1_loss": "L1Loss",
    "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
    "huber_loss": "HuberLoss",
    "smooth_l1_loss": "SmoothL1Loss",
    "soft_margin_loss": "SoftMarginLoss",
    "multi_margin_loss": "MultiMarginLoss",
    "multilabel_margin_loss": "MultiLabelMarginLoss",
    "ctc_loss": "CTCLoss",
    "kl_div": UNNAMED,
    "poisson_nll_loss": UNNAMED,
    "gaussian_nll_loss": UNNAMED,
    "cosine_embedding_loss": UNNAMED,
    "hinge_embedding_loss": UNNAMED,
    "margin_ranking_loss": UNNAMED,
    "multilabel_soft_margin_loss": UNNAMED,
    "triplet_margin_loss": UNNAMED,
    "triplet_margin_with_distance_loss": UNNAMED,
}
_OF_CLASSES = {"CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"}
_OF_NUMBERS = {"MSELoss", "L1Loss", "BCELoss", "BCEWithLogitsLoss", "HuberLoss", "SmoothL1Loss", "SoftMarginLoss"}
NAMED_LOSSES = frozenset(LOSS_OF_FUNCTION.values()) - {UNNAMED}

# What a script has registered with an explicit hook, and its name there.
_REGISTERED: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()

_SCALING = {"MulBackward0", "DivBackward0"}
_VALUE_KEEPING = {"ToCopyBackward0", "CloneBackward0", "AliasBackward0", "ViewBackward0", "SqueezeBackward0"}
# What mean and sum over the elements of a loss that was not reduced, or of one by hand, pass through.
_LINEAR = {
    "MeanBackward0", "SumBackward0", "SumBackward1", "NegBackward0", "MulBackward0", "MulBackward1", "DivBackward0",
    "DivBackward1", "MaskedFillBackward0", "SqueezeBackward1",
}  # fmt: skip
_LONGEST_WALK = 16
_SMALLEST_AMP_SCALE = 16.0
_REDUCED_BY_SUM = 2  # torch's enum of reductions: none, mean, sum


class LateScale(NamedTuple):
    """A scale with factors on a device, as AMP's on a GPU: reading them makes training wait.

    - `factors`: those factors, of one element each, as the script left them: it may write over them after this step
    - `constant`: the product of all others
    - `is_amp_only`: the one factor is undone only if it is AMP's
    """

    factors: tuple[torch.Tensor, ...]
    are_divisors: tuple[bool, ...]
    constant: float = 1.0
    is_amp_only: bool = False

    def of(self, numbers: Sequence[float]) -> float:
        """Return the scale, from the numbers of `factors`; 1 if they cannot be undone."""
        if self.is_amp_only:
            return _amp_scale(numbers[0])
        scale = self.constant
        for number, is_divisor in zip(numbers, self.are_divisors, strict=True):
            if not _can_be_undone(number):
                return 1.0
            scale = scale / number if is_divisor else scale * number
        return scale

    def read(self) -> float:
        """Return the scale. Waits for the device."""
        return self.of([float(factor) for factor in self.factors])


class LossDescription(NamedTuple):
    """The description of a loss.

    - `name`: its name in the words of torch.nn
    - `scale`: the number that its true value was multiplied by
    - `node`: the node of the graph that holds the inputs of the loss, if one does
    - `part`: whether a constant divides it, and what becomes of several such of one optimizer step
    """

    name: str
    scale: float | LateScale
    node: Any = None
    part: Part = Part.NONE

    def read_scale(self) -> float:
        """Return `scale` as a number. Waits for a device that holds it: do not call it on a step that saves nothing."""
        return self.scale.read() if isinstance(self.scale, LateScale) else self.scale


class _Factor(NamedTuple):
    """A constant that a loss was multiplied or divided by."""

    value: float | torch.Tensor  # a tensor: it lies on a device
    is_divisor: bool


_NO_FACTOR = _Factor(1.0, is_divisor=False)


def describe_loss(node: Any) -> LossDescription:
    """Return the loss function that a scalar came from, by a walk back from its graph node. Never waits for a device.

    Behind an unknown function a factor may be part of the loss (a mean by hand), so only AMP's is undone behind it: a
    last multiplication by a power of two. The same holds behind a loss function that sums: its divisor makes the mean.
    """
    kind = type(node).__name__
    if name := name_of_bare_loss(node):  # nearly every step of nearly every training
        return LossDescription(name, 1.0, node)
    factors: list[_Factor] = []
    outermost = _NO_FACTOR
    for depth in range(_LONGEST_WALK):
        kind = type(node).__name__
        found = _recognised(kind, node)
        if found is not None:
            is_sum = kind == "SumBackward0" or getattr(found.node, "_saved_reduction", None) == _REDUCED_BY_SUM
            if is_sum:
                part = Part.SUMMED if _divides(factors, outermost) else Part.NONE
                return found._replace(scale=_scale_by_amp(outermost), part=part)
            return found._replace(
                scale=_scale(factors), part=Part.AVERAGED if _divides(factors, outermost) else Part.NONE
            )
        inputs = _inputs(node)
        if len(inputs) != 1 or kind not in _SCALING | _VALUE_KEEPING:
            break
        if kind in _SCALING:
            factor = constant_factor(kind, node)
            if factor is None:
                break
            factors.append(factor)
            outermost = factor if depth == 0 and kind == "MulBackward0" else outermost
        node = inputs[0]
    part = Part.SUMMED if _divides(factors, outermost) else Part.NONE
    return LossDescription(UNNAMED, _scale_by_amp(outermost), part=part)


def constant_of(scale: float | LateScale) -> float:
    """Return the factors of a scale that are known without waiting for a device."""
    return scale.constant if isinstance(scale, LateScale) else scale


def _divides(factors: Sequence[_Factor], outermost: _Factor) -> bool:
    """Return True if constants beside AMP's make the loss smaller. One on a device is asked for its kind alone."""
    constant = 1.0
    for factor in factors:
        if isinstance(factor.value, torch.Tensor):
            if factor.is_divisor:
                return True
        elif not (factor is outermost and _amp_scale(factor.value) != 1.0):
            constant = constant / factor.value if factor.is_divisor else constant * factor.value
    return abs(constant) < 1.0


def name_of_bare_loss(node: Any) -> str:
    """Return the name of a loss function of PyTorch that ends in this node, without any factor; else ""."""
    kind = type(node).__name__
    name = _LOSS_OF_NODE.get(kind, "")
    if name == "NLLLoss" and type(node.next_functions[0][0]).__name__ == "LogSoftmaxBackward0":
        return "CrossEntropyLoss"
    return name


def _scale(factors: Sequence[_Factor]) -> float | LateScale:
    constant = 1.0
    late: list[torch.Tensor] = []
    are_divisors: list[bool] = []
    for value, is_divisor in factors:
        if isinstance(value, torch.Tensor):
            late.append(value)
            are_divisors.append(is_divisor)
        else:
            constant = constant / value if is_divisor else constant * value
    return LateScale(tuple(late), tuple(are_divisors), constant) if late else constant


def _scale_by_amp(outermost: _Factor) -> float | LateScale:
    value = outermost.value
    if isinstance(value, torch.Tensor):
        return LateScale((value,), (False,), is_amp_only=True)
    return _amp_scale(value)


def _amp_scale(outermost: float) -> float:
    is_amp = outermost >= _SMALLEST_AMP_SCALE and np.frexp(outermost)[0] == 0.5
    return outermost if is_amp else 1.0


def _can_be_undone(factor: float) -> bool:
    return factor != 0 and bool(np.isfinite(factor))


def _inputs(node: Any) -> list[Any]:
    return [following for following, _ in getattr(node, "next_functions", ()) if following is not None]


def _recognised(kind: str, node: Any) -> LossDescription | None:
    """Return the loss function that ends in this node, if one does."""
    if name := name_of_bare_loss(node):
        return LossDescription(name, 1.0, node)
    if kind in {"MeanBackward0", "SumBackward0"}:
        return _reduced_afterwards(_inputs(node))
    if kind == "AddBackward0":
        return _with_smoothed_labels(_inputs(node))
    if kind == "DivBackward1":  # the mean over the batch that cross entropy of probabilities takes
        softmax = _end_of_line(node)
        return LossDescription("CrossEntropyLoss", 1.0, softmax) if _is_log_softmax(softmax) else None
    return None


def _reduced_afterwards(inputs: list[Any]) -> LossDescription | None:
    """Return the loss with `reduction="none"` and a mean after it.

    A mean of absolute values is the graph of the L1 loss.
    """
    if len(inputs) != 1:
        return None
    kind = type(inputs[0]).__name__
    if kind == "AbsBackward0" and [type(n).__name__ for n in _inputs(inputs[0])] == ["SubBackward0"]:
        return LossDescription("L1Loss", 1.0)
    if kind == "DivBackward0" and [type(n).__name__ for n in _inputs(inputs[0])] == ["CtcLossBackward0"]:
        return LossDescription("CTCLoss", 1.0)
    if name := name_of_bare_loss(inputs[0]):
        return LossDescription(name, 1.0, inputs[0])
    return None


def _with_smoothed_labels(inputs: list[Any]) -> LossDescription | None:
    """Return cross entropy with `label_smoothing`: two terms of one softmax."""
    ends = [_end_of_line(term) for term in inputs]
    if len(ends) != 2 or not all(type(term).__name__ == "MulBackward1" for term in inputs):
        return None
    likelihood, softmax = ends
    if _LOSS_OF_NODE.get(type(likelihood).__name__) != "NLLLoss" or not _is_log_softmax(softmax):
        return None
    same = [type(n).__name__ for n in _inputs(likelihood)] == ["LogSoftmaxBackward0"]
    return LossDescription("CrossEntropyLoss", 1.0, likelihood) if same else None


def _end_of_line(node: Any) -> Any:
    for _ in range(_LONGEST_WALK):
        inputs = _inputs(node)
        if type(node).__name__ not in _LINEAR or len(inputs) != 1:
            return node
        node = inputs[0]
    return node


def _is_log_softmax(node: Any) -> bool:
    return type(node).__name__ == "LogSoftmaxBackward0"


def constant_factor(kind: str, node: Any) -> _Factor | None:
    """Return the constant that a node multiplies or divides its only graph input by; None if it cannot be undone."""
    is_first = node.next_functions[0][0] is not None
    if kind == "DivBackward0" and not is_first:
        return None  # constant / loss
    constant = node._saved_other if is_first else node._saved_self
    if not isinstance(constant, torch.Tensor) or constant.numel() != 1:
        return None
    constant, is_divisor = constant.detach(), kind == "DivBackward0"
    if not constant.is_cpu:
        return _Factor(constant, is_divisor)
    if not has_memory(constant):
        return None
    factor = float(constant)
    return _Factor(factor, is_divisor) if _can_be_undone(factor) else None


@functools.lru_cache(maxsize=1024)
def _is_named_like_a_loss(class_name: str) -> bool:
    return "loss" in class_name.lower() or "criterion" in class_name.lower()


def register_loss(module: torch.nn.Module) -> None:
    """Register a module of any class as a loss with the name of its class."""
    _REGISTERED[module] = type(module).__name__


def is_loss_like(module: torch.nn.Module) -> bool:
    """Return True for the loss modules of torch.nn, for classes with the name of one, and for registered ones."""
    if _REGISTERED and module in _REGISTERED:
        return True
    return _is_named_like_a_loss(type(module).__name__) or isinstance(module, torch.nn.modules.loss._Loss)


def name_of_loss_module(module: torch.nn.Module) -> str:
    """Return the name of the loss of this module: torch's own class that computes it, else `loss`."""
    if _REGISTERED and module in _REGISTERED:
        return _REGISTERED[module]
    for kind in type(module).__mro__:
        if kind.__module__ == "torch.nn.modules.loss":
            does_the_work = type(module).__dict__.get("forward") in {None, kind.__dict__.get("forward")}
            return kind.__name__ if kind.__name__ in NAMED_LOSSES and does_the_work else UNNAMED
    return UNNAMED


class LossInputs(NamedTuple):
    """The inputs of a loss. In the graph of cross entropy the predictions are log-probabilities, not logits."""

    predictions: torch.Tensor
    labels: torch.Tensor
    ignored_label: int | None = None


def inputs_in_graph(node: Any) -> LossInputs | None:
    """Return the inputs that the node of a loss function keeps for its backward pass; None if it keeps none.

    Errors: `RuntimeError` if the script has written over them.
    """
    predictions = getattr(node, "_saved_self", None)
    labels = getattr(node, "_saved_target", None)
    if not isinstance(predictions, torch.Tensor) or not isinstance(labels, torch.Tensor):
        return None
    if not has_memory(predictions) or not has_memory(labels):
        return None
    return LossInputs(predictions.detach(), labels.detach(), _label_or_none(getattr(node, "_saved_ignore_index", None)))


def inputs_of_call(args: Any, kwargs: Any, *, ignored_label: Any = None) -> LossInputs | None:
    """Return the inputs of a call of a loss module or function: `(input, target)`, by position or keyword."""
    tensors = [*args[:2], *(kwargs[name] for name in ("input", "target")[len(args) :] if name in kwargs)]
    if len(tensors) < 2 or not all(isinstance(value, torch.Tensor) and has_memory(value) for value in tensors):
        return None
    ignored = kwargs.get("ignore_index", ignored_label)
    return LossInputs(tensors[0].detach(), tensors[1].detach(), _label_or_none(ignored))


def term_count(loss_name: str, inputs: LossInputs) -> int:
    """Return the number of terms that a loss takes the mean of; 1 if that is unknown. Labels on a device all count.

    Args:
        loss_name: The name of the loss in torch.nn.
        inputs: Its inputs.
    """
    predictions, labels = inputs.predictions, inputs.labels
    if loss_name in _OF_NUMBERS:
        return max(1, predictions.numel())
    if loss_name not in _OF_CLASSES:
        return 1
    if labels.is_floating_point():  # probabilities of the classes
        return max(1, labels.numel() // labels.shape[-1 if labels.dim() == 1 else 1])
    if labels.is_cpu and has_memory(labels) and inputs.ignored_label is not None:
        return max(1, int(labels.ne(inputs.ignored_label).sum()))
    return max(1, labels.numel())


def is_sum(loss: LossDescription) -> bool:
    """Return True for a sum over the batch that nothing divides.

    Args:
        loss: The description of a loss.
    """
    return loss.part is Part.NONE and getattr(loss.node, "_saved_reduction", None) == _REDUCED_BY_SUM


def _label_or_none(value: Any) -> int | None:
    if not isinstance(value, int):
        return None
    return value - 2**64 if value >= 2**63 else value  # a node keeps -100 without its sign


class Accuracy(NamedTuple):
    """The number of right answers, and of all answers: tensors of one element if they lie on a device."""

    right: int | torch.Tensor
    of: int | torch.Tensor


_OF_CLASSES = {"CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"}
_BINARY = {"BCELoss": 0.5, "BCEWithLogitsLoss": 0.0}


def accuracy(loss_name: str, inputs: LossInputs) -> Accuracy | None:
    """Return the number of right predictions, if the inputs of the loss show it; None if they do not.

    Classes: scores (N, C, ...) or (C,) and integer labels (N, ...) or (). Binary: probabilities or logits, and labels
    of 0 and 1 in the same shape; 0.5 counts as 1. Training waits for a device only to see if the labels are 0 and 1.
    """
    predictions, labels = inputs.predictions.detach(), inputs.labels.detach()
    if loss_name in _OF_CLASSES and not labels.is_floating_point():
        dimension = 0 if predictions.dim() == 1 else 1
        expected = predictions.shape[:dimension] + predictions.shape[dimension + 1 :]
        if predictions.dim() == 0 or labels.shape != expected:
            return None
        counted = torch.ones_like(labels, dtype=torch.bool)
        if inputs.ignored_label is not None:
            counted = labels != inputs.ignored_label
        right = (predictions.argmax(dimension) == labels) & counted
    elif loss_name in _BINARY and predictions.shape == labels.shape:
        if not ((labels == 0) | (labels == 1)).all():
            return None
        right = (predictions >= _BINARY[loss_name]) == (labels == 1)
        counted = torch.ones_like(right)
    else:
        return None
    if not labels.is_cpu:
        return Accuracy(right.sum(), counted.sum())
    total = int(counted.sum())
    return Accuracy(int(right.sum()), total) if total else None
