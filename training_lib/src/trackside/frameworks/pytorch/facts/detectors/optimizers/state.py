"""The state that an optimizer keeps, and whether it had one before its first step."""

from __future__ import annotations

import weakref

from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import STATE
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.shared.detectors import watches


@watches(STATE)
class States:
    """Optimizers that had a state before their first step."""

    def __init__(self, watch: Watch) -> None:
        self._had_one: weakref.WeakKeyDictionary[Optimizer, bool] = weakref.WeakKeyDictionary()

    def before_step(self, optimizer: Optimizer) -> None:
        """Note whether an optimizer has a state, at its first step that is looked at."""
        if optimizer not in self._had_one:
            self._had_one[optimizer] = _has_state(optimizer)

    def of(self, optimizer: Optimizer) -> str:
        """Return "loaded" or "new"; "" for an optimizer that keeps no state."""
        if self._had_one.get(optimizer, False):
            return "loaded"
        return "new" if _has_state(optimizer) else ""


def _has_state(optimizer: Optimizer) -> bool:
    return bool(getattr(optimizer, "state", None))
