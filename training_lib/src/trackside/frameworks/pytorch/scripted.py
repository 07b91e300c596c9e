"""What every explicit hook is: a directed capture that begins when the model is first called.

Until then the script may still say what is to be saved, and nothing is in place but a wrapper around the first call of
any module. Where TRACKSIDE_RUN is set, the run lies there and not where the script says, and both requests hold: the
capture that needs no change of the script gives way, so nothing is saved twice.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.asked_request import read_capture_request
from trackside.capture.guard import Guard, describe
from trackside.capture.kept_steps import KeptSteps
from trackside.capture.open_step import SCALARS
from trackside.capture.step_engine import TRAIN
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError, StorageError
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks import pytorch
from trackside.frameworks.pytorch.copying import copy_to_array
from trackside.frameworks.pytorch.directed import DirectedCapture, StepEnds
from trackside.frameworks.pytorch.losses import register_loss
from trackside.frameworks.pytorch.names import unwrapped
from trackside.frameworks.pytorch.step_times import StepTimes
from trackside.frameworks.pytorch.tracing import skip_frame
from trackside.records.modes import checked_mode
from trackside.records.state_file import TrainingState
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """Where a hook writes: a run, or only the folder of one's tensors; neither for memory alone.

    Both are a folder or `s3://bucket/prefix`.
    """

    run: str = ""
    tensors: str = ""

    @property
    def is_memory_only(self) -> bool:
        """True if nothing is written."""
        return not self.run and not self.tensors

    def location(self) -> RunLocation:
        """The run. A bare folder of tensors is taken for a run of that name; see `open`."""
        return RunLocation(self.run or self.tensors.removesuffix("/debug-output") or ".")

    @property
    def is_bare(self) -> bool:
        """True if tensors lie there and nothing else, so that there is no place for statistics."""
        return bool(self.tensors) and not self.tensors.rstrip("/").endswith("/debug-output")

    def open(self, uri: str) -> Store:
        """Opens what PyTorchCapture takes for the run's tensors, or statistics."""
        return open_store(uri.removesuffix("/debug-output") if self.is_bare else uri)


