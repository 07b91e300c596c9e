"""The observations that PyTorch's graph allows of a loss, where Keras runs on PyTorch: of a loss by hand, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trackside.contracts.observations import BEYOND_REACH, COMPARED_WITH, LOWERS_LIKELIHOOD, Observation

SEEN = (BEYOND_REACH, COMPARED_WITH, LOWERS_LIKELIHOOD)


def of_graph(loss: Any) -> Mapping[Observation[Any], Any]:
    """Return what is seen of a loss, a tensor of PyTorch with its graph. Keep nothing of it."""
    from trackside.frameworks.pytorch.losses.description import describe_loss
    from trackside.frameworks.pytorch.losses.graph import facts_of

    found = facts_of(loss.grad_fn, describe_loss(loss.grad_fn)).observed
    return {each: found[each] for each in SEEN if each in found}
