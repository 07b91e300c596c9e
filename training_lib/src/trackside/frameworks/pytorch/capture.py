"""Captures unmodified PyTorch training: losses, weights, biases and gradients, at the optimizer's step.

Two global optimizer hooks mark the steps and one wrapped function, `torch.autograd.backward`, sees the losses; nothing
else is touched, and on an idle step they return at once. No thread, file or folder exists before the first optimizer
step, so DataLoader workers and other helper processes create nothing.

- A step is one step of the optimizer. One that AMP's GradScaler skips does not count: its hooks do not fire.
- Weights and gradients are copied before the optimizer's step: the weights that this forward pass used, and the
  gradients as the optimizer gets them (clipped, unscaled, averaged over ranks).
- A loss is the scalar that `backward` is called on. Where the graph ends in a loss function of PyTorch, constant
  factors behind it (accumulation, AMP) are undone and it bears that function's name; otherwise it is `loss`, as it is.
"""

from __future__ import annotations

import functools
import os
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.asked_request import is_being_spawned, lies_elsewhere, read_capture_request
from trackside.capture.guard import Guard, describe
from trackside.capture.process_end import ProcessEnd
from trackside.capture.restart import further, position_after, state_at_mark, within_seconds
from trackside.capture.run_files import FindState, NoFiles, RunFiles
from trackside.capture.schedule import NOTHING
from trackside.capture.statistics_log import StatisticsLog
from trackside.capture.step_boundary import StepBoundary
from trackside.capture.step_engine import TRAIN, Position, StepEngine
from trackside.capture.watermark import (
    FLUSH_SECONDS,
    REMOTE_FLUSH_SECONDS,
    MarkedParts,
    ModeSteps,
    Progress,
    WatermarkFile,
)
from trackside.capture.writer import Writer
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, StorageError
from trackside.contracts.run_layout import RunLocation, worker_name
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.always_on import PyTorchStatistics
from trackside.frameworks.pytorch.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.device_numbers import is_on_device
from trackside.frameworks.pytorch.eager_steps import EagerSteps
from trackside.frameworks.pytorch.evaluation import Evaluation
from trackside.frameworks.pytorch.flat_shards import FlatShards, flat_collection
from trackside.frameworks.pytorch.fuse import Fuse
from trackside.frameworks.pytorch.gradients import RawGradients
from trackside.frameworks.pytorch.live_objects import one_look
from trackside.frameworks.pytorch.loss_inputs import LossInputSource
from trackside.frameworks.pytorch.loss_parts import parts_of
from trackside.frameworks.pytorch.losses import UNNAMED, LateScale, LossDescription, describe_loss, inputs_in_graph
from trackside.frameworks.pytorch.model_facts import ModelFactsFile, ModelFactsSource
from trackside.frameworks.pytorch.modules import CallWatcher, ModuleSource, TrainedModules, save_buffers
from trackside.frameworks.pytorch.names import ParameterNames
from trackside.frameworks.pytorch.numbering import Numbering
from trackside.frameworks.pytorch.optimizers import OptimizerSource, SkippedSteps, fused_scale, optimizers_beside
from trackside.frameworks.pytorch.ranks import Rank, agreed
from trackside.frameworks.pytorch.reductions import ReductionSource
from trackside.frameworks.pytorch.saving import TensorSaver
from trackside.frameworks.pytorch.short_way import ShortWay
from trackside.frameworks.pytorch.step_numbers import StepNumbers
from trackside.frameworks.pytorch.tracing import compiler_at_work, is_dynamo_compiling, skip_frame, untraced
from trackside.frameworks.pytorch.training_mode_evaluations import TrainingModeEvaluations
from trackside.frameworks.pytorch.trial_calls import TrialCalls
from trackside.records.model_facts import ProgramFacts
from trackside.records.state_file import TrainingState
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

CLOSE_SECONDS = 30.0  # how long the end of the process waits for what is queued
RESUME_SECONDS = 10.0  # how long the first step waits for the run's store to say where an earlier process stopped
SIGTERM_SECONDS = 5.0  # the same where somebody waits for this process to die; Docker kills after 10


