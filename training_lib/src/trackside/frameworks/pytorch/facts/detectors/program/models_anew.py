"""Models that are made anew for each pass over the data: what the one before has learned is lost with it.

A new optimizer with the settings of the one before begins at another model with parameters of the same shapes, after
one pass over the same data set, and the model before is gone. Folds have data of their own, searches have other
settings or keep a model for several passes, and an ensemble keeps its models.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any, NamedTuple

from torch.optim.optimizer import Optimizer

from trackside.contracts.observations import MODEL_ANEW_EVERY
from trackside.frameworks.pytorch.facts.detector import Watch
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.shared.detectors import watches

FEWEST = 3  # new models in a row
_MOST_SHAPES = 4096  # of the parameters of an optimizer


class _Life(NamedTuple):
    """A model's training, as its optimizer's first step is looked at.

    kind     the optimizer's class and settings, and the shapes of its parameters
    first    the first of these
    passes   passes over the data set until then
    step     number of steps until then
    """

    kind: Hashable
    first: weakref.ref[Any]
    passes: int
    step: int


@watches(MODEL_ANEW_EVERY)
class ModelsAnew:
    """The newest model, and the number of those before it that lived for one pass."""

    def __init__(self, watch: Watch) -> None:
        self._steps, self._changed = watch.steps, watch.changed
        self._known: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._data: Any = None  # reference to the data set of the newest pass
        self._passes = 0  # over this data set
        self._newest: _Life | None = None
        self._count = self._every = 0

    def pass_met(self, iterator: Any, batch: Any) -> None:
        """Count a pass over a data set."""
        dataset = attribute_of(iterator, "_dataset")
        if self._data is None or self._data() is not dataset:
            try:
                self._data, self._passes = weakref.ref(dataset), 0
            except TypeError:  # a list, which may be another one in the same place
                self._data = None
                return
        self._passes += 1

    def before_step(self, optimizer: Optimizer) -> None:
        """Look at an optimizer that is new."""
        if optimizer in self._known:
            return
        self._known.add(optimizer)
        before, self._newest = self._newest, self._life_of(optimizer)
        if before is None or self._newest is None:
            return
        is_anew = (
            before.kind == self._newest.kind and before.first() is None and before.passes + 1 == self._newest.passes
        )
        self._count = self._count + 1 if is_anew else 0
        if self._count >= FEWEST and not self._every:
            self._every = self._newest.step - before.step
            self._changed()

    def of(self, watch: Watch) -> int:
        """Return the steps of a model's life, once several in a row were as short as a pass; 0 for others."""
        return self._every

    def _life_of(self, optimizer: Optimizer) -> _Life | None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if self._data is None or not parameters or len(parameters) > _MOST_SHAPES:
            return None
        settings = [
            tuple((k, v) for k, v in sorted(group.items()) if isinstance(v, (bool, int, float, str, tuple)))
            for group in optimizer.param_groups
        ]
        kind = type(optimizer), tuple(settings), tuple([p.shape for p in parameters])
        return _Life(kind, weakref.ref(parameters[0]), self._passes, self._steps())
