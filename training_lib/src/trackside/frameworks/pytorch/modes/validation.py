"""Losses of validation, where no `backward` shows them, and the steps of the mode EVAL.

A validation differs from training by this: a model that an optimizer trains (or another of its class, such as an
average of its weights) is put into eval mode by `eval()`. From then until `train()`, or until an optimizer steps, calls
of modules and of loss functions are observed. In between nothing is: training costs one comparison for each module that
`train()` walks through.

- An EVAL step is one call of the model. If the model itself is never called, it is one call of the first of its modules
  that was called. The step ends with the next call, or with the validation.
- A loss of a step is the result of a loss module or a loss function of torch.nn while the step was open. It has the
  name that its graph would have in training. A result that encloses them wins: a module named like a loss, and the
  output of the model (`.loss`, `["loss"]`, or its only scalar). If that is another value, it is saved as `loss`, as the
  sum of several losses is in training.
- Nothing is a validation before the first optimizer step, and a model that trains in eval mode (a frozen batch norm) is
  validated only while gradients are off.

Limits: not observed are a loss by hand, plain sums of losses in the loop (their parts are saved), a loss inside of a
compiled function unless the model returns it, and a validation of a model that was left in eval mode before. Of a
validation without `eval()` the losses are recorded at its end, and no labels: see `validation_in_training_mode.py`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from trackside.capture.steps.step_engine import EVAL, TRAIN, StepEngine
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.losses.calls import FunctionCalls
from trackside.frameworks.pytorch.losses.description import LOSS_OF_FUNCTION
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.modes.random_evaluation import RandomEvaluation
from trackside.frameworks.pytorch.modes.stale_copies import StaleCopies
from trackside.frameworks.pytorch.modes.still_copies import StillCopies
from trackside.frameworks.pytorch.modes.untrained_models import UntrainedModels
from trackside.frameworks.pytorch.modes.validation_in_training_mode import ValidationInTrainingMode
from trackside.frameworks.pytorch.modes.validation_losses import ValidationLosses
from trackside.frameworks.pytorch.modules.source import TrainedModules, as_written
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver


class Validation:
    """The state of a validation, and the losses of its steps.

    - `begins()` is called right before a validation begins
    - `changed()` is called when a validation or one of its steps has begun or ended
    - `ended(mode)` is called right before a step ends, with `is_past=True` for a step in training mode, of which
      losses alone are known
    - `reads_every_loss` returns True for a loss that is read even on a step that need not save any
    - `protect` makes a function of ours harmless to the script
    - `modules` are the trained modules
    - `has_set_mode` is True if a step of the validation has set the engine's mode, which is put back when it ends
    - `copies` counts evaluations of copies with stale statistics, `still` of those that never change,
      and `untrained` of models that nothing has trained; `copy_counted()` is called after each that counts
    - `was_set_to_train` is True if the script has called `train()` since the last step that was seen
    - `records_in_training_mode` is True if losses of a validation without `eval()` are recorded
    """

    def __init__(
        self,
        engine: StepEngine,
        *,
        modules: TrainedModules,
        saver: TensorSaver,
        loss_inputs: LossInputSource,
        changed: Callable[[], None],
        ended: Callable[..., None],
        reads_every_loss: Callable[[torch.Tensor], bool],
        in_training_mode: ValidationInTrainingMode,
        random: RandomEvaluation,
        copies: StaleCopies,
        still: StillCopies,
        untrained: UntrainedModels,
        copy_counted: Callable[[], None],
        fuse: Fuse,
    ) -> None:
        self._engine = engine
        self._in_training_mode, self._random = in_training_mode, random
        self._copies, self._still, self._untrained, self._copy_counted = copies, still, untrained, copy_counted
        in_training_mode.look_changed = self._watching_changed
        self.records_in_training_mode = True
        self.modules = modules
        self._losses = ValidationLosses(
            engine,
            saver=saver,
            inputs=loss_inputs,
            reads_every_loss=reads_every_loss,
            in_training_mode=self._in_training_mode,
        )
        in_training_mode.found = lambda: (
            self._losses.record_held(ended) if self.records_in_training_mode else None  # else the script directs steps
        )
        self.trained_on = self._losses.trained_on
        self.needs_calls: Callable[[], bool] = lambda: self.is_watching or self._losses.needs_training_call
        self.begins: Callable[[], object] = lambda: None
        self._changed = changed
        self._ended = ended
        self.is_on = False
        self.is_watching = False  # calls, because it is on or because there may be one in training mode
        self._has_training_begun = False
        self._trains_in_eval_mode = False
        self._evaluated: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self.set_to_train: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()  # by a `train` of their class
        self._marker: weakref.ref[torch.nn.Module] | None = None  # its next call is the next step
        self._had_gradients = False
        self.was_set_to_train = False
        self.has_set_mode = False  # of the engine: it is put back when the step ends
        fuse.when_blown = self._switch_off
        self._protected = fuse.protect(lambda function, *args: function(*args))
        self.takes_any_loss: Callable[[], bool] = lambda: True  # results of functions belong to the watched training
        self._losses.takes_functions = lambda: self.takes_any_loss()  # noqa: PLW0108 - it may be replaced
        self._calls = FunctionCalls(LOSS_OF_FUNCTION, untraced(fuse.protect(self._losses.function_called)))
        self._see_mode = untraced(fuse.protect(self._mode_set))

    def install(self) -> Callable[[], None]:
        """Wrap `Module.train`, which `eval()` calls too. Return the function that undoes it."""
        original = torch.nn.Module.train
        validation, see_mode = self, self._see_mode

        @functools.wraps(original)
        def train(self: Any, mode: bool = True) -> Any:
            result = original(self, mode)
            validation.was_set_to_train |= mode
            if mode and type(self).train is not train and not torch.compiler.is_compiling():
                validation.set_to_train.add(self)
            # On every module of the model: once for each when training goes on, so this is all that it may cost.
            if (validation.is_on if mode else validation._has_training_begun) and not torch.compiler.is_compiling():
                see_mode(self, mode)
            return result

        skip_frame(train)
        setattr(torch.nn.Module, "train", train)  # noqa: B010 - mypy forbids the plain assignment to a method
        unwrap_switches = self._in_training_mode.install()

        def undo() -> None:
            unwrap_switches()
            self._calls.switch(on=False)
            self._random.switch(on=False)
            setattr(torch.nn.Module, "train", original)  # noqa: B010 - as above

        return undo

    # From training's side.

    def training_began(self) -> None:
        """Note that the first optimizer step is about to be made."""
        self._has_training_begun = True
        self._in_training_mode.training_began()

    def training_goes_on(self) -> None:
        """Note a backward pass or optimizer's step about to be made, even if the model is still in eval mode."""
        if self._losses.is_step_open and self._had_gradients:  # it was a training step of a model in eval mode
            self._trains_in_eval_mode = True
            self._losses.values = []
            self._random.call_dropped()
            self._close_step()
        self._in_training_mode.training_goes_on()
        self.end()

    def end(self) -> None:
        """End the validation and its open step, if one is on."""
        if not self.is_on:
            return
        self.end_step()
        self.is_on = False
        self._evaluated.clear()
        self._marker = None
        self._watching_changed()

    def _watching_changed(self) -> None:
        if not self._in_training_mode.is_looking:
            self._losses.take_held()
        self.is_watching = self.is_on or self._in_training_mode.is_looking
        self._calls.switch(on=self.is_watching)
        self._random.switch(on=self.is_on)
        self._changed()

    def _switch_off(self) -> None:
        self.is_on = self._losses.is_step_open = self._has_training_begun = False
        self._in_training_mode.stand_down()
        self._random.stand_down()
        self._restore_mode()
        self._watching_changed()

    def _mode_set(self, module: torch.nn.Module, mode: bool) -> None:
        if type(module) not in self.modules.root_types and self.modules.root_of(module) is not module:
            return
        if not mode:
            self._begin(module)
        elif module in self._evaluated:
            self._evaluated.discard(module)
            if not self._evaluated:
                self.end()

    def _begin(self, module: torch.nn.Module) -> None:
        if not self._has_training_begun or not self._stands_for_root(module):
            return
        self._evaluated.add(module)
        if self.is_on:
            return
        self.begins()
        self._in_training_mode.stand_down()
        self.is_on = True
        self._watching_changed()

    def _stands_for_root(self, module: torch.nn.Module) -> bool:
        """Return True for a root, and for a copy of one. A `Sequential` is not a copy just because a root is one."""
        root = self.modules.root_of(module)
        if root is not None:
            return root is module
        if type(module) not in self.modules.root_types:
            return False
        return module in self._copies or not type(module).__module__.startswith("torch.nn.")

    # Called by ModuleSource.

    def is_model(self, module: torch.nn.Module) -> bool:
        """Return True for a trained model or a copy of one; see `CallWatcher`."""
        is_of_root = self.modules.root_of(module) is not None
        return is_of_root or module in self._still or self._stands_for_root(module)

    def model_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> bool:
        """Begin or end a step of the validation; see `CallWatcher`."""
        module = as_written(module)
        root = self.modules.root_of(module)
        is_trained = (root or module).training
        if root is None and not is_trained and self._copies.called(module):
            self._copy_counted()
        if root is not None and not torch.is_grad_enabled():
            self._still.explained()
            self._untrained.explained()
        elif root is None and _stands_in(
            self._still, self._untrained, module, modules=self.modules, engine=self._engine
        ):
            self._copy_counted()
        if is_trained and root is not None and self._in_training_mode.is_looking:
            self._in_training_mode.model_called(args, kwargs)
            # Where the script names its modes the step is already what it says: nothing waits for a finding.
            if self.records_in_training_mode and not torch.is_grad_enabled():
                self._losses.hold_step()
        if is_trained or (torch.is_grad_enabled() and (self._trains_in_eval_mode or not self._has_training_begun)):
            self.end_step()
            return True
        if not self.is_on:
            return self._has_training_begun
        marker = self._marker() if self._marker is not None else None
        if module is root or marker is None or module is marker:
            self.end_step()
            self._begin_step(module)
            self._random.call_begins(root or module, args, kwargs)
        return True

    def model_returned(self, output: Any) -> None:
        """Read the loss in the output of a model; see `CallWatcher`."""
        needs_more = self._losses.needs_training_call
        self._protected(self._losses.model_returned, output)
        if needs_more and not self._losses.needs_training_call:
            self._changed()

    def loss_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Note the call of a loss module; see `CallWatcher`."""
        self._protected(self._losses.loss_called, module, args, kwargs)

    def loss_returned(self, module: torch.nn.Module, output: Any) -> None:
        """Read the output of a loss module; see `CallWatcher`."""
        self._protected(self._losses.loss_returned, module, output)

    @property
    def losses(self) -> Sequence[tuple[str, np.ndarray]]:
        """The losses of the open step so far."""
        return self._losses.values

    # Steps.

    def _begin_step(self, module: torch.nn.Module) -> None:
        self._marker = weakref.ref(module)
        self._losses.is_step_open = True
        self._had_gradients = torch.is_grad_enabled()
        if self._engine.mode == TRAIN:
            self.has_set_mode = True
            self._engine.set_mode(EVAL)
        self._changed()

    def end_step(self) -> None:
        """End the open step, if one is open. The validation goes on."""
        if not self._losses.is_step_open:
            return
        if self._engine.due.losses:
            for name, value in self._losses.values:
                self._engine.open_step.add_loss(name, value)
        self._random.call_ends()
        self._ended(self._engine.mode)
        self._engine.end_step()
        self._close_step()

    def _close_step(self) -> None:
        self._losses.close_step()
        self._restore_mode()
        self._changed()

    def _restore_mode(self) -> None:
        if self.has_set_mode and self._engine.mode == EVAL:
            self._engine.set_mode(TRAIN)
        self.has_set_mode = False


def _stands_in(
    still: StillCopies,
    untrained: UntrainedModels,
    module: torch.nn.Module,
    *,
    modules: TrainedModules,
    engine: StepEngine,
) -> bool:
    """Return True if a model that no optimizer trains is about to be called in place of the trained one."""
    step, roots = engine.mode_step(TRAIN), [root for _, root in modules.roots()]
    return still.called(module, step) or untrained.called(module, roots, step)
