"""The end of a step if the script directs the capture: by the script, a call of the model, or the optimizer.

- A step ends where the script ends it, if it ever does; else with the optimizer's step. In the modes EVAL and PREDICT,
  and without an optimizer, it ends with the next call of the model, or with the mode.
- Optimizers that train no registered model make no steps, once a model is registered.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Protocol

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.steps.last_step import StepPosition
from trackside.capture.steps.schedule import Due
from trackside.capture.steps.step_boundary import StepBoundary
from trackside.capture.steps.step_engine import EVAL, PREDICT, StepEngine
from trackside.frameworks.pytorch.ground.call_flag import CallFlag
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.losses.ownership import leads_to
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.modules.source import CallWatcher
from trackside.frameworks.pytorch.optimizers.source import optimizers_beside

_BY_CALLS = frozenset({EVAL, PREDICT})


class Director(Protocol):
    """The part that carries out calls of modules for the script's steps."""

    def model_called(self, module: torch.nn.Module) -> None:
        """Handle a call of a model, by no other."""

    def loss_returned(self, module: torch.nn.Module, output: Any) -> None:
        """Handle the output of a registered loss module."""


class ByScript:
    """The strategy of a script that directs its steps; see the module, and `StepStrategy`.

    Attributes:
        losses: Loss modules that the script has registered.
        has_roots: True once the script has registered a model.
        is_step_begun: True if a call of the model, or the script, has begun the open step.
        has_gradients: True if a backward pass was made in it.
        was_loss_called: True if a registered loss module was called in it.
        has_seen_any: True once a model was called or trained.
        ended: The step that has ended last, while the script may still add to it.
        as_smdebug: True if only registered losses count, once there are any; see `ScriptedCapture`.
        backward_begins: Called before a backward pass.
        end_step: Ends the open step, at the first call of a model in an evaluation: until then it ended by calls.
    """

    may_rest = False
    with_roots: ClassVar[weakref.WeakSet[ByScript]] = weakref.WeakSet()  # all in this process that go on

    def __init__(
        self,
        engine: StepEngine,
        names: ParameterNames,
        validation: Validation,
        *,
        director: Director,
        as_smdebug: bool = False,
    ) -> None:
        self._engine, self._names, self._validation = engine, names, validation
        self._director = director
        validation.records_in_training_mode = False  # the script names its modes
        self.boundary = StepBoundary()
        self.losses: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet(optimizers_beside(lambda _: False))
        for optimizer in self._optimizers:
            self.boundary.created(optimizer)
        self.has_roots = self.has_seen_any = False
        self.as_smdebug = as_smdebug
        self.backward_begins = self.end_step = _do_nothing
        self.is_step_begun = self.has_gradients = self.was_loss_called = False
        self.ended: StepPosition | None = None
        self._scripted_modes: set[str] = set()  # in which the script has ended a step itself
        self._marker: weakref.ref[torch.nn.Module] | None = None  # its next call is the next step
        self._call_flag: CallFlag | None = None

    @property
    def is_scripted(self) -> bool:
        """True if the script ends the steps of the current mode itself."""
        return self._engine.mode in self._scripted_modes

    @property
    def ends_by_calls(self) -> bool:
        """True if the open step ends with the next call of the model; see `StepStrategy`."""
        if self.is_scripted or self._validation.is_on:
            return False
        return self._engine.mode in _BY_CALLS or not any(self.trained_here())

    @property
    def saves_seen_losses(self) -> bool:
        """True unless a registered loss module was called in the step, or one exists; see `StepStrategy`."""
        return not (self.losses if self.as_smdebug else self.was_loss_called)

    def optimizers(self) -> list[Optimizer]:
        """Return all optimizers."""
        return list(self._optimizers)

    def trained_here(self) -> Iterator[Optimizer]:
        """Return the optimizers of captured models."""
        return (optimizer for optimizer in self._optimizers if self.counts(optimizer))

    def watcher(self) -> CallWatcher:
        """Return the observer of calls: the validation and the director; see `StepStrategy`."""
        return _Watcher(self, self._validation, self._director)

    def needs_calls(self, due: Due) -> bool:
        """Return True if calls of modules must be observed in the open step; see `StepStrategy`."""
        return not self.has_seen_any or self.ends_by_calls or (bool(self.losses) and due.losses)

    def created(self, optimizer: Optimizer) -> None:
        """Add a new optimizer; see `StepStrategy`."""
        self._optimizers.add(optimizer)
        if self.counts(optimizer):
            self.boundary.created(optimizer)

    def loss_seen(self, tensors: Any) -> bool:
        """Note a backward pass, unless it leads to no model of this hook's; see `StepStrategy`."""
        if self.has_roots and len(self.with_roots) > 1 and not leads_to(tensors, self._names.name_of):
            return False
        self.has_seen_any = self.has_gradients = True
        self.backward_begins()
        return True

    def takes(self, optimizer: Optimizer, *, has_closure: bool) -> bool:
        """Return True if the step about to be made is captured; see `StepStrategy`."""
        self._optimizers.add(optimizer)
        self.has_seen_any = True
        if not self.counts(optimizer):
            return False
        if self.is_scripted and not self.has_gradients and not has_closure:
            # The gradients are those of the step before, which the script has ended in between.
            return False
        self.ended = None
        return True

    def counts(self, optimizer: Optimizer) -> bool:
        """Return True if the optimizer trains a registered model, or no model is registered; see `StepStrategy`."""
        if not self.has_roots:
            return True
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        return any(self._names.name_of(p) is not None for p in parameters)

    def ends_before(self, optimizer: Optimizer) -> bool:
        """Return True if the open step has ended before this optimizer's; see `StepStrategy`."""
        return not self.is_scripted and self.boundary.ends_before(optimizer)

    def ends_after(self, optimizer: Optimizer) -> bool:
        """Return True if the open step ends with this optimizer's; see `StepStrategy`."""
        return not self.is_scripted and self.boundary.ends_after(optimizer)

    def ends_with_script(self) -> bool:
        """Return True if the script's call ends a step: not the first one, at the beginning of a loop."""
        is_first = not self.is_scripted
        self._scripted_modes.add(self._engine.mode)
        return not is_first or (self.has_seen_any and (self.is_step_begun or self.has_gradients))

    def begins_with_call(
        self, module: torch.nn.Module, root_of: Callable[[torch.nn.Module], torch.nn.Module | None]
    ) -> bool:
        """Return True if this call of a model begins a step, and ends the open one."""
        if not self.ends_by_calls:
            self.is_step_begun = self.is_step_begun or self.is_scripted
            return False
        marker = self._marker() if self._marker is not None else None
        if marker is not None and module is not marker and root_of(module) is not module:
            return False
        self._marker = weakref.ref(module)
        return True

    def step_ends(self, *, is_of_validation: bool = False) -> None:
        """Note the end of the open step; see `StepStrategy`."""
        ended_by_call, engine = self.ends_by_calls, self._engine
        self.ended = None if ended_by_call else StepPosition(engine.step, engine.mode, engine.mode_step())
        if not is_of_validation:  # during which a training step may stay open
            self.is_step_begun = self.has_gradients = self.was_loss_called = False
        if self._call_flag is not None:
            self._call_flag.was_called = False

    def watch_calls(self) -> None:
        """From now on, record if a model was called since the last step ended."""
        if self._call_flag is None:
            self._call_flag = CallFlag()

    def is_after_step(self) -> bool:
        """Return True if the script is still in the step that has ended last."""
        if self.ended is None or self.has_gradients or self.ended.mode != self._engine.mode:
            return False
        return self._call_flag is None or not self._call_flag.was_called

    def remove(self) -> None:
        """Leave PyTorch as it was."""
        self.with_roots.discard(self)
        if self._call_flag is not None:
            self._call_flag.remove()


