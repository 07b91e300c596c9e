"""Capture that the script directs: it names models and losses, modes, its own tensors, and the ends of steps.

The adapter of unmodified training works below, so a script that sets little gets the capture of one that sets nothing.
`ByScript` decides where a step ends. Registered losses are saved where they are called, under the name of their class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.session import CLOSE_SECONDS, SIGTERM_SECONDS, RunSession, SessionOptions
from trackside.capture.steps.last_step import LastStep, StepPosition
from trackside.capture.steps.schedule import NOTHING_DUE
from trackside.capture.steps.step_engine import EVAL, PREDICT, StepEngine
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.adapter import PyTorchAdapter
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.frameworks.pytorch.script.model_tensors import ModelTensors
from trackside.frameworks.pytorch.steps.by_script import ByScript
from trackside.frameworks.pytorch.steps.sources import ExtraSource


class ScriptControl:
    """The control of an adapter by a script.

    Call `install` before the first forward pass; then the others in any order.

    Attributes:
        adapter: The adapter that captures.
        engine: The step engine of its session.
        last: The step that has ended last, while the script may add to it.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run; `holds_last_step` must be set.
        extra: Makes further sources.
        as_smdebug: True if the tensors of registered models are those that smdebug saves: see `ModelTensors`.
    """

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        options: SessionOptions,
        extra: Sequence[ExtraSource] = (),
        as_smdebug: bool = False,
    ) -> None:
        def strategy(engine: StepEngine, names: ParameterNames, validation: Validation) -> ByScript:
            self._strategy = ByScript(engine, names, validation, director=self, as_smdebug=as_smdebug)
            return self._strategy

        made: list[ModelTensors] = []

        def model_tensors(session: RunSession, _: TrainedModules) -> ModelTensors:
            made.append(ModelTensors(session))
            return made[0]

        adapter = self.adapter = PyTorchAdapter(
            environment,
            options=options,
            strategy=strategy,
            extra=(*extra, model_tensors) if as_smdebug else extra,
            owner=self,
        )
        self.engine = adapter.session.engine
        self._guard, self._steps, self._sources = adapter.session.guard, adapter.steps, adapter.steps.sources
        self.last = adapter.session.last or LastStep()
        self._model_tensors = made[0] if made else None
        if self._model_tensors is not None:
            self._model_tensors.connect(self._sources)
            self._strategy.backward_begins = self._model_tensors.backward_begins
        self._strategy.end_step = self._steps.end_step

    def install(self) -> None:
        """Register the hooks, and look at step 0."""
        self.adapter.install()
        for optimizer in self._strategy.optimizers():
            self._sources.modules.optimizer_created(optimizer)
        self._steps.look_ahead()

    def uninstall(self) -> None:
        """Close the run, and remove every hook."""
        self.close()
        self._strategy.remove()
        self.adapter.uninstall()

    def register(self, root: torch.nn.Module) -> None:
        """Capture this model; from then on others are not."""
        self._strategy.has_roots = True
        ByScript.with_roots.add(self._strategy)
        self._sources.names.register(root)
        for optimizer in self._strategy.optimizers():
            if not self._strategy.counts(optimizer):
                self._strategy.boundary.forget(optimizer)
        self._sources.modules.look_again()
        self._steps.look_ahead()

    def register_loss(self, loss: torch.nn.Module) -> None:
        """Save the output of this loss module; `losses.register_loss` has given it its name."""
        self._strategy.losses.add(loss)
        self._steps.look_ahead()

    def register_optimizer(self, optimizer: Optimizer) -> None:
        """Watch an optimizer that nothing else shows."""
        self._steps.optimizer_created(optimizer)

    def set_mode(self, mode: str) -> None:
        """Set the mode of the next steps. End the open step if it ends by calls."""
        validation = self._sources.validation
        validation.has_set_mode = False  # the script has
        if mode == self.engine.mode:
            return
        if validation.is_on and mode not in (EVAL, PREDICT):
            validation.end()
        elif validation.is_on:
            validation.end_step()
        elif self._strategy.is_step_begun:
            self._steps.end_step()
        self.engine.set_mode(mode)
        self._steps.look_ahead()

    def end_step(self) -> None:
        """End the open step. From now on nothing else does, except validations that PyTorch shows by itself.

        The first call ends nothing if nothing has happened before it: it stands at the beginning of a loop.
        """
        if self._sources.validation.is_on or not self._strategy.ends_with_script() or not self.begin():
            return
        self._copy_rest()
        self._steps.end_step()

    def add(self, name: str, array: np.ndarray, collections: frozenset[str], *, wall_time: float | None = None) -> None:
        """Add a tensor of the user's to the step that the script is in: see `step_of_script`.

        `wall_time` is its moment in seconds since the epoch, if not that of the step.
        """
        ended = self._step_after_end()
        if ended is None:
            self.engine.open_step.add(name, array, collections=collections)
            if wall_time is not None:
                self.engine.open_step.wall_times[name] = wall_time
        elif array.size:
            self.last.amend(ended, name, array, collections, wall_time)
        self._strategy.watch_calls()

    def step_of_script(self) -> StepPosition:
        """Return the step that the script is in.

        A step that an optimizer or the script has ended lasts, for the script, until a model is called again: a line
        after `optimizer.step()` is about the step just made.
        """
        engine, ended = self.engine, self._step_after_end()
        self._strategy.watch_calls()
        return ended or StepPosition(engine.step, engine.mode, engine.mode_step())

    def record(self, name: str, tensor: torch.Tensor) -> None:
        """Add an output that no module returned, if the open step saves it."""
        if self.engine.due is not NOTHING_DUE:
            value = self._sources.saver.copied(name, tensor)
            if value is not None:
                self.engine.open_step.add_loss(name, value)

    def begin(self) -> bool:
        """Begin the run although no step was made, so that it can end. Return False in a helper process."""
        return self.adapter.has_begun or self.adapter.begin()

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Store the steps that have ended, within some seconds; the script can add to none of them any more."""
        self._release()
        self.adapter.flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run, and the step that has begun by calls, or since the script has ended one. Never raises."""
        if self.adapter.has_begun and not self._guard.is_off:
            self._guard.attempt("saving the last step", self._end_last)
        self.adapter.close(timeout_seconds, is_interrupted=is_interrupted)

    # What calls of modules mean: see `Director`.

    def model_called(self, module: torch.nn.Module) -> None:
        """Begin a step with this call if it begins one; see `Director`."""
        strategy = self._strategy
        if not strategy.has_seen_any:
            strategy.has_seen_any = True
            self._steps.look_ahead()
        if self._model_tensors is not None and self._sources.validation.is_on:
            self._model_tensors.evaluation_step_begins()
        if not strategy.begins_with_call(module, self._sources.modules.root_of) or not self.begin():
            return
        if strategy.is_step_begun:
            self._steps.end_step()
        strategy.is_step_begun = True
        self._sources.parameters.step_begins_with_call()

    def loss_returned(self, module: torch.nn.Module, output: Any) -> None:
        """Save the output of a registered loss module; see `Director`."""
        is_wanted = self.engine.due.losses and not self._sources.validation.is_on
        if is_wanted and self._sources.losses.module_returned(module, output):
            self._strategy.was_loss_called = True

    def _step_after_end(self) -> StepPosition | None:
        """Return the step that has ended last, while the script is still in it."""
        can_add = self.last.destination is not None and self._strategy.is_after_step()
        return self._strategy.ended if can_add else None

    def _release(self) -> None:
        self._strategy.ended = None
        self.last.release()

    def _copy_rest(self) -> None:
        strategy = self._strategy
        self._sources.parameters.step_ends_by_script(strategy.trained_here(), has_gradients=strategy.has_gradients)

    def _end_last(self) -> None:
        strategy = self._strategy
        self._release()
        if self.last.destination is not None:
            self.engine.connect(self.last.destination)
        self._sources.validation.end()
        if strategy.is_scripted and (strategy.is_step_begun or strategy.has_gradients):
            self._copy_rest()
            self._steps.end_step()
        elif strategy.is_step_begun:
            self._steps.end_step()
        elif not strategy.boundary.is_open and self.engine.open_step.tensors():  # the script's own values
            self.engine.end_step()
