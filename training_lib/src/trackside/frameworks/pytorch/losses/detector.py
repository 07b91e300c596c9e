"""Detectors of losses: functions that each see one observation, found by walking `detectors`.

@sees(MARGIN)
def margin(loss: SeenLoss) -> float: ...
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

from trackside.contracts.observations import Observation

T = TypeVar("T")


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


_Detector = Callable[[SeenLoss], Any]
_seen_by: dict[str, tuple[Observation[Any], _Detector]] = {}


def sees(observation: Observation[T]) -> Callable[[Callable[[SeenLoss], T]], Callable[[SeenLoss], T]]:
    """Make a function the detector of an observation. A `RuntimeError` of it leaves the observation at its default."""

    def noted(detector: Callable[[SeenLoss], T]) -> Callable[[SeenLoss], T]:
        _seen_by[observation.name] = observation, detector
        return detector

    return noted


def observed(loss: SeenLoss) -> dict[Observation[Any], Any]:
    """Return all that is seen of a loss, without what is as by default."""
    found: dict[Observation[Any], Any] = {}
    for observation, detector in _all_detectors():
        try:
            value = detector(loss)
        except RuntimeError:  # the script has written over what the graph keeps
            continue
        if value != observation.default:
            found[observation] = value
    return found


@cache
def _all_detectors() -> tuple[tuple[Observation[Any], _Detector], ...]:
    from trackside.frameworks.pytorch.losses import detectors

    for module in pkgutil.iter_modules(detectors.__path__, f"{detectors.__name__}."):
        importlib.import_module(module.name)
    return tuple(_seen_by.values())
