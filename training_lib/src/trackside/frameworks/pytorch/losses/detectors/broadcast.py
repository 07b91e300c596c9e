"""Predictions that met targets of others by broadcasting."""

from __future__ import annotations

from trackside.contracts.observations import COMPARED_WITH
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.targets import targets_of_each
from trackside.frameworks.shared.detectors import sees


@sees(COMPARED_WITH)
def compared_with(loss: SeenLoss) -> int:
    """Return the number of targets that each prediction met; 0 if each met its own alone."""
    return targets_of_each(loss.end)
