"""The losses that detectors see: those in `detectors`, each a function of what is here.

@sees(MARGIN)
def margin(loss: SeenLoss) -> float: ...
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trackside.contracts.observations import Observation
from trackside.frameworks.pytorch.losses import detectors
from trackside.frameworks.shared.detectors import detectors_in


class SeenLoss(NamedTuple):
    """A loss that `backward` is about to be called on.

    Attributes:
        end: The last node of its graph.
        name: Its class in torch.nn; `UNNAMED` for one by hand.
        node: The node of the framework's loss that holds its inputs; None for a loss by hand.
        function: The node of the function that made its predictions; None if it is unknown, or behind a logarithm.
    """

    end: Any
    name: str
    node: Any = None
    function: Any = None


def observed(loss: SeenLoss) -> dict[Observation[Any], Any]:
    """Return all that is seen of a loss, without what is as by default.

    A detector that raises a `RuntimeError` leaves its observation at the default.

    Args:
        loss: The loss.
    """
    found: dict[Observation[Any], Any] = {}
    for detector in detectors_in(detectors):
        try:
            found |= detector.seen(detector.detects(loss))
        except RuntimeError:  # the script has written over what the graph keeps
            continue
    return found
