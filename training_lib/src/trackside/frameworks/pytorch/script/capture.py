"""The base of every explicit hook: a capture directed by the script, which begins when the model is first called.

Until then the script may still choose the data to save, and only a wrapper around the first call of any module is in
place. If TRACKSIDE_RUN is set, it wins over the script's address of the run, and both requests hold: the capture that
needs no change of the script leaves, so nothing is saved twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.ground.guard import Guard
from trackside.capture.place import Place, settled
from trackside.capture.session import RunSession, SessionOptions
from trackside.capture.steps.collection import OF_SMDEBUG
from trackside.capture.steps.open_step import SCALARS
from trackside.capture.steps.step_engine import TRAIN, Position
from trackside.capture.writing.kept_steps import KeptSteps
from trackside.contracts.capture_request import CaptureRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.ground.parameter_names import unwrapped
from trackside.frameworks.pytorch.ground.script_objects import modules_of
from trackside.frameworks.pytorch.losses.description import register_loss
from trackside.frameworks.pytorch.script.control import ScriptControl
from trackside.frameworks.pytorch.script.first_call import FirstCall
from trackside.frameworks.pytorch.script.values import scalar_value, tensor_value
from trackside.frameworks.pytorch.steps.sources import ExtraSource
from trackside.frameworks.pytorch.steps.times import StepTimes
from trackside.frameworks.shared import in_charge
from trackside.records.modes import checked_mode
from trackside.records.state_file import TrainingState

StepEnds = Callable[[Position, "int | None"], object]


class ScriptView:
    """The state of its capture that a script may read.

    Args:
        script: The capture that it directs.
    """

    def __init__(self, script: ScriptedCapture) -> None:
        self._script = script

    @property
    def has_begun(self) -> bool:
        """True from the first call of a model on."""
        return self._script.control is not None

    @property
    def mode(self) -> str:
        """The mode of the open step."""
        control = self._script.control
        return self._script.mode if control is None else str(control.engine.mode)

    @property
    def step(self) -> int:
        """The number of the step that the script is in, over all modes; -1 before the first.

        After `optimizer.step()` that is the step just made, until a model is called again.
        """
        control = self._script.control
        return -1 if control is None else control.step_of_script().step

    def mode_steps(self) -> dict[str, int]:
        """Return the same number for each mode that has begun: of another mode than the present one, its last step."""
        control = self._script.control
        if control is None:
            return {}
        now = control.step_of_script()
        counts = control.engine.position().mode_steps or {}
        return {**{mode: count - 1 for mode, count in counts.items() if count}, now.mode: now.mode_step}

    def position(self) -> tuple[str, int]:
        """Return (mode, step within it) that the script's own values go to."""
        control = self._script.control
        if control is None:
            return self._script.mode, 0
        now = control.step_of_script()
        return now.mode, now.mode_step

    @property
    def last_saved_step(self) -> int | None:
        """The number of the last step that had anything to save; None if none had."""
        control = self._script.control
        return None if control is None else control.last.latest

    def open_tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors of the open step so far."""
        control = self._script.control
        return {} if control is None else dict(control.engine.open_step.tensors())

    def due_collections(self) -> frozenset[str]:
        """Return the collections that the open step saves."""
        control = self._script.control
        return frozenset() if control is None else frozenset(control.engine.due.collections)


class ScriptedCapture:
    """The script's settings of its capture, and the calls that carry them out.

    No method raises except for a wrong argument; a failure inside is logged once, and the training goes on.

    Attributes:
        roots: The models that were registered.
        losses: The loss modules that were registered.
        mode: The mode that the script has set last.
        control: Directs the capture, from the first call of a model on; None before.
        has_begun: True from the first call of a model on.
        is_over: True once the script has ended it.
        now: The state that the script may read.

    Args:
        request: Returns the capture request. Called once, when the capture begins; its errors are logged then.
        place: The place of the run.
        kept: Keeps steps in memory.
        times: Times steps.
        saves_nothing: True if no tensor is saved.
        earlier: State of an earlier process from another source than the run.
        step_ends: Called at the end of each step with the position of the training before it, and the last saved step.
        as_smdebug: True if the tensors of registered models are those that smdebug saves: see `ModelTensors`. Regexes
            then match those alone, and scalars keep their types.
    """

    def __init__(
        self,
        request: Callable[[], CaptureRequest],
        *,
        place: Place,
        kept: KeptSteps | None = None,
        times: StepTimes | None = None,
        saves_nothing: bool = False,
        earlier: TrainingState | None = None,
        step_ends: StepEnds | None = None,
        as_smdebug: bool = False,
    ) -> None:
        self._request, self._place, self._as_smdebug = request, place, as_smdebug
        self._options = SessionOptions(
            kept=kept,
            saves_nothing=saves_nothing,
            earlier=earlier,
            holds_last_step=True,
            awaits_last_step=as_smdebug,
            kinds_of_regex=OF_SMDEBUG if as_smdebug else None,
        )
        self._extra = _extra_sources(times, step_ends)
        self._guard = Guard()
        self.roots: list[torch.nn.Module] = []
        self.losses: list[torch.nn.Module] = []
        self._optimizers: list[Optimizer] = []
        self.mode = TRAIN
        self.control: ScriptControl | None = None
        self.has_begun = False
        self.is_over = self._is_in_charge = False
        self.now = ScriptView(self)
        self._first_call = FirstCall(
            self._guard.protect("beginning to capture", self._begin),
            is_one=self._is_part_of_it,
            may_be_loss=lambda: not self.roots,
            before_step=self._guard.protect("capturing a step", functools.partial(_before_step, self)),
        )

    def register(self, module: torch.nn.Module) -> None:
        """Capture a model. From then on only registered models are captured."""
        self.roots.append(module)
        if self.control is not None:
            self._attempt("registering a model", self.control.register, module)

    def register_loss(self, loss: torch.nn.Module) -> None:
        """Save the output of a loss module, under the name of its class."""
        register_loss(loss)
        self.losses.append(loss)
        if self.control is not None:
            self._attempt("registering a loss", self.control.register_loss, loss)

    def register_optimizer(self, optimizer: Optimizer) -> None:
        """Watch an optimizer."""
        self._optimizers.append(optimizer)
        if self.control is not None:
            self._attempt("registering an optimizer", self.control.register_optimizer, optimizer)

    def set_mode(self, mode: str) -> None:
        """Set the mode of the steps from now on.

        Raises:
            ValueError: It is no mode.
        """
        self.mode = checked_mode(mode)
        if self.control is not None:
            self._attempt("setting the mode", self.control.set_mode, mode)

    def end_step(self) -> None:
        """End the step here; see `ScriptControl.end_step`."""
        if control := self._begun():
            self._attempt("ending a step", control.end_step)

    def save_tensor(self, name: str, value: Any, *, collections: Iterable[str]) -> None:
        """Add a tensor, array, number, text or list to the open step. A value that cannot be saved is logged once."""
        self._attempt("saving a tensor", self._save, name, frozenset(collections), tensor_value, name, value)

    def save_scalar(self, name: str, value: Any, *, wall_time: float | None = None) -> None:
        """Add `scalar/<name>` to the open step. A value that is no single number is logged once.

        `wall_time` is its moment in seconds since the epoch, if not that of the step.
        """
        read = functools.partial(scalar_value, keeps_type=self._as_smdebug)
        save = functools.partial(self._save, wall_time=wall_time)
        self._attempt("saving a scalar", save, f"scalar/{name}", frozenset({SCALARS}), read, name, value)

    def record(self, name: str, tensor: torch.Tensor) -> None:
        """Add `<name>_output_<k>` to the open step if that saves it."""
        if control := self._begun():
            self._attempt("recording a tensor", control.record, name, tensor)

    def close(self) -> None:
        """End the run, the last step with it. Nothing is captured from then on. A second call does nothing."""
        if self.is_over:
            return
        self._first_call.remove()
        if self.control is None:
            self._guard.protect("beginning to capture", self._begin)()
        self.is_over = True
        control = self.control
        if control is not None and not self._guard.is_off:
            self._guard.attempt("ending the run", control.begin)
            self._guard.attempt("ending the run", control.close)  # it looks ahead once more, so it comes first
            self._guard.attempt("ending the run", control.uninstall)
            if self._is_in_charge:
                in_charge.leave()

    def retire(self, *, is_gone: bool) -> None:
        """End the capture, and leave its run open for another hook of this process.

        Store nothing more if it was removed: `is_gone` is True if it is not to be found.
        """
        self._first_call.remove()
        was_over, self.is_over = self.is_over, True
        if self.control is not None and not was_over:
            if self.control.adapter.session.leave_open(is_gone=is_gone):  # an open step goes nowhere
                self.control.adapter.session.guard.switch_off_silently()
            self._guard.attempt("leaving the run", self.control.uninstall)

    def abandon(self) -> None:
        """Remove the capture before it has begun; it never will."""
        self._first_call.remove()
        self.is_over = True

    def flush(self) -> None:
        """Wait until all steps that have ended are stored, at most some seconds."""
        if self.control is not None and not self.is_over:
            self.control.flush()

    def begin(self) -> None:
        """Begin now, if it has not begun."""
        self._begun()

    def _is_part_of_it(self, module: torch.nn.Module) -> bool:
        if not self.roots:
            return True
        called = {id(module), id(unwrapped(module))}  # what `torch.compile` and DDP give has the model inside
        return any(id(part) in called for root in (*self.roots, *self.losses) for part in modules_of(root))

    def _begun(self) -> ScriptControl | None:
        """Return the control of the capture, which begins now if it has not begun; None once it is over."""
        if self.control is None and not self.is_over:
            self._first_call.remove()
            self._guard.protect("beginning to capture", self._begin)()
        return None if self.is_over else self.control

    def _begin(self) -> None:
        if self.control is not None or self.is_over or torch.utils.data.get_worker_info() is not None:
            return
        environment = CaptureEnvironment.read()
        self._is_in_charge = bool(environment.run_uri) and in_charge.put_script_in_charge()
        if environment.run_uri and not self._is_in_charge:
            message = "the run in %s has begun already, so the hook in the script captures nothing."
            self._guard.warn_once("begun", message, environment.run_uri)
            self._guard.switch_off_silently()
            return
        control = self.control = self._new_control(environment)
        self.has_begun = True
        control.install()
        for module in self.roots:
            control.register(module)
        for loss in self.losses:
            control.register_loss(loss)
        for optimizer in self._optimizers:
            control.register_optimizer(optimizer)
        control.set_mode(self.mode)

    def _new_control(self, environment: CaptureEnvironment) -> ScriptControl:
        environment, options = settled(self._place, self._request(), environment, self._options, guard=self._guard)
        return ScriptControl(environment, options=options, extra=self._extra, as_smdebug=self._as_smdebug)

    def _attempt(self, doing: str, function: Callable[..., Any], *args: Any) -> None:
        if not self._guard.is_off and not self.is_over:
            self._guard.attempt(doing, functools.partial(function, *args))

    def _save(
        self,
        name: str,
        collections: frozenset[str],
        read: Callable[..., np.ndarray | None],
        *given: Any,
        wall_time: float | None = None,
    ) -> None:
        control = self._begun()
        array = None if control is None else read(*given, self._guard)
        if control is not None and array is not None:
            control.add(name, array, collections, wall_time=wall_time)


def _before_step(script: ScriptedCapture, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
    """Show the capture an optimizer's step that was under way when it began. Return other arguments for it, if any."""
    return None if script.control is None else script.control.adapter.steps.before_optimizer(optimizer, args, kwargs)


class _StepEnds:
    """A source that calls a function at the end of each step."""

    def __init__(self, call: StepEnds, session: RunSession) -> None:
        self._call, self._session = call, session

    def step_ending(self) -> None:
        """Call the function with the position of the training; see `Source`."""
        engine, last = self._session.engine, self._session.last
        if engine.step and self._session.is_start_known:
            self._call(engine.position(), last.latest if last is not None else None)


def _extra_sources(times: StepTimes | None, step_ends: StepEnds | None) -> list[ExtraSource]:
    found: list[ExtraSource] = []
    if step_ends is not None:
        found.append(lambda session, _: _StepEnds(step_ends, session))
    if times is not None:
        found.append(lambda session, modules: times.of(modules, guard=session.guard))
    return found
