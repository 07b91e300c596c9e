"""Predictions that met targets of others by broadcasting."""

from __future__ import annotations

from trackside.contracts.observations import COMPARED_WITH, IS_BROADCAST
from trackside.frameworks.pytorch.losses.detector import SeenLoss, sees
from trackside.frameworks.pytorch.losses.targets import targets_of_each


@sees(COMPARED_WITH)
def compared_with(loss: SeenLoss) -> int:
    """Return the number of targets that each prediction met; 0 if each met its own alone."""
    return targets_of_each(loss.end)


@sees(IS_BROADCAST)
def is_broadcast(loss: SeenLoss) -> bool:
    """Return True if each prediction met several targets."""
    return compared_with(loss) > 0
