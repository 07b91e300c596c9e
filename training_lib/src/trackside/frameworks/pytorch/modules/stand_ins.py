"""The parts that a script calls in place of its models, as a LightningModule's `training_step` mostly does."""

from __future__ import annotations

import weakref

import torch

from trackside.frameworks.pytorch.ground.script_objects import has_parameters
from trackside.frameworks.pytorch.losses.description import is_loss_like


class StandIns:
    """The part of each model that takes its inputs: the first one with parameters that was called from outside.

    A model that is called itself has none. Only the first part counts: later ones mostly take what an earlier one gave.
    """

    def __init__(self) -> None:
        self._of_root: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[torch.nn.Module] | None] = (
            weakref.WeakKeyDictionary()
        )

    def is_one(self, module: torch.nn.Module, *, root: torch.nn.Module | None) -> bool:
        """Return True for such a part.

        Args:
            module: The module that is called, by no other of this model.
            root: Its model.
        """
        if root is None:
            return False
        if root is module:
            self._of_root[root] = None
            return False
        if root not in self._of_root and not is_loss_like(module) and has_parameters(module):
            self._of_root[root] = weakref.ref(module)
        stand_in = self._of_root.get(root)
        return stand_in is not None and stand_in() is module
