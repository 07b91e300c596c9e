"""The end of a step: the protocol that decides it, and the strategy for a script that sets nothing about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch.optim.optimizer import Optimizer

from trackside.capture.steps.schedule import Due
from trackside.capture.steps.step_boundary import StepBoundary
from trackside.capture.steps.step_engine import StepEngine
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.modules.source import CallWatcher


class Observer(Protocol):
    """The receiver of the sources' observations, which carries out steps."""

    def step_skipped(self, optimizer: Optimizer) -> None:
        """Handle a step of this optimizer that AMP has skipped."""

    def facts_changed(self) -> None:
        """Handle a validation in training mode."""

    def validation_changed(self) -> None:
        """Handle the begin or end of a validation, or of a step of one."""

    def validation_step_ends(self, mode: str, *, is_past: bool = False) -> None:
        """Handle the moment before a step of a validation ends; `is_past`: one of which losses alone are known."""


class StepStrategy(Protocol):
    """A strategy that decides where a step ends. It holds the state of that decision, and does nothing else.

    Attributes:
        boundary: The optimizers, and their steps.
        takes: Returns True if a step that an optimizer is about to make is captured. None: each is.
        counts: Returns True if a step that an optimizer has made is one of the captured training. None: each is.
        step_ends: Notes that the open step ends now; `is_of_validation` is True for a step of a validation. None: no
            note is needed.
    """

    boundary: StepBoundary

    @property
    def takes(self) -> Callable[..., bool] | None: ...

    @property
    def counts(self) -> Callable[[Optimizer], bool] | None: ...

    @property
    def step_ends(self) -> Callable[..., None] | None: ...

    @property
    def may_rest(self) -> bool:
        """True if steps can be counted while the training rests, by those of optimizers alone."""

    @property
    def ends_by_calls(self) -> bool:
        """True if the open step ends with the next call of the model."""

    @property
    def saves_seen_losses(self) -> bool:
        """True if the open step saves the losses of backward passes."""

    def watcher(self) -> CallWatcher:
        """Return the observer of calls of modules."""

    def needs_calls(self, due: Due) -> bool:
        """Return True if calls of modules must be observed in the open step, which saves `due`."""

    def created(self, optimizer: Optimizer) -> None:
        """Note a new optimizer."""

    def loss_seen(self, tensors: Any) -> bool:
        """Note a backward pass that begins at `tensors`. Return False if it is one of another training."""

    def ends_before(self, optimizer: Optimizer) -> bool:
        """Return True if the open step has ended before this optimizer's; see `StepBoundary`."""

    def ends_after(self, optimizer: Optimizer) -> bool:
        """Return True if the open step ends with this optimizer's; see `StepBoundary`."""


MakeStrategy = Callable[[StepEngine, ParameterNames, Validation], StepStrategy]


class ByOptimizer:
    """The strategy by optimizers: a step ends with the optimizer's step, or after each of several has stepped."""

    may_rest, ends_by_calls, saves_seen_losses = True, False, True
    takes = counts = step_ends = None

    def __init__(self, _engine: StepEngine, _names: ParameterNames, validation: Validation) -> None:
        self._validation = validation
        self.boundary = StepBoundary()
        self.ends_before, self.ends_after = self.boundary.ends_before, self.boundary.ends_after

    def watcher(self) -> CallWatcher:
        """Return the validation; see `StepStrategy`."""
        return self._validation

    def needs_calls(self, _due: Due) -> bool:
        """Return False: no step needs calls; see `StepStrategy`."""
        return False

    def created(self, optimizer: Optimizer) -> None:
        """Add a new optimizer; see `StepStrategy`."""
        self.boundary.created(optimizer)

    def loss_seen(self, _tensors: Any) -> bool:
        """Return True: each belongs to the one training; see `StepStrategy`."""
        return True
