"""Units at both flat ends of tanh or sigmoid, of modules and functions alike: a step in place of a slope.

Reads some rows of what the activations put out, once a run.
"""

from __future__ import annotations

from typing import Any

import torch

from trackside.contracts.observations import STEP_SHARE
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.shared.detectors import sees

_MOST_NODES = 300  # of a graph, from the loss on
_MOST_ACTIVATIONS = 16
_ROWS = 64
_FEWEST_ROWS = 8
_FLAT = 0.99  # of the way from the middle to an end: there the slope is a fiftieth of the largest
_ALWAYS, _AT_EACH_END = 0.8, 0.1  # of the samples
_MIDDLE = {"TanhBackward0": (0.0, 1.0), "SigmoidBackward0": (0.5, 0.5)}  # and the distance of the ends


@sees(STEP_SHARE)
def step_share(loss: SeenLoss) -> float:
    """Return the share of units that nearly all samples drive to one flat end or the other: of the worst activation.

    Raises:
        RuntimeError: The script has written over values that the graph keeps.
    """
    waiting, seen, shares = [loss.end], set[Any](), list[float]()
    while waiting and len(seen) < _MOST_NODES and len(shares) < _MOST_ACTIVATIONS:
        node = waiting.pop(0)
        if node is None or node in seen:
            continue
        seen.add(node)
        if type(node).__name__ in _MIDDLE:
            values = kept(node, "result")
            if values is not None:
                shares.append(_of_units(values.detach(), *_MIDDLE[type(node).__name__]))
        waiting += [following for following, _ in getattr(node, "next_functions", ())]
    return max(shares, default=0.0)


def _of_units(values: torch.Tensor, middle: float, distance: float) -> float:
    """Return the share of the units of (samples, ..., units), or of the channels of images, at both flat ends."""
    if values.dim() < 2 or len(values) < _FEWEST_ROWS or not values.numel():
        return 0.0
    some = values[:_ROWS]
    some = some.movedim(1, -1) if some.dim() >= 4 else some
    ways = (some.reshape(-1, some.shape[-1]).float() - middle) / distance
    low, high = ((ways * sign > _FLAT).float().mean(0) for sign in (-1, 1))
    is_step = (low + high >= _ALWAYS) & (low >= _AT_EACH_END) & (high >= _AT_EACH_END)
    return float(is_step.float().mean())
