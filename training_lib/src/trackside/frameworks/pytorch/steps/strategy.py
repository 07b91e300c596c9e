"""Where a step ends: what decides it, and the strategy of a script that says nothing about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch.optim.optimizer import Optimizer

from trackside.capture.schedule import Due
from trackside.capture.step_boundary import StepBoundary
from trackside.capture.step_engine import StepEngine
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.modules.source import CallWatcher


class Observer(Protocol):
    """What the sources have seen, for the one that carries out steps."""

    def step_skipped(self, optimizer: Optimizer) -> None:
        """AMP has left out a step of this optimizer."""

    def validation_counted(self) -> None:
        """An evaluation in training mode was seen."""

    def validation_changed(self) -> None:
        """An evaluation, or a step of one, has begun or ended."""

    def validation_step_ends(self, mode: str) -> None:
        """A step of an evaluation is about to end."""


class StepStrategy(Protocol):
    """Decides where a step ends. It holds the state of that decision, and does nothing else.

    Attributes:
        boundary: The optimizers, and which of them have stepped.
        takes: Returns True if a step that an optimizer is about to make is captured. None: each is.
        counts: Returns True if a step that an optimizer has made is one of the captured training. None: each is.
        step_ends: Takes note that the open step ends now. None: nobody need know.
    """

    boundary: StepBoundary

    @property
    def takes(self) -> Callable[..., bool] | None: ...

    @property
    def counts(self) -> Callable[[Optimizer], bool] | None: ...

    @property
    def step_ends(self) -> Callable[[], None] | None: ...

    @property
    def takes_short_way(self) -> bool:
        """True if a plain step may take the short way."""

    @property
    def ends_by_calls(self) -> bool:
        """True if the open step ends with the next call of the model."""

    @property
    def saves_seen_losses(self) -> bool:
        """True if the open step saves the losses of backward passes."""

    def watcher(self) -> CallWatcher:
        """Return what watches calls of modules."""

    def needs_calls(self, due: Due) -> bool:
        """Return True if calls of modules must be seen in the open step, which saves `due`."""

    def created(self, optimizer: Optimizer) -> None:
        """Take note of a new optimizer."""

    def loss_seen(self) -> None:
        """Take note of a backward pass."""

    def ends_before(self, optimizer: Optimizer) -> bool:
        """Return True if the open step has ended before this optimizer's; see `StepBoundary`."""

    def ends_after(self, optimizer: Optimizer) -> bool:
        """Return True if the open step ends with this optimizer's; see `StepBoundary`."""


MakeStrategy = Callable[[StepEngine, ParameterNames, Validation], StepStrategy]


class ByOptimizer:
    """A step ends with the optimizer's step, or after each of several has stepped; nothing else ends one."""

    takes_short_way = property(lambda self: self.boundary.has_one)
    ends_by_calls, saves_seen_losses = False, True
    takes = counts = step_ends = None

    def __init__(self, _engine: StepEngine, _names: ParameterNames, validation: Validation) -> None:
        self._validation = validation
        self.boundary = StepBoundary()
        self.ends_before, self.ends_after = self.boundary.ends_before, self.boundary.ends_after

    def watcher(self) -> CallWatcher:
        """See `StepStrategy`."""
        return self._validation

    def needs_calls(self, _due: Due) -> bool:
        """See `StepStrategy`."""
        return False

    def created(self, optimizer: Optimizer) -> None:
        """See `StepStrategy`."""
        self.boundary.created(optimizer)

    def loss_seen(self) -> None:
        """See `StepStrategy`."""