class PyTorchCapture:
    """Translates what PyTorch does into calls of the hook."""

    _may_take_short_way = True  # False where somebody else decides what a step is

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        open_store: Callable[[str], Store] = open_store,
        has_watermarks: bool = True,
    ) -> None:
        location = RunLocation(_absolute(environment.run_uri))  # now, for the script may change its folder
        self._open_store = functools.partial(open_store, location.tensors)
        self._open_statistics = functools.partial(open_store, location.statistics)
        self._open_watermarks = functools.partial(open_store, location.watermarks)
        self._has_watermarks, self._is_remote = has_watermarks, "://" in location.uri
        self._watermark: WatermarkFile | None = None
        self._stored_mode_steps, self._was_handed_on = ModeSteps(), -1
        self._environment = environment
        self._guard = Guard()
        self._boundary = StepBoundary()
        self._parameter_names = ParameterNames()
        self._misfits: list[ConfigurationError] = []
        self._unread = environment.capture_request if lies_elsewhere(environment.capture_request) else ""
        self._request = CaptureRequest(()) if self._unread else self._read_request(environment.capture_request)
        self._engine = StepEngine(self._request)
        self._writer: Writer | None = None
        self._find_start: Callable[[], Position] = Position
        self._restore: list[Callable[[], None]] = []
        self._closure_is_done = False
        self._is_down = False
        self._make_sources()

    def _make_sources(self) -> None:
        engine, guard = self._engine, self._guard
        self._saver = TensorSaver(engine, guard)
        self._flat_shards = FlatShards(self._parameter_names, self._saver.shards, guard)
        self._modules = TrainedModules(self._parameter_names)
        self._numbering = Numbering()
        self._loss_inputs = LossInputSource(engine, guard, saver=self._saver, numbering=self._numbering)
        self._in_training_mode = TrainingModeEvaluations(
            modules=self._modules,
            step=lambda: self._engine.step,
            counted=self._evaluation_counted,
            fuse=Fuse(guard, "watching for evaluations in training mode"),
        )
        self._evaluation = Evaluation(
            engine,
            modules=self._modules,
            saver=self._saver,
            loss_inputs=self._loss_inputs,
            changed=self._evaluation_changed,
            ended=self._evaluation_step_ends,
            reads_every_loss=lambda loss: self._statistics.is_on and not is_on_device(loss),
            in_training_mode=self._in_training_mode,
            fuse=Fuse(guard, "watching evaluation"),
        )
        self._eager = EagerSteps(is_allowed=self._request.compiled == "eager_step")
        self._module_source = ModuleSource(
            engine,
            fuse=Fuse(guard, "watching modules"),
            saver=self._saver,
            modules=self._modules,
            watcher=self._call_watcher(),
            eager=self._eager,
            numbering=self._numbering,
        )
        self._module_source.trial_calls = TrialCalls(
            engine, saver=self._saver, numbering=self._numbering, loss_inputs=self._loss_inputs
        )
        self._reductions = ReductionSource(engine)
        self._optimizer_source = OptimizerSource(engine, saver=self._saver, names=self._parameter_names)
        self._statistics = PyTorchStatistics(
            self._request.statistics,
            names=self._parameter_names,
            optimizer_name=self._optimizer_source.name,
            guard=guard,
        )
        protect = Fuse(guard, "watching whether gradients are cleared").protect
        self._step_numbers = StepNumbers(self._statistics, protect=protect)
        protect = Fuse(guard, "watching gradients before clipping").protect
        self._raw_gradients = RawGradients(
            engine, saver=self._saver, modules=self._modules, protect=protect, clipped=self._step_numbers.clipped
        )
        protect = Fuse(guard, "counting skipped steps").protect
        self._skipped_steps = SkippedSteps(engine, protect=protect, skipped=self._step_skipped)

        self._facts = ModelFactsSource(
            names=self._parameter_names,
            optimizer_name=self._optimizer_source.name,
            program=self._program,
            clipping=self._step_numbers.clipping_places,
            unmasked=self._module_source.unmasked,
            training_mode_evaluations=lambda: (self._in_training_mode.count, self._in_training_mode.place),
            protect=Fuse(guard, "recording what the model is made of").protect,
        )

    def _program(self) -> ProgramFacts:
        return ProgramFacts(
            framework="pytorch",
            framework_version=torch.__version__.partition("+")[0],
            has_grad_scaler=self._skipped_steps.has_scaler,
            world_size=Rank.of_this_process(self._environment).of,
            is_compiled=self._eager.is_compiler_used,
        )

    def _call_watcher(self) -> CallWatcher:
        return self._evaluation

    def _read_request(self, text: str) -> CaptureRequest:
        try:
            return read_capture_request(text)
        except ConfigurationError as error:
            self._misfits.append(error)  # said with the first step: helper processes that never train stay silent
            return CaptureRequest(())
        except StorageError as error:
            what = "the capture request cannot be read: %s. What is saved by default is saved instead."
            self._guard.say_once("request", what, describe(error))
            return CaptureRequest()

    def _read_at_last(self) -> None:
        """Reads a request that lies elsewhere, with the first sign that this process trains: its helpers import the
        framework too, and would each ask the network for it."""
        if not self._unread or torch.utils.data.get_worker_info() is not None:
            return
        text, self._unread = self._unread, ""
        self._request = self._read_request(text)
        self._eager.is_allowed = self._request.compiled == "eager_step"
        self._statistics.ask(self._request.statistics)
        self._engine.ask(self._request)

    @property
    def has_begun(self) -> bool:
        """True once the first step has been made, unless this process saves nothing."""
        return self._writer is not None

    def install(self) -> None:
        """Registers the hooks. Undone by `uninstall`, which only tests need."""
        self._short_way = ShortWay(
            self._engine,
            self._guard,
            statistics=self._statistics,
            numbers=self._step_numbers,
            facts=self._facts,
            evaluation=self._evaluation,
            skipped_steps=self._skipped_steps,
            look_ahead=self._look_ahead,
        )
        before = register_optimizer_step_pre_hook(self._hook_before_step())
        after = register_optimizer_step_post_hook(self._hook_after_step())
        self._restore = [
            before.remove,
            after.remove,
            self._wrap_backward(),
            self._wrap_optimizer_init(),
            self._evaluation.install(),
            self._raw_gradients.install(),
            self._skipped_steps.install(),
            self._eager.install(self._module_source.calls.absent),
            self._module_source.remove,
        ]
        if hasattr(os, "register_at_fork"):
            _call_in_children(weakref.WeakMethod(self._after_fork_in_child))

    def uninstall(self) -> None:
        """Removes every hook and closes the run."""
        self.close(CLOSE_SECONDS)
        for restore in self._restore:
            restore()

    def _hook_before_step(self) -> Callable[[Optimizer, Any, Any], tuple[Any, Any] | None]:
        long_way = untraced(self._guard.protect("capturing a step", self._before_step))
        short_way = self._short_way

        def before_step(optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
            is_open = not is_dynamo_compiling() and short_way.is_open and compiler_at_work() is None
            if is_open and short_way.begin(optimizer, args, kwargs):
                return None
            return long_way(optimizer, args, kwargs)

        skip_frame(before_step)
        return before_step

    def _hook_after_step(self) -> Callable[[Optimizer, Any, Any], None]:
        long_way = untraced(self._unless_down(self._guard.protect("ending a step", self._after_step)))
        short_way = self._short_way

        def after_step(optimizer: Optimizer, args: Any, kwargs: Any) -> None:
            is_open = not is_dynamo_compiling() and short_way.is_stepping and compiler_at_work() is None
            if not (is_open and short_way.end(optimizer)):
                long_way(optimizer, args, kwargs)

        skip_frame(after_step)
        return after_step

    def _wrap_backward(self) -> Callable[[], None]:
        original = torch.autograd.backward
        see_loss = untraced(self._guard.protect("reading the loss", self._see_loss))
        engine, evaluation, statistics = self._engine, self._evaluation, self._statistics
        numbers, cleared = self._step_numbers, self._step_numbers.cleared
        short_way = self._short_way

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            is_open = not is_dynamo_compiling() and short_way.is_open and compiler_at_work() is None
            if not (is_open and short_way.see_loss(args, kwargs)):
                if statistics.is_on or engine.due is not NOTHING or evaluation.is_watching:
                    see_loss(*args, **kwargs)
                if cleared.is_waiting:
                    numbers.before_backward()
            original(*args, **kwargs)
            if cleared.is_waiting:
                numbers.after_backward()

        skip_frame(backward)
        torch.autograd.backward = backward
        return functools.partial(setattr, torch.autograd, "backward", original)

    def _wrap_optimizer_init(self) -> Callable[[], None]:
        original = Optimizer.__init__
        created = untraced(self._guard.protect("meeting an optimizer", self._optimizer_created))

        @functools.wraps(original)
        def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it replaces one
            original(self, *args, **kwargs)
            created(self)

        skip_frame(__init__)
        setattr(Optimizer, "__init__", __init__)  # noqa: B010 - mypy forbids the plain assignment to a method
        return functools.partial(setattr, Optimizer, "__init__", original)

    def _optimizer_created(self, optimizer: Optimizer) -> None:
        self._short_way.close()
        if not is_being_spawned():
            self._read_at_last()
        self._boundary.created(optimizer)
        self._modules.optimizer_created(optimizer)
        self._facts.optimizer_created(optimizer)
        if self._writer is None:  # step 0 may save what is about to be computed
            self._look_ahead()

    def _unless_down(self, after_step: Callable[..., None]) -> Callable[..., None]:
        """`after_step`, and once capture has been switched off, nothing of it stays where it could be felt."""

        def run(*args: Any) -> None:
            after_step(*args)
            if self._guard.is_off and not self._is_down:
                self._guard.attempt("standing down", self._stand_down)

        return run

    def _stand_down(self) -> None:
        self._is_down = True
        self._module_source.remove()
        self._evaluation.end()

    # The step, in the order of events: losses, before the optimizer, after it.

    def _see_loss(self, tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        self._read_at_last()
        if self._evaluation.is_watching:
            self._evaluation.training_goes_on()
        if grad_tensors is not None or self._closure_is_done:
            return
        for tensor in (tensors,) if isinstance(tensors, torch.Tensor) else tensors:
            if isinstance(tensor, torch.Tensor) and tensor.numel() == 1 and not is_in_cuda_graph(tensor):
                started = self._statistics.budget.clock()
                loss = describe_loss(tensor.grad_fn)
                if self._facts.wants_loss(loss.name):
                    self._facts.loss_seen(tensor, loss)
                self._evaluation.trained_on(loss.name)
                self._statistics.add_loss(loss.name, tensor, loss.scale, mode=self._engine.mode, started=started)
                if self._engine.due is not NOTHING:
                    self._add_loss(tensor, loss)

    def _add_loss(self, tensor: torch.Tensor, loss: LossDescription) -> None:
        if self._engine.due.losses:
            value = self._loss_value(tensor, loss)
            if value is not None:
                self._engine.open_step.add_loss(loss.name, value)
        if loss.name == UNNAMED:
            self._add_parts(tensor.grad_fn)
        if self._loss_inputs.is_wanted and not self._loss_inputs.was_called(loss.name):
            try:
                inputs = inputs_in_graph(loss.node)
            except RuntimeError as error:
                self._guard.say_once("graph", "what a loss was computed from is gone: %s.", describe(error))
                return
            if inputs is not None:
                self._loss_inputs.add(loss.name, inputs, is_call=False)

    def _loss_value(self, tensor: torch.Tensor, loss: LossDescription) -> np.ndarray | None:
        """What the loss was before it was scaled; on a GPU, on its way, unless the scale lies there too."""
        if self._saver.is_sent(tensor) and not isinstance(loss.scale, LateScale):
            return self._saver.sent(loss.name, tensor, scale=loss.scale)
        value = self._saver.copied(loss.name, tensor)
        if value is None:
            return None
        scale = loss.read_scale()
        return value if scale == 1 else np.asarray(value / scale, value.dtype)

    def _add_parts(self, node: Any) -> None:
        """Adds the losses that a loss is the sum of, and what they were computed from."""
        if not (self._engine.due.losses or self._loss_inputs.is_wanted):
            return
        try:
            for part in parts_of(node):
                value = self._saver.copied(part.name, part.value) if self._engine.due.losses else None
                if value is not None:
                    self._engine.open_step.add_loss(part.name, value)
                inputs = inputs_in_graph(part.node) if self._loss_inputs.is_wanted else None
                if inputs is not None and not self._loss_inputs.was_called(part.name):
                    self._loss_inputs.add(part.name, inputs, is_call=False)
        except RuntimeError as error:
            self._guard.say_once("graph", "what a loss was computed from is gone: %s.", describe(error))

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if self._writer is None:
            with one_look():
                return PyTorchCapture._before_step(self, optimizer, args, kwargs) if self._start() else None
        self._closure_is_done = False
        if self._short_way.is_open:
            self._short_way.close()
        self._skipped_steps.has_stepped = True
        if self._evaluation.is_watching:
            self._evaluation.training_goes_on()
        if self._boundary.ends_before(optimizer):
            self._end_step(keep_unsettled=True)
        if self._facts.is_looking:
            self._facts.before_step(optimizer)
        if self._engine.due is NOTHING and not self._statistics.is_on:
            return None
        if self._engine.due is not NOTHING:
            self._skipped_steps.look_into(optimizer)
        wrapped = self._with_observed_closure(optimizer, args, kwargs) if kwargs or len(args) > 1 else None
        if wrapped is None:
            self._copy_parameters(optimizer)
        return wrapped

    def _after_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._closure_is_done = False
        is_due = self._engine.due is not NOTHING
        if is_due:
            self._optimizer_source.after_step(optimizer)
            self._flat_shards.note(optimizer)
        if self._statistics.is_on:
            self._statistics.after_step(optimizer)
            self._step_numbers.after_step(optimizer)
        if self._boundary.ends_after(optimizer):
            self._end_step()
            if self._statistics.is_on and self._may_take_short_way and self._boundary.has_one:
                self._short_way.open_after(optimizer)
            return
        self._statistics.settle(self._engine.mode)
        if is_due:
            self._engine.open_step.settle()
            self._loss_inputs.settle()
            self._numbering.settle(self._engine.mode)

    def _step_skipped(self, optimizer: Optimizer) -> None:
        """What led to a step that AMP has left out is of no step; the others of the step do not wait for it."""
        if self._engine.due is not NOTHING:
            self._engine.open_step.drop_unsettled()
            self._loss_inputs.drop_unsettled()
            self._numbering.drop_unsettled(self._engine.mode)
        if self._boundary.skipped(optimizer):
            self._end_step()

    def _evaluation_counted(self) -> None:
        self._facts.is_looking = True  # as the open step ends

    def _evaluation_changed(self) -> None:
        is_training = self._evaluation.is_on and self._engine.mode == TRAIN
        if is_training and not self._is_down and self._boundary.ends_with_evaluation():
            self._end_step(keep_unsettled=True)
        self._look_ahead()

    def _end_step(self, *, keep_unsettled: bool = False) -> None:
        due = self._engine.due
        self._facts.end_step(self._engine.step)
        if self._statistics.is_on:
            self._step_numbers.end_step()
            self._statistics.end_step(self._engine, keep_unsettled=keep_unsettled)
        if due is not NOTHING:
            self._step_ends(self._engine.mode, keep_unsettled=keep_unsettled)
        self._engine.end_step(keep_unsettled=keep_unsettled, renamed=self._numbering.renamed)
        if self._engine.due is not due:
            self._look_ahead()

    def _evaluation_step_ends(self, mode: str) -> None:
        self._statistics.evaluation_step_ends(self._engine, self._evaluation.losses)
        self._step_ends(mode)

    def _step_ends(self, mode: str, *, keep_unsettled: bool = False) -> None:
        self._module_source.step_ended(mode)
        self._loss_inputs.step_ended(mode, keep_unsettled=keep_unsettled)
        self._numbering.step_ended(mode, keep_unsettled=keep_unsettled)

    def _look_ahead(self) -> None:
        if not self._is_down:
            self._module_source.look_ahead(is_evaluating=self._evaluation.is_watching)

    def _with_observed_closure(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """The arguments of `step` with the closure wrapped, or None if there is none.

        A closure runs forward and backward inside of `step`, perhaps many times: before it the gradients are the last
        step's. Its first call is the one that stands for the step.
        """
        closure = kwargs.get("closure") if "closure" in kwargs else (args[1] if len(args) > 1 else None)
        if not callable(closure):
            return None
        copy_parameters = self._guard.protect("capturing a step", self._copy_parameters)

        @functools.wraps(closure, updated=())
        def observed(*closure_args: Any, **closure_kwargs: Any) -> Any:
            result = closure(*closure_args, **closure_kwargs)
            if not self._closure_is_done:
                self._closure_is_done = True
                copy_parameters(optimizer)
            return result

        if "closure" in kwargs:
            return args, {**kwargs, "closure": observed}
        return (args[0], observed, *args[2:]), kwargs

    def _copy_parameters(self, optimizer: Optimizer) -> None:
        """Copies what is there right before an optimizer's step: what this step's forward and backward passes used."""
        engine, save = self._engine, self._saver.save
        self._statistics.before_step(optimizer)
        if engine.due is NOTHING:
            return
        self._optimizer_source.before_step(optimizer)
        if "buffers" in engine.due.kinds:
            save_buffers(self._modules, engine, self._saver)
        wants_raw = "raw_gradients" in engine.due.kinds
        if not engine.due.parameters and not wants_raw:
            return
        scale = fused_scale(optimizer)
        named = list(self._parameter_names.of(optimizer))
        reduced = self._reductions.add(named, gradient_scale=scale)
        wanted: list[tuple[str, torch.Tensor]] = []
        for name, parameter in named:
            if name not in reduced and not engine.open_step.has(name):
                if collection := flat_collection(name):
                    save(name, parameter, collection=collection)
                else:
                    wanted.append((name, parameter))
            if parameter.grad is None:
                continue
            if f"gradient/{name}" not in reduced:
                if scale == 1.0:
                    wanted.append((f"gradient/{name}", parameter.grad))
                else:
                    save(f"gradient/{name}", parameter.grad, scale=scale)
            if wants_raw:
                self._raw_gradients.add_unclipped(name, parameter.grad, scale)
        self._saver.save_all(wanted)

    # The life of the run.

    def _start(self) -> bool:
        """Begins the run, with the first optimizer step of this process. False where none is to be captured."""
        if torch.utils.data.get_worker_info() is not None:
            return False
        self._read_at_last()
        if self._misfits:
            # Kept no longer: where it is raised it refers to each frame on its way, and to what the script has there.
            raise self._misfits.pop()
        rank = Rank.of_this_process(self._environment)
        started_ms = int(time.time() * 1000)
        if self._has_watermarks:
            self._watermark = WatermarkFile(
                self._open_watermarks, worker=worker_name(rank.number), workers=rank.of, started_ms=started_ms
            )
        saves_tensors = self._request.saves_tensors(rank.number)
        files = self._run_files(rank) if saves_tensors else NoFiles()
        log = StatisticsLog(
            self._open_statistics,
            worker=worker_name(rank.number),
            started_ms=started_ms,
            start=self._start_position,
            note_steps=self._stored_mode_steps.note,
        )
        self._writer = self._new_writer(rank, files, log)
        self._writer.start()
        self._statistics.connect(log)
        if saves_tensors:
            self._engine.connect(self._writer)
            if isinstance(files, RunFiles) and not self._request.tensorboard:  # else the tensors are wanted themselves
                self._reductions.start()
        else:
            self._engine.save_nothing()
            self._count_on_with_rank_0(rank)
        for optimizer in optimizers_beside(self._boundary.knows, seen=self._parameter_names.optimizers_seen):
            self._boundary.created(optimizer)
        self._saver.training_began()
        self._module_source.trial_calls = None
        self._evaluation.training_began()
        end = ProcessEnd(close=self.close, close_on_sigterm=self._close_on_sigterm, flush=self.flush)
        end.install()
        self._restore.append(end.remove)
        return True

    def _new_writer(self, rank: Rank, files: Any, log: StatisticsLog) -> Writer:
        """The writer thread's work: the files, what is flushed beside them, and the watermark over both."""
        facts = self._facts_files(rank)
        has_rows = self._statistics.is_on
        parts = (*facts, *((log,) if has_rows else ()))
        if self._watermark is None:
            return Writer(files, guard=self._guard, background=(self._saver.slabs, *parts))
        tensors = files if isinstance(files, RunFiles) else None
        marked = MarkedParts(
            self._watermark,
            parts,
            progress=Progress(self._handed_on, self._unstored_from, self._start_position),
            tensors=tensors,
            segments=(lambda: log.newest_segments) if has_rows else tuple,
            model_facts=lambda: sum(file.stored_revisions for file in facts),
            mode_steps=self._stored_mode_steps,
            guard=self._guard,
            flush_seconds=REMOTE_FLUSH_SECONDS if self._is_remote else FLUSH_SECONDS,
        )
        return Writer(files, guard=self._guard, background=(self._saver.slabs, marked))

    def _unstored_from(self) -> int | None:
        return self._writer.unstored_from() if self._writer is not None else None

    def _start_position(self) -> Position:
        return self._find_start()  # which is another function once the capture has looked at the run

    def _handed_on(self) -> int:
        """The last step of which everything has been handed to the writer. Called on the writer's thread."""
        through = self._statistics.recorded_through(self._engine.step - 1)
        if through is not None:
            self._was_handed_on = through
        return self._was_handed_on

    def _run_files(self, rank: Rank) -> RunFiles:
        """The files of this worker, and the steps counted on from where an earlier process of the run stopped."""
        tensorboard = self._request.tensorboard
        files = RunFiles(
            self._open_store,
            request=self._request,
            worker=worker_name(rank.number),
            num_workers=rank.of if self._request.include_workers == "all" else 1,
            ends_run=rank.number == 0,
            shards=self._saver.shards,
            position=self._engine.position,
            restarts=self._environment.is_sagemaker_job,
            ends_elsewhere=bool(self._environment.ended_by),
            agree=self._agreement(rank),
            open_tensorboard=functools.partial(open_store, _absolute(tensorboard)) if tensorboard else None,
            watermark=self._watermark,
            note_steps=self._stored_mode_steps.note,
        )
        self._find_start = files.start
        if not self._resume(files.resume):
            files.resume_later()
        return files

    def _facts_files(self, rank: Rank) -> tuple[ModelFactsFile, ...]:
        """The file of what the program is made of, where anything is stored at all."""
        facts = ModelFactsFile(self._open_store, worker=worker_name(rank.number), start=self._start_position)
        self._facts.connect(facts)
        return (facts,)

    def _agreement(self, rank: Rank) -> Callable[[FindState], TrainingState | None] | None:
        """How all workers come to know where earlier processes stopped; None where there is but one."""
        return functools.partial(agreed, rank) if rank.of > 1 else None

    def _count_on_with_rank_0(self, rank: Rank) -> None:
        """The same for a worker that saves no tensors: of what was recorded, the watermarks tell how far it goes."""

        def look() -> TrainingState | None:
            marks = self._watermark.earlier(None) if self._watermark is not None else ()
            return functools.reduce(further, map(state_at_mark, marks), None)

        @functools.cache  # once it is known, for all that is counted on from it
        def find() -> Position:
            return position_after(agreed(rank, look))

        if not self._resume(find):
            self._find_start = find

    def _resume(self, find: Callable[[], Position]) -> bool:
        """Counts steps on from where an earlier process of the run stopped; False if that cannot be told in time."""
        try:
            position = within_seconds(find, RESUME_SECONDS)
        except OSError:  # said with the first step that can therefore not be stored
            return False
        if position is None:
            what = "the run's store has not answered for %g s. Steps wait in memory until it tells what it holds."
            self._guard.say_once("resume", what, RESUME_SECONDS)
            return False
        self._engine.resume(position)
        return True

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """Hands on the last step if an optimizer made it, stores what is queued and ends the run. Never raises."""
        writer = self._writer
        if writer is None:
            return
        if not self._guard.is_off:
            self._guard.attempt("saving the last step of the evaluation", self._end_evaluation)
        if self._boundary.is_open and not self._guard.is_off:
            self._guard.attempt("saving the last step", self._end_step)
        self._statistics.finish()
        self._guard.attempt("ending the run", lambda: writer.close(timeout_seconds, is_interrupted=is_interrupted))
        self._guard.silence()

    def _end_evaluation(self) -> None:
        self._evaluation.end()
        before = self._in_training_mode.count
        self._in_training_mode.training_goes_on()
        if self._in_training_mode.count > before and not self._boundary.is_open:  # no step will end after it
            self._facts.end_step(max(0, self._engine.step - 1))

    def _close_on_sigterm(self) -> None:
        self.close(SIGTERM_SECONDS, is_interrupted=True)

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Waits until what is queued is stored, at most so long."""
        if self._writer is not None:
            self._statistics.finish()
            self._writer.flush(timeout_seconds)

    def _after_fork_in_child(self) -> None:
        """A child of a process that captures is a helper of it; one forked before the first step may be the trainer."""
        if self._writer is not None:
            self._writer = None
            self._guard.silence()


def _call_in_children(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    """What is called after a fork cannot be taken back: it must not keep a capture alive that has ended."""

    def call() -> None:
        alive = method()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=call)


def _absolute(uri: str) -> str:
    return uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))
