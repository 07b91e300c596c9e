"""The weights that the tokens of one optimizer step have in its loss, over the backward passes that add up to it.

Each cross entropy is followed by a hook on its node, which sees the factor that the script, a trainer or an accelerator
has given it: of a mean over n targets each has the n-th part of that, of a sum the whole. Nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.pytorch.losses.targets import LAYERS

_CROSS_ENTROPY = "NllLossBackward0"
_MEAN, _SUM = 1, 2  # torch's enum of reductions
_MOST_NODES = 256  # between a loss and the last layer of its model
_MOST_PASSES = 256


class Weights(NamedTuple):
    """The weights of a step, tensors of one element.

    ratio  largest weight of a token over the smallest
    total  sum of the weights of all tokens
    """

    ratio: torch.Tensor
    total: torch.Tensor


class TokenWeights:
    """The weights of the tokens of one step.

    Args:
        protect: Makes a function of ours harmless to the script.
    """

    def __init__(self, protect: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
        self._passes: list[tuple[torch.Tensor, torch.Tensor]] = []  # weight of a token, number of tokens
        self._begun = 0
        self._is_known = True
        self._add = protect(self._added)

    def follow(self, end: Any) -> None:
        """Follow the loss of one backward pass.

        Args:
            end: Its last node.
        """
        self._begun += 1
        node = _only_cross_entropy(end)
        count = _count(node) if node is not None else None
        if node is None or count is None or self._begun > _MOST_PASSES:
            self._is_known = False
            return
        is_mean, add = node._saved_reduction == _MEAN, self._add

        def passed(gradients: Any) -> None:  # holds no node: a step that is broken off must be able to free its graph
            add(gradients[0], count, is_mean)

        node.register_prehook(passed)

    def taken(self) -> Weights | None:
        """Return the weights; None for a single pass, and where a pass has another loss than one cross entropy."""
        if not self._is_known or len(self._passes) < 2 or len(self._passes) != self._begun:
            return None
        weights = torch.stack([weight for weight, _ in self._passes])
        counts = torch.stack([count for _, count in self._passes])
        return Weights(weights.max() / weights.min(), (weights * counts).sum())

    def _added(self, gradient: torch.Tensor | None, count: torch.Tensor, is_mean: bool) -> None:
        if gradient is None or not has_memory(gradient):
            return
        with torch.no_grad():
            factor = gradient.detach().float().reshape(()).abs()
            self._passes.append((factor / count if is_mean else factor, count))


def _only_cross_entropy(end: Any) -> Any:
    """Return the node of the only cross entropy behind the last layer of a model; None for none or several."""
    found = list(_cross_entropies(end))
    if len(found) != 1:
        return None
    is_reduced = found[0]._saved_reduction in (_MEAN, _SUM)
    return found[0] if is_reduced and found[0]._saved_weight is None else None


def _cross_entropies(end: Any) -> Iterator[Any]:
    seen, waiting = {end}, [end]
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        kind = type(node).__name__
        if kind == _CROSS_ENTROPY:
            yield node
        if kind == _CROSS_ENTROPY or kind in LAYERS:
            continue
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _count(node: Any) -> torch.Tensor | None:
    """Return the number of targets that count, as a tensor of one element; None if the graph does not keep it."""
    found = kept(node, "total_weight") if node._saved_reduction == _MEAN else None
    if found is not None:
        return found.detach().float().reshape(()).clone()
    targets = kept(node, "target")
    return None if targets is None else (targets != node._saved_ignore_index).sum().float()
