"""Targets that the last function of the predictions cannot reach, as a ReLU those below zero."""

from __future__ import annotations

from trackside.contracts.observations import BEYOND_REACH
from trackside.frameworks.pytorch.losses.detector import SeenLoss
from trackside.frameworks.pytorch.losses.targets import share_beyond_reach, share_beyond_reach_by_hand
from trackside.frameworks.shared.detectors import sees


@sees(BEYOND_REACH)
def beyond_reach(loss: SeenLoss) -> float:
    """Return the share of the targets beyond reach; 0 where it is unknown.

    Raises:
        RuntimeError: The script has written over values that the graph keeps.
    """
    if loss.node is None:
        return share_beyond_reach_by_hand(loss.end)
    return 0.0 if loss.function is None else share_beyond_reach(loss.name, loss.node, loss.function)