class _Watcher:
    """An observer of calls that passes them to the validation and the director."""

    def __init__(self, strategy: ByScript, validation: Validation, director: Director) -> None:
        self._strategy, self._validation, self._director = strategy, validation, director
        validation.takes_any_loss = self.takes_any_loss

    def is_model(self, module: torch.nn.Module) -> bool:
        return self._validation.is_model(module)

    def model_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> bool:
        strategy = self._strategy
        if self._validation.is_on and strategy.is_step_begun and not strategy.is_scripted:
            strategy.end_step()
        is_of_a_step = self._validation.model_called(module, args, kwargs)
        is_shown_by_script = strategy.ends_by_calls
        self._director.model_called(module)
        return is_of_a_step or is_shown_by_script

    def model_returned(self, output: Any) -> None:
        self._validation.model_returned(output)

    def loss_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if self._is_seen(module):
            self._validation.loss_called(module, args, kwargs)

    def loss_returned(self, module: torch.nn.Module, output: Any) -> None:
        if self._is_seen(module):
            self._validation.loss_returned(module, output)
        if module in self._strategy.losses:
            self._director.loss_returned(module, output)

    def takes_any_loss(self) -> bool:
        """Return True if a loss of an evaluation is this training's without being registered.

        It has no graph to follow.
        """
        strategy = self._strategy
        return not strategy.as_smdebug or not (strategy.losses or len(strategy.with_roots) > 1)

    def _is_seen(self, module: torch.nn.Module) -> bool:
        """Return True for a loss module that is registered, or part of a model, or need not be."""
        is_registered = module in self._strategy.losses
        return is_registered or self.takes_any_loss() or self._validation.modules.root_of(module) is not None


def _do_nothing() -> None:
    """Do nothing."""
