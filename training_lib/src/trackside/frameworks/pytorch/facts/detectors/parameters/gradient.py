"""Parameters that have a gradient as a step ends."""

from __future__ import annotations

from trackside.contracts.observations import HAS_GRADIENT
from trackside.frameworks.pytorch.facts.detector import SeenParameter
from trackside.frameworks.shared.detectors import sees


@sees(HAS_GRADIENT)
def has_gradient(parameter: SeenParameter) -> bool:
    """Return True if a parameter has a gradient; False while another thread may be writing it."""
    return parameter.may_be_read and parameter.tensor.grad is not None
