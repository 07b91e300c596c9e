"""Modules that are given labels: they compute the loss, and may move labels on; else that is left to the script."""

from __future__ import annotations

import weakref
from typing import Any

from torch import nn

from trackside.contracts.observations import GIVEN_LABELS
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.shared.detectors import watches


@watches(GIVEN_LABELS)
class GivenLabels:
    """Modules that were called with `labels`."""

    def __init__(self, watch: Watch) -> None:
        self._given: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def called(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Note a call with labels."""
        if kwargs and kwargs.get("labels") is not None:
            self._given.add(module)

    def of(self, module: nn.Module) -> bool:
        """Return True if a module was called with labels."""
        return module in self._given
