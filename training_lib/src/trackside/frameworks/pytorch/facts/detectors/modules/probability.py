"""The probability of a dropout."""

from __future__ import annotations

from torch import nn

from trackside.contracts.observations import PROBABILITY
from trackside.frameworks.pytorch.modules.roles import role_of
from trackside.frameworks.shared.detectors import sees


@sees(PROBABILITY)
def probability(module: nn.Module) -> float | None:
    """Return the probability of a dropout; None for any other module."""
    p = module.__dict__.get("p")
    if not isinstance(p, (int, float)) or isinstance(p, bool) or role_of(module).role != "dropout":
        return None
    return float(p)
