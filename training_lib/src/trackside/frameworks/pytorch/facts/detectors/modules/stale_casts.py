"""Layers that compute under autocast with casts of their weights from before the newest steps.

Autocast keeps the casts of weights until its outermost block is left. Where a block holds the whole loop, all passes
compute with the casts of the first, and no step reaches them. A linear layer keeps the cast for its backward pass: a
few numbers of it are compared with the weight, at the calls that are watched anyway.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn

from trackside.contracts.observations import STALE_CASTS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.losses.attention import kept
from trackside.frameworks.shared.detectors import watches

ENOUGH = 3  # calls
_MOST_LOOKS = 64  # of a training
_SAMPLED = 16  # rows and columns of a weight that are compared
_HALF = {torch.float16, torch.bfloat16}
_PRODUCTS = {"AddmmBackward0", "MmBackward0"}


@watches(STALE_CASTS)
class StaleCasts:
    """The calls of linear layers with an old cast, of each layer."""

    kinds = (nn.Linear,)

    def __init__(self, watch: Watch) -> None:
        self._changed = watch.changed
        self._found = 0  # layers
        self._looks = 0
        self._counts: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()

    def returned(self, module: nn.Module, output: Any) -> None:
        """Compare the cast that a layer computed with."""
        if type(module) is not nn.Linear or not isinstance(output, torch.Tensor) or output.dtype not in _HALF:
            return
        weight, count = module.weight, self._counts.get(module, 0)
        if self._looks >= _MOST_LOOKS or count >= ENOUGH or weight.dtype != torch.float32 or not has_memory(weight):
            return
        cast = _cast_of(output.grad_fn)
        if cast is None or cast.shape != weight.shape or cast.device != weight.device:
            return
        self._looks += 1
        with torch.no_grad():
            now = weight[:_SAMPLED, :_SAMPLED].to(cast.dtype)
            is_old = not torch.equal(cast[:_SAMPLED, :_SAMPLED], now)
        self._counts[module] = count + 1 if is_old else 0
        if self._counts[module] == ENOUGH:
            self._found += 1
            self._changed()

    def changes(self) -> int:
        """Return the number of layers that were found."""
        return self._found

    def of(self, module: nn.Module) -> int:
        """Return the calls in a row with an old cast, at most `ENOUGH`; fewer count as none."""
        count = self._counts.get(module, 0)
        return count if count >= ENOUGH else 0


def _cast_of(node: Any) -> torch.Tensor | None:
    """Return the weight, shape (outputs, inputs), that the product of a layer keeps; None if it keeps none."""
    for _ in range(2):  # a view of more dimensions comes after the product
        if type(node).__name__ in _PRODUCTS:
            matrix = kept(node, "mat2")
            return None if matrix is None or matrix.dim() != 2 else matrix.detach().t()
        node = next((following for following, _ in getattr(node, "next_functions", ()) if following is not None), None)
    return None
