"""Steps of a script that changes its weights itself: `p.data -= rate * p.grad`, or `p -= ...` under `no_grad()`.

Such a step has no call of its own, and is known by what it does: weights that a backward pass led to have changed as
the next one begins. Values before the step are taken at the end of the pass, and the step ends as the next pass begins.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from trackside.frameworks.pytorch.optimizers.hand_looks import MOST_WEIGHTS, Look, Rhythm
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.saving.device_copies import DeviceCopies


class Updates:
    """The weights that a script changes by hand, as an optimizer's groups. None is kept alive."""

    def __init__(self, weights: Sequence[torch.Tensor]) -> None:
        self._weights = [weakref.ref(weight) for weight in weights]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The groups: one of the weights that still exist."""
        alive = [weight for reference in self._weights if (weight := reference()) is not None]
        return [{"params": alive}] if alive else []


class StepsByHand:
    """The steps of one training by hand. Call `begin` once its weights have changed between two backward passes.

    Attributes:
        before: Handles the moment before a step, with what stands for the optimizer.
        after: Handles the moment after it.

    Args:
        copies: The copier of values from devices to the host.
    """

    before: Callable[[Any], object]
    after: Callable[[Any], object]

    def __init__(self, copies: DeviceCopies | None = None) -> None:
        self._copies = copies or DeviceCopies()
        self._updates: Updates | None = None
        self._stand_in: Any = None
        self._look: Look | None = None  # of a pass that no step has followed so far
        self._rhythm = Rhythm(self._copies)

    @property
    def is_on(self) -> bool:
        """True from `begin` to `end`."""
        return self._stand_in is not None

    def is_made_by(self, optimizer: Any) -> bool:
        """Return True for what stands for an optimizer."""
        return self._stand_in is not None and optimizer is self._stand_in

    def begin(self, updates: Updates, stand_in: Any) -> None:
        """Take the passes from this one on for those of steps by hand."""
        self._updates, self._stand_in, self._rhythm = updates, stand_in, Rhythm(self._copies)

    def end(self) -> Any:
        """Leave the training to an optimizer. Return what has stood for one."""
        found, self._updates, self._stand_in, self._look = self._stand_in, None, None, None
        return found

    def before_backward(self) -> None:
        """End the step that followed the newest pass, if weights have changed since. Without a pass, do nothing."""
        look = self._look
        if look is not None and torch._C._current_graph_task_id() == -1 and self._rhythm.has_stepped(look):
            self._look = None
            self.after(self._stand_in)

    def after_backward(self) -> None:
        """Note the end of a pass, which a step may follow."""
        if self._updates is None or torch._C._current_graph_task_id() != -1:
            return
        weights = [weight for group in self._updates.param_groups for weight in group["params"]]
        if self._look is None and weights and not any(is_in_cuda_graph(weight) for weight in weights[:MOST_WEIGHTS]):
            self.before(self._stand_in)
            self._look = Look(weights)
