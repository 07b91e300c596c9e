"""Models that are evaluated in place of the trained one, and that nothing has ever trained.

An evaluation that makes a model of its own, and loads nothing into it, measures fresh weights. It counts if a model of
a trained one's class is called in eval mode with gradients off, most of its matrices are as an initializer draws them
while none of the trained model's is, and steps lie between it and the evaluation before. Once the trained model is
called with gradients off, nothing more is counted. Nothing on a device is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import torch
from torch import nn

from trackside.capture.ground.script_lines import Place, user_place
from trackside.frameworks.pytorch.ground.initial_values import looks_untrained
from trackside.frameworks.pytorch.ground.script_objects import parameters_of
from trackside.frameworks.pytorch.modes.stale_copies import is_copy

ENOUGH = 3  # evaluations
_OF_EACH_STEP = 2  # steps: calls that are less apart belong to the training
_MOST_MATRICES = 8  # of a model
_MOST_OF_FRESH = 0.5  # of the matrices: few numbers of a draw may look otherwise by chance


class UntrainedModels:
    """A counter of evaluations of such models.

    Attributes:
        count: Evaluations so far, at most `ENOUGH`; 0 once something else explains them.
        place: Line of the script that made the newest of them; None if unknown.
    """

    def __init__(self) -> None:
        self.count = 0
        self.place: Place | None = None
        self._last: int | None = None  # step of the newest evaluation
        self._is_over = False

    def called(self, module: nn.Module, roots: Iterable[nn.Module], step: int) -> bool:
        """Read a model that is about to be called, and that no optimizer trains. Return True if it counts.

        Args:
            module: The model.
            roots: The trained models.
            step: Number of training steps so far.
        """
        if self._is_over or self.count >= ENOUGH or module.training or torch.is_grad_enabled() or step == self._last:
            return False
        if self._last is not None and step - self._last < _OF_EACH_STEP:
            self.explained()
            return False
        self._last = step
        trained = next((root for root in roots if type(root) is type(module) and is_copy(module, root)), None)
        if trained is None or _share_drawn(module) < _MOST_OF_FRESH or _share_drawn(trained) > 0:
            return False
        self.count += 1
        self.place = user_place()
        return True

    def explained(self) -> None:
        """Stop counting: the trained model is evaluated, or such models belong to the training."""
        self._is_over = True
        self.count, self.place = 0, None


def _share_drawn(module: nn.Module) -> float:
    """Return the share of a model's first matrices that look untrained; 0 without one."""
    matrices = list(islice((p for p in parameters_of(module) if p.dim() > 1 and p.is_cpu), _MOST_MATRICES))
    return sum(map(looks_untrained, matrices)) / max(1, len(matrices))
