"""Losses by hand that make the observed data less likely: a log-probability enters them without a minus.

Only chosen entries of a log-softmax count (`gather`, an index, a diagonal), as in cross entropy by hand and in the
steps of a policy, and only if all their factors have one sign. Rewards less a baseline have both signs, and their
effect is unknown, as is that of a ratio of probabilities beside a divergence from another policy. Reads such factors,
once a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from trackside.contracts.observations import LOWERS_LIKELIHOOD
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.shared.detectors import sees

_MOST_NODES = 200
_CHOICES = {"GatherBackward0", "IndexBackward0", "DiagonalBackward0", "SelectBackward0", "TakeAlongDimBackward0"}
_PASSED = {
    "MeanBackward0", "MeanBackward1", "SumBackward0", "SumBackward1", "ViewBackward0", "ReshapeAliasBackward0",
    "SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0", "CloneBackward0", "ToCopyBackward0",
    "ExpandBackward0", "AliasBackward0", "UnsafeViewBackward0",
}  # fmt: skip


@sees(LOWERS_LIKELIHOOD)
def lowers_likelihood(loss: SeenLoss) -> bool:
    """Return True if each chosen log-probability in a loss by hand enters it with a plus.

    Raises:
        RuntimeError: The script has written over values that the graph keeps.
    """
    return loss.node is None and set(_signs(loss.end)) == {1.0}


def _signs(end: Any) -> Iterator[float]:
    """Return the sign of each chosen log-probability; 0 if it is unknown."""
    waiting, unclear, seen = [(end, 1.0, False)], list[tuple[Any, float, bool]](), 0
    while (waiting or unclear) and seen < _MOST_NODES:
        node, sign, is_chosen = (waiting or unclear).pop()
        seen += 1
        kind = type(node).__name__
        inputs = [following for following, _ in getattr(node, "next_functions", ())]
        if kind == "LogSoftmaxBackward0" or _is_less_logsumexp(kind, inputs):
            if is_chosen or (kind != "LogSoftmaxBackward0" and sign):  # an entropy chooses none
                yield sign
        elif kind in _CHOICES:
            waiting += [(inputs[0], sign, True)]
        elif kind in _PASSED:
            waiting += [(inputs[0], sign, is_chosen)]
        elif kind == "NegBackward0":
            waiting += [(inputs[0], -sign, is_chosen)]
        elif kind in {"MulBackward0", "DivBackward0"} and sum(found is not None for found in inputs) == 1:
            factor = _sign_of_factor(node, inputs)
            if factor is not None:
                waiting += [(next(found for found in inputs if found is not None), sign * factor, is_chosen)]
        elif kind in {"AddBackward0", "CatBackward0", "StackBackward0"}:
            waiting += [(found, sign, is_chosen) for found in inputs]
        elif kind == "SubBackward0":
            waiting += [(found, sign if place == 0 else -sign, is_chosen) for place, found in enumerate(inputs)]
        else:  # as a ratio to an older policy: what lies behind it enters the loss in an unknown way
            unclear += [(found, 0.0, is_chosen) for found in inputs if found is not None]


def _is_less_logsumexp(kind: str, inputs: list[Any]) -> bool:
    """Return True for scores less the logarithm of the sum of their exponentials, which is a log-softmax."""
    if kind != "SubBackward0" or len(inputs) != 2 or inputs[0] is None:
        return False
    normaliser = inputs[1]
    while type(normaliser).__name__ in _PASSED:
        normaliser = normaliser.next_functions[0][0]
    return type(normaliser).__name__ == "LogsumexpBackward0"


def _sign_of_factor(node: Any, inputs: list[Any]) -> float | None:
    """Return 1 or -1 for factors of one sign, None for zeros, 0 for anything else."""
    factor = node._saved_other if inputs[0] is not None else getattr(node, "_saved_self", None)
    if not isinstance(factor, torch.Tensor) or factor.layout is not torch.strided or factor.numel() == 0:
        return 0.0
    if not has_memory(factor):
        return 0.0
    smallest, largest = (float(number) for number in factor.detach().aminmax())
    if smallest == largest == 0:
        return None
    if smallest >= 0:
        return 1.0
    return -1.0 if largest <= 0 else 0.0
