"""Targets and advantages of reinforcement learning that get a gradient, where they are to be numbers.

A target is a reward plus a share of what the model itself says of the next state; an advantage is a return less what a
critic says, and weighs the log-probability of an action. Both sides of a difference may well be trained, as those of
two views or of a differential equation. So a target counts only if data is added to a share of one number of a row,
which comes from the same parameters as the other side and from no computation in common with it. No value is read.
"""

from __future__ import annotations

from typing import Any

from trackside.contracts.observations import TRAINED_SIGNAL
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.graph_nodes import nodes_of
from trackside.frameworks.pytorch.losses.targets import shape_of
from trackside.frameworks.shared.detectors import sees

TARGET, ADVANTAGE = "target", "advantage"
_MOST_NODES = 1000  # of the graph; a larger one is not looked at
_MOST_INNER = 500  # of one side
_LONGEST_WALK = 12
_OF_TWO = {"MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0", "SubBackward0"}
_LAYOUT = {
    "ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "SqueezeBackward0", "SqueezeBackward1",
    "UnsqueezeBackward0", "CloneBackward0", "AliasBackward0", "ToCopyBackward0", "ExpandBackward0",
}  # fmt: skip
_CHOSEN = {"GatherBackward0", "IndexBackward0", "SelectBackward0", "MaxBackward0", "AmaxBackward0", "MinBackward0"}
_SUMS = {"AddBackward0", "SubBackward0", "NegBackward0"}
_LAYERS = {"AddmmBackward0", "MmBackward0"}
_CHOICES = {"GatherBackward0", "IndexBackward0", "TakeAlongDimBackward0"}


@sees(TRAINED_SIGNAL)
def trained_signal(loss: SeenLoss) -> str:
    """Return what gets a gradient and is to be a number; "" for nothing."""
    nodes = list(nodes_of(loss.end, _MOST_NODES + 1))
    if len(nodes) > _MOST_NODES:
        return ""
    for node in nodes:
        inputs = [following for following, _ in getattr(node, "next_functions", ())]
        if len(inputs) < 2 or None in inputs[:2]:
            continue
        pairs = (inputs[:2], inputs[1::-1])
        if type(node).__name__ in _OF_TWO and any(_is_own_target(*pair) for pair in pairs):
            return TARGET
        if type(node).__name__ == "MulBackward0" and any(_weighs(*pair) for pair in pairs):
            return ADVANTAGE
    return ""


def _is_own_target(target: Any, prediction: Any) -> bool:
    """Return True if data and a share of what the predictions' own parameters give for other inputs are added up."""
    added = _through(target, _LAYOUT)
    following = _only_input(added) if type(added).__name__ == "AddBackward0" else None
    share = _through(following, _LAYOUT)
    if type(share).__name__ != "MulBackward0" or _only_input(share) is None:
        return False
    value = _through(share, {*_LAYOUT, "MulBackward0"})
    shape = shape_of(value, 0)
    if len(shape) not in {1, 2} or shape[1:] not in {(), (1,)}:
        return False
    layer = _through(value, {*_LAYOUT, *_CHOSEN})
    if type(layer).__name__ not in _LAYERS:
        return False
    of_value, of_prediction = (set(nodes_of(each, _MOST_INNER)) for each in (layer, prediction))
    common = {type(node).__name__ for node in of_value & of_prediction}
    return bool(common) and common <= {"AccumulateGrad", "TBackward0"}


def _weighs(weight: Any, likelihood: Any) -> bool:
    """Return True if data less the output of a layer of one unit weighs a log-probability, or a ratio of two."""
    return _is_likelihood(likelihood) and _is_less_critic(weight)


def _is_likelihood(node: Any) -> bool:
    node = _through(node, {*_LAYOUT, "NegBackward0"})
    if type(node).__name__ in {"ClampBackward0", "ClampBackward1"}:
        node = _through(_only_input(node), _LAYOUT)
    if type(node).__name__ == "ExpBackward0":
        node = _through(_only_input(node), _LAYOUT)
        node = _only_input(node) if type(node).__name__ == "SubBackward0" else None
    node = _through(node, _LAYOUT)
    if type(node).__name__ not in _CHOICES:
        return False
    scores = _through(_only_input(node), _LAYOUT)
    inputs = [following for following, _ in getattr(scores, "next_functions", ())]
    is_less = type(scores).__name__ == "SubBackward0" and len(inputs) > 1
    normaliser = type(_through(inputs[1], _LAYOUT)).__name__ if is_less else ""
    return type(scores).__name__ == "LogSoftmaxBackward0" or normaliser == "LogsumexpBackward0"


def _is_less_critic(weight: Any) -> bool:
    waiting, has_data, walked = [weight], False, 0
    has_critic = False
    while waiting and walked < _LONGEST_WALK:
        node = waiting.pop()
        walked += 1
        kind = type(node).__name__
        inputs = [following for following, _ in getattr(node, "next_functions", ())]
        known = [each for each in inputs if each is not None]
        if kind in _LAYERS:
            has_critic |= shape_of(node, 0)[1:] == (1,)
        elif kind in _SUMS:
            has_data |= kind != "NegBackward0" and len(known) < len(inputs)
            waiting += known
        elif (kind in _LAYOUT or kind in {"MulBackward0", "DivBackward0"}) and len(known) == 1:
            waiting += known
        else:
            return False
    return has_data and has_critic


def _only_input(node: Any) -> Any:
    """Return the input of a node that is a part of the graph; None if it has none, or several."""
    known = [following for following, _ in getattr(node, "next_functions", ()) if following is not None]
    return known[0] if len(known) == 1 else None


def _through(node: Any, kinds: set[str]) -> Any:
    """Return the first node of another kind on the way back from one, by nodes with one input."""
    for _ in range(_LONGEST_WALK):
        if type(node).__name__ not in kinds or (following := _only_input(node)) is None:
            return node
        node = following
    return node
