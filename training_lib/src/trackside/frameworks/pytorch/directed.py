"""Capture that the script directs: it names models and losses, modes, its own tensors, and the ends of steps.

All of PyTorchCapture works below, so a script that says little gets what one that says nothing gets. What it adds:

- Models that are registered have the names; optimizers that train none of their parameters make no steps.
- A step ends where the script says so, if it ever does (`end_step`). Else with the optimizer's step. In the modes EVAL
  and PREDICT, and where there is no optimizer, it ends with the next call of the model, or with the mode.
- Registered losses are saved where they are called, under the name of their class.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.kept_steps import KeptSteps, Targets
from trackside.capture.last_step import LastStep, StepPosition
from trackside.capture.restart import further
from trackside.capture.run_files import FindState
from trackside.capture.schedule import NOTHING
from trackside.capture.step_boundary import StepBoundary
from trackside.capture.step_engine import EVAL, PREDICT, Position
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.call_flag import CallFlag
from trackside.frameworks.pytorch.capture import CLOSE_SECONDS, SIGTERM_SECONDS, PyTorchCapture
from trackside.frameworks.pytorch.evaluation import Evaluation
from trackside.frameworks.pytorch.fuse import Fuse
from trackside.frameworks.pytorch.losses import LossDescription, name_of_loss_module
from trackside.frameworks.pytorch.model_facts import ModelFactsFile
from trackside.frameworks.pytorch.modules import CallWatcher, save_buffers
from trackside.frameworks.pytorch.optimizers import optimizers_beside
from trackside.frameworks.pytorch.ranks import Rank, agreed
from trackside.frameworks.pytorch.step_times import StepTimes
from trackside.frameworks.pytorch.structures import flatten
from trackside.records.state_file import TrainingState
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

_BY_CALLS = frozenset({EVAL, PREDICT})

StepEnds = Callable[[Position, "int | None"], object]


class DirectedCapture(PyTorchCapture):
    """Call `install` before the first forward pass; then `register` and the rest, in any order.

    `kept` gets the steps too; with `is_kept_only` nothing is stored anywhere. `times`, if given, times steps.
    `earlier` is how far an earlier process had come, as something else than the run tells: the further of both counts.
    `step_ends` is told at each end of a step how far training had come before it, and which step was saved last.
    """

    _may_take_short_way = False

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        open_store: Callable[[str], Store] = open_store,
        has_watermarks: bool = True,
        kept: KeptSteps | None = None,
        is_kept_only: bool = False,
        times: StepTimes | None = None,
        saves_nothing: bool = False,
        earlier: TrainingState | None = None,
        step_ends: StepEnds | None = None,
    ) -> None:
        self._losses: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        super().__init__(environment, open_store=open_store, has_watermarks=has_watermarks)
        self._kept, self._is_kept_only, self._times = kept, is_kept_only, times
        self._saves_nothing, self._saves_tensors = saves_nothing, False
        self._earlier, self._tell_step_end = earlier, step_ends
        self._knows_start = True
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet(optimizers_beside(lambda _: False))
        self._has_roots = self._has_seen_any = False
        self._scripted_modes: set[str] = set()  # in which the script has said where a step ends
        self._clear()
        self._boundary: StepBoundary = _OptimizersBoundary(lambda: self._is_scripted)
        self._last = LastStep()
        self._is_closing = False
        self._ended: StepPosition | None = None
        self._call_flag: CallFlag | None = None
        self._marker: weakref.ref[torch.nn.Module] | None = None
        self._gradient_hooks: list[Any] = []
        fuse = Fuse(self._guard, "copying gradients in the backward pass")
        self._protect_gradient = fuse.protect

    def _clear(self) -> None:
        self._is_step_begun = self._has_gradients = self._was_loss_called = False

    # What the script says.

    @property
    def engine(self) -> Any:
        """The step engine."""
        return self._engine

    @property
    def guard(self) -> Any:
        """What stands between us and the training."""
        return self._guard

    def install(self) -> None:
        """Registers the hooks, and looks at step 0."""
        super().install()
        for optimizer in self._optimizers:
            self._boundary.created(optimizer)
            self._modules.optimizer_created(optimizer)
        if self._times is not None:
            self._restore.append(self._times.install(self._modules, guard=self._guard))
            self._times.step_began(self._engine.step)
        self._look_ahead()

    def uninstall(self) -> None:
        """As PyTorchCapture's; what was put on top of something else is taken off first."""
        self._restore.reverse()
        super().uninstall()

    def register(self, root: torch.nn.Module) -> None:
        """Tells of a model to capture; from then on others are not."""
        self._has_roots = True
        self._parameter_names.register(root)
        self._modules.look_again()
        self._look_ahead()

    def register_loss(self, loss: torch.nn.Module) -> None:
        """Tells of a loss module that `losses.register_loss` has given its name."""
        self._losses.add(loss)
        self._look_ahead()

    def register_optimizer(self, optimizer: Optimizer) -> None:
        """Tells of an optimizer, for one that nothing else shows."""
        self._optimizer_created(optimizer)

    def set_mode(self, mode: str) -> None:
        """Says what the next steps are for; ends the open one if it ends by calls."""
        if mode == self._engine.mode:
            return
        if self._evaluation.is_on and mode not in _BY_CALLS:
            self._evaluation.end()
        elif self._is_step_begun:
            self._end_step()
        self._engine.set_mode(mode)
        self._look_ahead()

    def end_step(self) -> None:
        """Ends the open step, and from now on nothing else does, but for evaluations that PyTorch shows by itself.

        The first call ends nothing where nothing has happened before it: it stands at the beginning of a loop.
        """
        if self._evaluation.is_on:
            return
        is_first = not self._is_scripted
        self._scripted_modes.add(self._engine.mode)
        if is_first and not self._has_seen_any_in_step():
            return
        if self._writer is None and not self._start():
            return
        self._copy_rest()
        self._end_step()

    @property
    def _is_scripted(self) -> bool:
        return self._engine.mode in self._scripted_modes

    def _has_seen_any_in_step(self) -> bool:
        return self._has_seen_any and (self._is_step_begun or self._has_gradients)

    def add(self, name: str, array: np.ndarray, collections: frozenset[str]) -> None:
        """Adds a tensor of the user's to the step that the script is in: see `position_of_script`."""
        if not self._is_after_step():
            self._engine.open_step.add(name, array, collections=collections)
        elif array.size:
            self._last.amend(self._ended, name, array, collections)  # type: ignore[arg-type]  # there is one
        self._watch_calls()

    def step_of_script(self) -> StepPosition:
        """The step that the script is in.

        A step that an optimizer or the script has ended lasts, for the script, until a model is called again: a line
        after `optimizer.step()` speaks of the step just made.
        """
        engine, ended = self._engine, self._ended
        is_after = self._is_after_step()
        self._watch_calls()
        return ended if is_after and ended is not None else StepPosition(engine.step, engine.mode, engine.mode_step())

    @property
    def last_saved_step(self) -> int | None:
        """The number of the last step that had anything to save, as far as this process knows."""
        return self._last.latest

    def _watch_calls(self) -> None:
        if self._call_flag is None:
            self._call_flag = CallFlag()
            self._restore.append(self._call_flag.remove)

    def _is_after_step(self) -> bool:
        if self._ended is None or self._has_gradients or self._ended.mode != self._engine.mode:
            return False
        return self._call_flag is None or not self._call_flag.was_called

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """As PyTorchCapture's."""
        self._release()
        super().flush(timeout_seconds)

    def _release(self) -> None:
        self._ended = None
        self._last.release()

    def record(self, name: str, tensor: torch.Tensor) -> None:
        """Adds an output that no module gave, if the open step saves it."""
        if self._engine.due is not NOTHING:
            value = self._saver.copied(name, tensor)
            if value is not None:
                self._engine.open_step.add_loss(name, value)

    # Steps by calls.

    @property
    def ends_by_calls(self) -> bool:
        """True if the open step ends with the next call of the model."""
        if self._is_scripted or self._evaluation.is_on:
            return False
        return self._engine.mode in _BY_CALLS or not any(self._is_mine(o) for o in self._optimizers)

    def model_called(self, module: torch.nn.Module) -> None:
        """A model is about to be called, by no other."""
        if not self._has_seen_any:
            self._has_seen_any = True
            self._look_ahead()
        if not self.ends_by_calls:
            self._is_step_begun = self._is_step_begun or self._is_scripted
            return
        marker = self._marker() if self._marker is not None else None
        if marker is not None and module is not marker and self._modules.root_of(module) is not module:
            return
        self._marker = weakref.ref(module)
        if self._writer is None and not self._start():
            return
        if self._is_step_begun:
            self._end_step()
        self._is_step_begun = True
        self._save_weights()
        self._arm_gradients()

    def _save_weights(self) -> None:
        if not self._engine.due.parameters:
            return
        for name, parameter in self._parameter_names.of_roots():
            if not self._engine.open_step.has(name):
                self._saver.save(name, parameter)

    def _arm_gradients(self) -> None:
        """Without an optimizer nobody tells when gradients are whole, nor when they are cleared."""
        if not self._engine.due.parameters or self._engine.mode in _BY_CALLS:
            return
        for name, parameter in self._parameter_names.of_roots():
            if parameter.requires_grad and self._engine.open_step.wants(f"gradient/{name}"):
                save = self._protect_gradient(functools.partial(self._save_gradient, f"gradient/{name}"))
                handle = parameter.register_post_accumulate_grad_hook(save)  # type: ignore[no-untyped-call] # torch's own
                self._gradient_hooks.append(handle)

    def _save_gradient(self, name: str, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            self._saver.save(name, parameter.grad)

    def _copy_rest(self) -> None:
        """What no optimizer's step has copied, where the script ends the step."""
        engine = self._engine
        if engine.due is NOTHING:
            return
        optimizers = [o for o in self._optimizers if self._is_mine(o)]
        if "buffers" in engine.due.kinds:
            save_buffers(self._modules, engine, self._saver)
        for optimizer in optimizers:
            self._optimizer_source.before_step(optimizer)
        if not engine.due.parameters:
            return
        named = dict(self._parameter_names.of_roots())
        for optimizer in optimizers:
            named.update(self._parameter_names.of(optimizer))
        for name, parameter in named.items():
            if not engine.open_step.has(name):
                self._saver.save(name, parameter)
            gradient_name = f"gradient/{name}"
            if self._has_gradients and parameter.grad is not None and not engine.open_step.has(gradient_name):
                self._saver.save(gradient_name, parameter.grad)

    # What PyTorchCapture does, and where it is done otherwise.

    def _call_watcher(self) -> CallWatcher:
        return _Watcher(self, self._evaluation)

    def _is_mine(self, optimizer: Optimizer) -> bool:
        if not self._has_roots:
            return True
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        return any(self._parameter_names.known(p) is not None for p in parameters)

    def _optimizer_created(self, optimizer: Optimizer) -> None:
        self._optimizers.add(optimizer)
        super()._optimizer_created(optimizer)

    def _look_ahead(self) -> None:
        if self._is_down:
            return
        waits = not self._has_seen_any or self.ends_by_calls
        sees_losses = bool(self._losses) and self._engine.due.losses
        self._module_source.look_ahead(is_evaluating=self._evaluation.is_watching or waits or sees_losses)

    def _see_loss(self, tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> None:
        self._has_seen_any = self._has_gradients = True
        super()._see_loss(tensors, grad_tensors, *args, **kwargs)

    def _add_loss(self, tensor: torch.Tensor, loss: LossDescription) -> None:
        if not self._was_loss_called:
            super()._add_loss(tensor, loss)

    def loss_returned(self, module: torch.nn.Module, output: Any) -> None:
        """A loss module has been called."""
        if module not in self._losses or self._evaluation.is_on or not self._engine.due.losses:
            return
        name = name_of_loss_module(module)
        self._evaluation.trained_on(name)
        for tensor in flatten(output):
            value = self._saver.copied(name, tensor)
            if value is not None:
                self._was_loss_called = True
                self._engine.open_step.add_loss(name, value)

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        self._optimizers.add(optimizer)
        self._has_seen_any = True
        if not self._is_mine(optimizer):
            return None
        if self._is_scripted and not self._has_gradients and not _has_closure(args, kwargs):
            # The gradients are those of the step before, which the script has ended in between.
            return None
        self._release()
        return super()._before_step(optimizer, args, kwargs)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not self._is_mine(optimizer) or self._writer is None:
            return
        if self.ends_by_calls:  # a training in the mode of an evaluation
            self._optimizer_source.after_step(optimizer)
            self._statistics.after_step(optimizer)
            return
        super()._after_step(optimizer, args, kwargs)

    def _end_step(self, *, keep_unsettled: bool = False) -> None:
        if self._tell_step_end is not None and self._engine.step and self._knows_start:
            self._tell_step_end(self._engine.position(), self._last.latest)
        for handle in self._gradient_hooks:
            handle.remove()
        self._gradient_hooks = []
        ended_by_call = self.ends_by_calls
        position = StepPosition(self._engine.step, self._engine.mode, self._engine.mode_step())
        self._clear()
        super()._end_step(keep_unsettled=keep_unsettled)
        self._ended = None if ended_by_call or self._last.destination is None else position
        if self._call_flag is not None:
            self._call_flag.was_called = False
        if self._times is not None:
            self._times.step_began(self._engine.step)

    def _start(self) -> bool:
        if not super()._start():
            return False
        if self._saves_nothing:
            self._engine.save_nothing()
        elif self._writer is not None and self._saves_tensors:
            self._last.destination = self._writer
            self._engine.connect(self._last)
        return True

    def _resume(self, find: Callable[[], Position]) -> bool:
        self._knows_start = super()._resume(find)
        return self._knows_start

    def _agreement(self, rank: Rank) -> Callable[[FindState], TrainingState | None] | None:
        earlier = self._earlier
        if earlier is None:
            return super()._agreement(rank)
        return lambda find: agreed(rank, lambda: further(find(), earlier))

    def _run_files(self, rank: Rank) -> Any:
        self._saves_tensors = True
        if self._kept is None:
            return super()._run_files(rank)
        return self._kept if self._is_kept_only else Targets([self._kept, super()._run_files(rank)])

    def _facts_files(self, rank: Rank) -> tuple[ModelFactsFile, ...]:
        return () if self._is_kept_only else super()._facts_files(rank)

    def begin(self) -> bool:
        """Begins the run though no step was made, so that it can end. False in a helper process."""
        return self._writer is not None or bool(self._start())

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """As PyTorchCapture's; the step that has begun by calls, or since the script's last word, ends here."""
        if self._writer is not None and not self._guard.is_off:
            self._guard.attempt("saving the last step", self._end_last)
        self._is_closing = True
        super().close(timeout_seconds, is_interrupted=is_interrupted)

    def _handed_on(self) -> int:
        """As PyTorchCapture's; what the script may still add to is not handed on."""
        through, held = super()._handed_on(), self._last.held_step
        if self._last.destination is not None and not self._is_closing:
            through = min(through, self._engine.step - 2)
        return through if held is None else min(through, held - 1)

    def _end_last(self) -> None:
        self._release()
        if self._last.destination is not None:
            self._engine.connect(self._last.destination)
        self._evaluation.end()
        if self._is_scripted and (self._is_step_begun or self._has_gradients):
            self._copy_rest()
            self._end_step()
        elif self._is_step_begun:
            self._end_step()
        elif not self._boundary.is_open and self._engine.open_step.tensors():  # the script's own values
            self._engine.end_step()


def _has_closure(args: Any, kwargs: Any) -> bool:
    return callable(kwargs.get("closure")) or (len(args) > 1 and callable(args[1]))


class _OptimizersBoundary(StepBoundary):
    """Where the script says when steps end, no optimizer does."""

    def __init__(self, is_scripted: Callable[[], bool]) -> None:
        super().__init__()
        self._is_scripted = is_scripted

    def ends_before(self, optimizer: Any) -> bool:
        """See `StepBoundary`."""
        return not self._is_scripted() and super().ends_before(optimizer)

    def ends_after(self, optimizer: Any) -> bool:
        """See `StepBoundary`."""
        return not self._is_scripted() and super().ends_after(optimizer)


class _Watcher:
    """Tells the evaluation of calls, and the directed capture before it."""

    def __init__(self, capture: DirectedCapture, evaluation: Evaluation) -> None:
        self._capture, self._evaluation = capture, evaluation

    def is_model(self, module: torch.nn.Module) -> bool:
        return self._evaluation.is_model(module)

    def model_called(self, module: torch.nn.Module) -> bool:
        is_of_a_step = self._evaluation.model_called(module)
        is_shown_by_script = self._capture.ends_by_calls
        self._capture.model_called(module)
        return is_of_a_step or is_shown_by_script

    def model_returned(self, output: Any) -> None:
        self._evaluation.model_returned(output)

    def loss_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        self._evaluation.loss_called(module, args, kwargs)

    def loss_returned(self, module: torch.nn.Module, output: Any) -> None:
        self._evaluation.loss_returned(module, output)
        self._capture.loss_returned(module, output)