class ScriptedCapture:
    """Holds what the script says, and hands it on.

    No method raises but for a wrong argument; what fails inside is said once, and the training goes on. `request` is
    asked for once, when the capture begins; its errors are said then, too. `earlier` and `step_ends` are
    `DirectedCapture`'s.
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
    ) -> None:
        self._request, self._place = request, place
        self._earlier, self._step_ends = earlier, step_ends
        self._kept, self._times = kept, times
        self._saves_nothing = saves_nothing
        self._own_guard = Guard()
        self._roots: list[torch.nn.Module] = []
        self._losses: list[torch.nn.Module] = []
        self._optimizers: list[Optimizer] = []
        self._mode = TRAIN
        self._capture: DirectedCapture | None = None
        self._is_over = False
        self._first_call = _FirstCall(
            self._own_guard.protect("beginning to capture", self._begin),
            is_one=self._is_part_of_it,
            may_be_loss=lambda: not self._roots,
        )

    # What the script says.

    def register(self, module: torch.nn.Module) -> None:
        """Tells of a model. From then on only registered models are captured."""
        self._roots.append(module)
        if self._capture is not None:
            self._attempt("registering a model", self._capture.register, module)

    def register_loss(self, loss: torch.nn.Module) -> None:
        """Tells of a loss module, which is captured under the name of its class."""
        register_loss(loss)
        self._losses.append(loss)
        if self._capture is not None:
            self._attempt("registering a loss", self._capture.register_loss, loss)

    def register_optimizer(self, optimizer: Optimizer) -> None:
        """Tells of an optimizer."""
        self._optimizers.append(optimizer)
        if self._capture is not None:
            self._attempt("registering an optimizer", self._capture.register_optimizer, optimizer)

    def roots(self) -> Iterable[torch.nn.Module]:
        """The models that were registered."""
        return tuple(self._roots)

    def set_mode(self, mode: str) -> None:
        """Says what the steps from now on are for. Errors: `ValueError` for no mode."""
        self._mode = checked_mode(mode)
        if self._capture is not None:
            self._attempt("setting the mode", self._capture.set_mode, mode)

    def end_step(self) -> None:
        """Ends the step here; see `DirectedCapture.end_step`."""
        if self._begun():
            self._attempt("ending a step", self._capture.end_step)  # type: ignore[union-attr]  # it has begun

    def save_tensor(self, name: str, value: Any, *, collections: Iterable[str]) -> None:
        """Adds a tensor, array, number, text or list to the open step. What cannot be taken is said once."""
        if self._begun():
            self._attempt("saving a tensor", self._save_tensor, name, value, frozenset(collections))

    def save_scalar(self, name: str, value: Any) -> None:
        """Adds `scalar/<name>` to the open step. What is no single number is said once."""
        if self._begun():
            self._attempt("saving a scalar", self._save_scalar, name, value)

    def record(self, name: str, tensor: torch.Tensor) -> None:
        """Adds `<name>_output_<k>` to the open step if that saves it."""
        if self._begun():
            self._attempt("recording a tensor", self._capture.record, name, tensor)  # type: ignore[union-attr]  # as above

    def close(self) -> None:
        """Ends the run; the last step with it. Nothing is captured from then on. A second call does nothing."""
        if self._is_over:
            return
        self._first_call.remove()
        if self._capture is None:
            self._own_guard.protect("beginning to capture", self._begin)()
        self._is_over = True
        capture = self._capture
        if capture is not None and not self._is_off:
            self._own_guard.attempt("ending the run", capture.begin)
            self._own_guard.attempt("ending the run", capture.close)  # it looks ahead once more, so it comes first
            self._own_guard.attempt("ending the run", capture.uninstall)

    def abandon(self) -> None:
        """Takes it off before it has begun; it never will."""
        self._first_call.remove()
        self._is_over = True

    # What it may ask.

    @property
    def mode(self) -> str:
        """The mode of the open step."""
        return self._mode if self._capture is None else str(self._capture.engine.mode)

    @property
    def step(self) -> int:
        """The number of the step that the script is in, over all modes; -1 before the first.

        After `optimizer.step()` that is the step just made, until a model is called again.
        """
        return -1 if self._capture is None else self._capture.step_of_script().step

    def mode_steps(self) -> dict[str, int]:
        """The same for each mode that has begun, as it counts within that mode."""
        if self._capture is None:
            return {}
        now = self._capture.step_of_script()
        counts = self._capture.engine.position().mode_steps or {}
        return {**{mode: count for mode, count in counts.items() if count}, now.mode: now.mode_step}

    def position(self) -> tuple[str, int]:
        """(mode, step within it) that the script's own values go to."""
        if self._capture is None:
            return self._mode, 0
        now = self._capture.step_of_script()
        return now.mode, now.mode_step

    @property
    def last_saved_step(self) -> int | None:
        """The number of the last step that had anything to save; None if there was none."""
        return None if self._capture is None else self._capture.last_saved_step

    def losses(self) -> Iterable[torch.nn.Module]:
        """The losses that were registered."""
        return tuple(self._losses)

    def open_tensors(self) -> dict[str, np.ndarray]:
        """What the open step holds so far."""
        return {} if self._capture is None else dict(self._capture.engine.open_step.tensors())

    def due_collections(self) -> frozenset[str]:
        """The collections that the open step saves."""
        return frozenset() if self._capture is None else frozenset(self._capture.engine.due.collections)

    @property
    def has_begun(self) -> bool:
        """True from the first call of a model on."""
        return self._capture is not None

    @property
    def is_over(self) -> bool:
        """True once the script has ended it."""
        return self._is_over

    def flush(self) -> None:
        """Waits until all steps that have ended are where they belong; at most some seconds."""
        if self._capture is not None:
            self._capture.flush()

    def begin(self) -> None:
        """Begins now, if it has not."""
        self._begun()

    # The beginning.

    def _is_part_of_it(self, module: torch.nn.Module) -> bool:
        if not self._roots:
            return True
        called = {id(module), id(unwrapped(module))}  # what `torch.compile` and DDP give has the model inside
        return any(id(part) in called for root in (*self._roots, *self._losses) for part in root.modules())

    @property
    def _is_off(self) -> bool:
        return self._own_guard.is_off

    def _begun(self) -> bool:
        if self._capture is None and not self._is_over:
            self._first_call.remove()
            self._own_guard.protect("beginning to capture", self._begin)()
        return self._capture is not None and not self._is_over

    def _begin(self) -> None:
        if self._capture is not None or self._is_over or torch.utils.data.get_worker_info() is not None:
            return
        asked = CaptureEnvironment.read()
        if asked.run_uri and not pytorch.give_way():
            what = "the run in %s has begun already, so the hook in the script captures nothing."
            self._own_guard.say_once("begun", what, asked.run_uri)
            self._own_guard.silence()
            return
        capture = self._capture = self._directed(asked)
        capture.install()
        for module in self._roots:
            capture.register(module)
        for loss in self._losses:
            capture.register_loss(loss)
        for optimizer in self._optimizers:
            capture.register_optimizer(optimizer)
        capture.set_mode(self._mode)

    def _directed(self, asked: CaptureEnvironment) -> DirectedCapture:
        request = self._request()
        place = self._place
        if asked.run_uri:
            request = _with_the_runs_own(request, asked.capture_request)
            what = "the run lies in %s (TRACKSIDE_RUN), with what the hook in the script asks for%s."
            unused = place.run or place.tensors
            told = f"; nothing is written to {unused}" if unused else ""
            self._own_guard.say_once("place", what, asked.run_uri, told)
            place = Place(run=asked.run_uri)
        elif place.is_memory_only or place.is_bare:
            request = replace(request, statistics=replace(request.statistics, enabled=False))
        environment = replace(asked, run_uri=place.location().uri, capture_request=request.to_json())
        return DirectedCapture(
            environment,
            open_store=place.open,
            has_watermarks=not (place.is_memory_only or place.is_bare),
            kept=self._kept,
            is_kept_only=place.is_memory_only,
            times=self._times,
            saves_nothing=self._saves_nothing,
            earlier=self._earlier,
            step_ends=self._step_ends,
        )

    # Values.

    def _attempt(self, doing: str, function: Callable[..., Any], *args: Any) -> None:
        if not self._is_off and not self._is_over:
            self._own_guard.attempt(doing, functools.partial(function, *args))

    def _save_tensor(self, name: str, value: Any, collections: frozenset[str]) -> None:
        array = _array(value)
        if array is None:
            what = "%s cannot be saved, as a %s is no tensor."
            self._own_guard.say_once(f"value/{name}", what, name, type(value).__name__)
        elif self._capture is not None:
            self._capture.add(name, array, collections)

    def _save_scalar(self, name: str, value: Any) -> None:
        try:
            array = np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value, np.float64)
        except (TypeError, ValueError) as error:
            self._own_guard.say_once(f"scalar/{name}", "%s is no scalar: %s.", name, describe(error))
            return
        if array.size != 1:
            what = "%s is no scalar, but has the shape %s."
            self._own_guard.say_once(f"scalar/{name}", what, name, array.shape)
        elif self._capture is not None:
            value = np.array([float(array.reshape(()))], np.float64)
            self._capture.add(f"scalar/{name}", value, frozenset({SCALARS}))


