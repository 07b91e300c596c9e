"""The facts that PyTorch's graph holds about a loss, where Keras runs on PyTorch: those of a loss by hand, too."""

from __future__ import annotations

from typing import Any, NamedTuple


class OfGraph(NamedTuple):
    """Facts about a loss; see `LossFacts`."""

    compared_with: int = 0
    lowers_likelihood: bool = False
    beyond_reach: float = 0.0


def of_graph(loss: Any) -> OfGraph:
    """Return the facts about a loss, a tensor of PyTorch with its graph. Keep nothing of it."""
    from trackside.frameworks.pytorch.losses.description import describe_loss
    from trackside.frameworks.pytorch.losses.graph import GraphFacts

    found = GraphFacts.of(loss.grad_fn, describe_loss(loss.grad_fn))
    return OfGraph(found.compared_with, found.lowers_likelihood, found.beyond_reach)
