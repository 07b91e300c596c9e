"""Detectors of observations, found by walking the package that they stand in.

@sees(MARGIN)
def margin(loss: SeenLoss) -> float: ...

A detector that needs events is a class, marked by `watches`, which returns its values by `of`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from trackside.contracts.observations import Observation, without_defaults

S = TypeVar("S")
T = TypeVar("T")
C = TypeVar("C", bound="type[Any]")


class Detector(NamedTuple):
    """A function or class that sees observations.

    Attributes:
        observations: What it sees.
        detects: A function that returns the value of its only one, or a class whose `of` returns the values.
    """

    observations: tuple[Observation[Any], ...]
    detects: Callable[..., Any]

    def seen(self, value: Any) -> dict[Observation[Any], Any]:
        """Return a value, or a tuple of all, by observation, without those that are as by default."""
        values = (value,) if len(self.observations) == 1 else value
        return without_defaults(dict(zip(self.observations, values, strict=True)))


_detectors: dict[str, list[Detector]] = {}  # by module


def sees(observation: Observation[T]) -> Callable[[Callable[[S], T]], Callable[[S], T]]:
    """Make a function the detector of an observation.

    Args:
        observation: What it returns of what it is given.
    """

    def noted(function: Callable[[S], T]) -> Callable[[S], T]:
        _detectors.setdefault(function.__module__, []).append(Detector((observation,), function))
        return function

    return noted


def watches(*observations: Observation[Any]) -> Callable[[C], C]:
    """Make a class the detector of observations.

    Args:
        observations: What its `of` returns: the value, or of several a tuple.
    """

    def noted(kind: C) -> C:
        _detectors.setdefault(kind.__module__, []).append(Detector(observations, kind))
        return kind

    return noted


@cache
def detectors_in(package: ModuleType) -> tuple[Detector, ...]:
    """Return the detectors of all modules of a package.

    Args:
        package: The package; packages within are walked, too.
    """
    names = [found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    for name in names:
        importlib.import_module(name)
    return tuple(detector for name in names for detector in _detectors.get(name, ()))
