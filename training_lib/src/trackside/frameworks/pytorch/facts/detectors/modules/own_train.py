"""Modules with a `train` of their own that nothing has called."""

from __future__ import annotations

import re

from torch import nn

from trackside.contracts.observations import OWN_TRAIN_UNUSED
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.shared.detectors import watches

_FREEZES = re.compile(r"freez|requires_grad|^eval$")


@watches(OWN_TRAIN_UNUSED)
class OwnTrain:
    """Modules of which nothing has called the `train` of their class with True, where that is known from the start."""

    def __init__(self, watch: Watch) -> None:
        self._called = watch.set_to_train

    def changes(self) -> object:
        """Return the number of modules that were set to training mode so."""
        return 0 if self._called is None else len(self._called)

    def of(self, module: nn.Module) -> bool:
        """Return True if nothing has called it."""
        return self._called is not None and module not in self._called and has_own_train(type(module))


def has_own_train(kind: type[nn.Module]) -> bool:
    """Return True if a class outside of torch has a `train` of its own that freezes something.

    It names `requires_grad`, `eval` or a function with "freeze", and calls the inherited `train`. Others clear a cache
    or write a log: they need no call, for a module begins in training mode.

    Args:
        kind: The class.
    """
    owner = next(base for base in kind.__mro__ if "train" in vars(base))
    code = getattr(vars(owner)["train"], "__code__", None)
    if owner.__module__.partition(".")[0] == "torch" or code is None or "train" not in code.co_names:
        return False
    return any(_FREEZES.search(name) for name in code.co_names)
