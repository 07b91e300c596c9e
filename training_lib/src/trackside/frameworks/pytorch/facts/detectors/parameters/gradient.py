"""Parameters that have a gradient as a step ends."""

from __future__ import annotations

from trackside.contracts.observations import HAS_GRADIENT
from trackside.frameworks.pytorch.facts.detector import SeenParameter
from trackside.frameworks.shared.detectors import sees


@sees(HAS_GRADIENT)
def has_gradient(parameter: SeenParameter) -> bool:
    """Return True if a parameter has a gradient."""
    return parameter.tensor.grad is not None
