"""Copies of a trained model that are evaluated in its place and never change: averages that nobody updates.

Copies are looked for once, among the models that were there at the first step. An evaluation counts if a copy in eval
mode is called with gradients off, its parameters are as they were and those of the trained model are not, and steps lie
between it and the one before. A copy that is called at each step is a teacher or a reference, and one beside which the
trained model is evaluated too is compared with it: these count no more. Nothing on a device is read.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

import torch
from torch import nn

from trackside.capture.ground.script_lines import Place, user_place
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.ground.script_objects import parameters_of
from trackside.frameworks.pytorch.modes.stale_copies import copies_of_roots, first_readable, has_changed, sample_of

ENOUGH = 3  # evaluations
_OF_EACH_STEP = 2  # steps: calls that are less apart belong to the training


class _Pair(NamedTuple):
    """A copy's model, the number of the parameter that is sampled, and the samples of both at the first look."""

    root: weakref.ref[nn.Module]
    number: int
    copied: torch.Tensor
    trained: torch.Tensor


class StillCopies:
    """A counter of evaluations of such copies.

    Attributes:
        count: Evaluations so far, at most `ENOUGH`; 0 once something else explains them.
        place: Line of the script that made the newest of them; None if unknown.
    """

    def __init__(self) -> None:
        self.count = 0
        self.place: Place | None = None
        self._pairs: weakref.WeakKeyDictionary[nn.Module, _Pair] = weakref.WeakKeyDictionary()
        self._last: int | None = None  # step of the newest evaluation

    def look(self, names: ParameterNames) -> None:
        """Find the copies of the roots that no optimizer trains."""
        for module, root in copies_of_roots(names):
            number = first_readable(module, root)
            if number is not None:
                samples = (sample_of(parameters_of(each)[number]) for each in (module, root))
                self._pairs[module] = _Pair(weakref.ref(root), number, *samples)

    def __contains__(self, module: nn.Module) -> bool:
        return bool(self._pairs) and module in self._pairs

    def called(self, module: nn.Module, step: int) -> bool:
        """Read a copy that is about to be called. Return True if it counts.

        Args:
            module: A model of a trained one's class.
            step: Number of training steps so far.
        """
        found = self._pairs.get(module) if self._pairs and self.count < ENOUGH else None
        root = found.root() if found is not None else None
        if found is None or root is None or module.training or torch.is_grad_enabled() or step == self._last:
            return False
        if self._last is not None and step - self._last < _OF_EACH_STEP:
            self.explained()
            return False
        self._last = step
        if has_changed(parameters_of(module)[found.number], found.copied):
            del self._pairs[module]
            return False
        if not has_changed(parameters_of(root)[found.number], found.trained):
            return False
        self.count += 1
        self.place = user_place()
        return True

    def explained(self) -> None:
        """Stop counting: the trained model is evaluated, or copies belong to the training."""
        self._pairs = weakref.WeakKeyDictionary()
        self.count, self.place = 0, None
