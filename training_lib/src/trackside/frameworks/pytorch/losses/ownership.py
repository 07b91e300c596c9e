"""The parameters that a loss leads to: with several hooks in one process each follows its own losses only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

MOST_NODES = 100_000  # that are looked at; a larger graph counts as the hook's own


def leads_to(tensors: Any, name_of: Callable[[torch.Tensor], str | None]) -> bool:
    """Return True if the graph of a tensor, or of one among several, leads to a parameter with a name.

    Args:
        tensors: The first argument of `torch.autograd.backward`.
        name_of: Returns the name of a parameter; None for others.
    """
    starts = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    waiting = [node for each in starts if (node := getattr(each, "grad_fn", None)) is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        variable = getattr(node, "variable", None)
        if variable is not None and name_of(variable) is not None:
            return True
        further = {following for following, _ in node.next_functions if following is not None} - seen
        seen |= further
        waiting += further
        if len(seen) > MOST_NODES:
            return True
    return False