def _with_the_runs_own(request: CaptureRequest, text: str) -> CaptureRequest:
    try:
        return request.merged_with(read_capture_request(text)) if text else request
    except (ConfigurationError, StorageError) as error:
        logger.warning("Trackside: TRACKSIDE_CAPTURE_REQUEST is passed over: %s.", describe(error))
        return request


def _array(value: Any) -> np.ndarray | None:
    """A copy of what the user gave; a scalar has the shape (1,), as smdebug saves it. None for what is no tensor."""
    if isinstance(value, torch.Tensor):
        return copy_to_array(value)
    if isinstance(value, dict) or value is None:
        return None
    try:
        array = np.array(value)
    except ValueError:  # a list of lists of different lengths
        return None
    if array.dtype.kind == "O":
        return None
    return array.reshape(1) if np.isscalar(value) else array


class _FirstCall:
    """Calls `begin` right before the first call of a module that is one, or the first backward pass if `may_be_loss`.

    Then it is gone.
    """

    def __init__(
        self,
        begin: Callable[[], object],
        *,
        is_one: Callable[[torch.nn.Module], bool],
        may_be_loss: Callable[[], bool],
    ) -> None:
        self._begin, self._is_one, self._may_be_loss = begin, is_one, may_be_loss
        self._is_pending = True
        self._undo = [
            _replaced(torch.nn.Module, "__call__", self._call_wrapper),
            _replaced(torch.autograd, "backward", self._backward_wrapper),
        ]

    def remove(self) -> None:
        """Takes it away."""
        self._is_pending = False
        for undo in self._undo:
            undo()

    def _is_due(self) -> bool:
        if not self._is_pending or torch.compiler.is_compiling():
            return False
        return torch.utils.data.get_worker_info() is None

    def _call_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        first = self

        @functools.wraps(original)
        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it replaces one
            if not first._is_due() or not first._is_one(self):
                return original(self, *args, **kwargs)
            first.remove()
            first._begin()
            # What the capture has just put in place must see this call too.
            return torch.nn.Module.__call__(self, *args, **kwargs)

        return __call__

    def _backward_wrapper(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not self._is_due() or not self._may_be_loss():
                return original(*args, **kwargs)
            self.remove()
            self._begin()
            return torch.autograd.backward(*args, **kwargs)

        return backward


def _replaced(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[], None]:
    """Puts a wrapper in the place of a function. Gives what undoes it; below another's it stays, inert."""
    original = getattr(owner, name)
    stand_in = wrapper(original)
    skip_frame(stand_in)
    setattr(owner, name, stand_in)

    def undo() -> None:
        if getattr(owner, name) is stand_in:
            setattr(owner, name, original)

    return undo
