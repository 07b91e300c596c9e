"""The views of contrastive learning: two or three passes of one model that a loss compares, and that may be the same.

Linear layers and convolutions keep their inputs for the backward pass. Where each weight of a model was used two or
three times in one graph, first on data, and the outputs of two passes meet in a matrix product, a concatenation, a
difference or a squared error, the kept inputs of both passes are compared. Passes that differ by dropout, by another
graph of neighbours or by weights are not the same from some layer on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.attention import kept

MOST_NODES = 4000  # of a graph; a larger one is not looked at
FEWEST_LAYERS, MOST_COMPARED = 2, 32
_PASSES = {2, 3}  # a pair, or an anchor with one like it and one unlike it
_ROWS = 16  # of each input that are compared
_FEWEST_SAMPLES, _MOST_SAMPLES = 8, 64  # of the outputs whose spread is taken
_SMALLEST = 1e-12  # length of an output
_LONGEST_WALK = 4
_LAYERS = {  # kind -> places of the input and of the weight among its inputs, and the name of the kept input
    "AddmmBackward0": (1, 2, "mat1"),
    "MmBackward0": (0, 1, "self"),
    "ConvolutionBackward0": (0, 1, "input"),
}
_MEETINGS = {
    "CatBackward0", "StackBackward0", "MmBackward0", "BmmBackward0", "MulBackward0", "SubBackward0", "MseLossBackward0",
}  # fmt: skip
_OF_BATCHES = 2  # numbers of dimensions from which a difference is one of outputs, not of losses of samples


class Views(NamedTuple):
    """The passes that a loss compares, as tensors without dimensions.

    same    1 if two of them are the same, 0 if all differ
    spread  1 less the squared length of the mean direction of what the last linear layer gives for one of them: 0 where
            all samples have one direction, near 1 where these are spread evenly; None without such a layer
    """

    same: torch.Tensor
    spread: torch.Tensor | None


def views_of(end: Any) -> Views | None:
    """Return the passes that a loss compares; None if it compares none of one model, or nothing is kept of them.

    Args:
        end: The last node of the loss.

    Errors: `RuntimeError` if the script has written over what the graph keeps.
    """
    nodes = _nodes(end)
    uses = _uses(nodes)
    of_data = next((each for each in uses if all(map(_is_of_data, each))), ())
    uses = [each for each in uses if len(each) == len(of_data)]
    met = [(i, j) for i, j in combinations(range(len(of_data)), 2) if _meet(nodes, (of_data[i], of_data[j]))]
    if len(uses) < FEWEST_LAYERS or not met:
        return None
    uses = [*uses[: MOST_COMPARED - 1], of_data]  # the last layers: what differs before them differs there
    inputs = [[found for node in each if (found := kept(node, _LAYERS[node.name()][2])) is not None] for each in uses]
    if any(len(each) < len(of_data) for each in inputs):
        return None
    with torch.no_grad():
        equal = [[_are_equal(each[i], each[j]) for each in inputs] for i, j in met]
    if len({one.device for each in equal for one in each}) > 1:
        return None
    same = torch.stack([torch.stack(each).all() for each in equal]).any().float()
    return Views(same, _spread(uses[0][met[0][0]]))


def _spread(layer: Any) -> torch.Tensor | None:
    """Return the spread of the directions of what a linear layer gives."""
    if layer.name() != "AddmmBackward0":
        return None
    rows, weight = kept(layer, "mat1"), kept(layer, "mat2")
    bias = getattr(layer.next_functions[0][0], "variable", None)
    if rows is None or weight is None or len(rows) < _FEWEST_SAMPLES or bias is None or not has_memory(bias):
        return None
    with torch.no_grad():
        given = torch.addmm(bias.detach().float(), rows.detach()[:_MOST_SAMPLES].float(), weight.detach().float())
        directions = given / given.norm(dim=1, keepdim=True).clamp(min=_SMALLEST)
        length: torch.Tensor = directions.mean(0).square().sum()
        return 1 - length


def _nodes(end: Any) -> list[Any]:
    """Return the nodes of a graph, each before what it was computed from; [] for a larger one."""
    order: list[Any] = []
    seen, waiting = {end}, [(end, False)]
    while waiting:
        node, is_done = waiting.pop()
        if is_done:
            order.append(node)
            continue
        waiting.append((node, True))
        for following in _inputs(node):
            if following not in seen:
                seen.add(following)
                waiting.append((following, False))
        if len(seen) > MOST_NODES:
            return []
    return order[::-1]


def _uses(nodes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the uses of each weight of a layer that was used as often as a view is, pass by pass."""
    uses: dict[Any, list[Any]] = {}
    for node in nodes:
        if node.name() in _LAYERS and (weight := _weight(node)) is not None:
            uses.setdefault(weight, []).append(node)
    return [tuple(of_weight) for of_weight in uses.values() if len(of_weight) in _PASSES]


def _weight(node: Any) -> Any:
    """Return the node that stands for the weight of a layer; None if it is computed."""
    weight = node.next_functions[_LAYERS[node.name()][1]][0]
    for _ in range(_LONGEST_WALK):
        if weight is None or weight.name().endswith("AccumulateGrad"):
            return weight
        inputs = list(_inputs(weight))
        weight = inputs[0] if len(inputs) == 1 else None
    return None


def _is_of_data(node: Any) -> bool:
    return node.next_functions[_LAYERS[node.name()][0]][0] is None


def _meet(nodes: Sequence[Any], first_layers: tuple[Any, Any]) -> bool:
    """Return True if some node takes the output of one pass beside that of the other."""
    bits = {first_layers[0]: 1, first_layers[1]: 2}
    reached: dict[Any, int] = {}
    for node in reversed(nodes):
        of_inputs = [reached.get(each, 0) for each in _inputs(node)]
        reached[node] = bits.get(node, 0)
        for each in of_inputs:
            reached[node] |= each
        if node.name() in _MEETINGS and {1, 2} <= set(of_inputs) and _dimensions(node) >= _OF_BATCHES:
            return True
    return False


def _dimensions(node: Any) -> int:
    """Return the number of dimensions of what a node gives; of a squared error, of what it was given."""
    if node.name() == "MseLossBackward0":
        value = kept(node, "self")
        return 0 if value is None else value.dim()
    metadata = getattr(node, "_input_metadata", None)
    return len(metadata[0].shape) if metadata else 0


def _are_equal(one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
    one, two = one.detach(), two.detach()
    if one.shape != two.shape or one.device != two.device or not one.dim():
        return torch.zeros((), dtype=torch.bool, device=one.device)
    every = max(1, -(-len(one) // _ROWS))
    return (one[::every] == two[::every]).all()


def _inputs(node: Any) -> Iterator[Any]:
    return (following for following, _ in node.next_functions if following is not None)
