"""The recorder of training steps: it turns each loss that `backward` is called on into a `StepProgram`.

Calls of root modules are observed by a replacement of `Module.__call__`, functions of PyTorch between them by a
function mode, which is in place from the end of a root module's call until the backward pass only: never inside of a
module, where it would disturb the compiler.
"""

from __future__ import annotations

import functools
from _thread import get_ident
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from trackside.capture.ground.guard import Guard
from trackside.frameworks.pytorch.compiling.tracing import skip_frame
from trackside.frameworks.pytorch.ground.memory import has_memory, with_memory
from trackside.frameworks.pytorch.ground.parameter_names import unwrapped
from trackside.frameworks.pytorch.ground.random_state import RandomState
from trackside.frameworks.pytorch.ground.script_objects import modules_of
from trackside.frameworks.pytorch.ground.structures import is_no_computation
from trackside.rehearsal.contents import rebuilt, tensors_in
from trackside.rehearsal.gradient_changes import GradientWatch
from trackside.rehearsal.kept_tensors import KeptTensor, kept_tensors
from trackside.rehearsal.seen_draws import SeenDraws
from trackside.rehearsal.seen_labels import SeenLabels
from trackside.rehearsal.step_program import Autocast, Call, StepProgram

MOST_CALLS = 5000  # between two steps of an optimizer
_CHANGE_FIRST = {"__setitem__", "__delitem__"}
_IN_PLACE = {"__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__", "__iand__", "__ior__", *_CHANGE_FIRST}
_UNKNOWN = (
    "the loss takes a tensor that a model has computed, and that no call has returned and no module keeps in an "
    "attribute: to have it probed, return it from forward"
)
_NEVER_RECORDED = {"backward", "__set__", "register_hook", "retain_grad", "__hash__", "__repr__"}


class StepRecorder:
    """Records the calls of the thread that trains, and keeps the newest programs.

    Args:
        guard: Keeps failures of the recording from the training.
        is_others: Returns True once the run of this process is another framework's, and nothing here is of use.

    Attributes:
        programs: The losses of the newest step of each optimizer, with the optimizer.
        labels: The labels of all losses so far.
        draws: The random states of all steps so far.
        gradients: The changes of gradients before the newest step of each optimizer.
    """

    def __init__(self, guard: Guard, *, is_others: Callable[[], bool] = bool) -> None:
        self._is_others = is_others
        self.programs: list[tuple[Optimizer, tuple[StepProgram, ...]]] = []
        self.gradients = GradientWatch(guard.protect)
        self.labels, self.draws = SeenLabels(), SeenDraws()
        self._passes = 0
        self._protect = guard.protect
        self._trace = _Trace()
        self._since: dict[int, int] = {}  # end of the trace at the last step, by optimizer
        self._losses: list[StepProgram] = []
        self._depth = 0
        self._is_in_backward = False
        self._is_paused = True  # `Tensor.backward` is called below the mode, which cannot be removed then
        self._thread: int | None = None
        self._kept: dict[int, tuple[torch.Tensor, KeptTensor]] | None = None  # of the modules called so far
        self._mode = _Mode(self._function_called)
        self._undo: list[Callable[[], object]] = []

    @property
    def size(self) -> int:
        """Number of calls that it holds."""
        return self._trace.end - self._trace.dropped

    def install(self) -> None:
        """Begin to record."""
        self.gradients.install()
        self._undo = [self._replace_call(), self._replace_backward(), self.gradients.remove]

    def remove(self) -> None:
        """Leave PyTorch as it was, and forget everything but the programs."""
        self._switch_mode(on=False)
        for undo in reversed(self._undo):
            undo()
        self._undo = []
        self._trace, self._kept = _Trace(), None

    def take_passes(self) -> int:
        """Return the number of backward passes since the call before."""
        passes, self._passes = self._passes, 0
        return passes

    def stepped(self, optimizer: Optimizer) -> None:
        """Assign the losses since the last step to this optimizer, and drop the calls that no later loss can need."""
        self._switch_mode(on=False)
        if self._losses:
            if self._losses[0].calls:
                self.draws = self.draws.and_step(self._losses[0].calls[0].random, RandomState.now())
            rest = [pair for pair in self.programs if pair[0] is not optimizer]
            self.programs = [*rest, (optimizer, tuple(self._losses))]
            self._losses = []
        self._kept = None
        self._trace.drop(self._since.get(id(optimizer), 0))
        self._since[id(optimizer)] = self._trace.end
        if self.size > MOST_CALLS:
            self._trace.drop(self._trace.end)

    def _replace_call(self) -> Callable[[], None]:
        original, recorder = torch.nn.Module.__call__, self
        before, after = self._protect("recording a call", self._before), self._protect("recording a call", self._after)

        @functools.wraps(original)
        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it replaces one
            if torch.compiler.is_compiling() or recorder._depth or not recorder._is_here():
                return original(self, *args, **kwargs)
            was_on = not recorder._is_paused
            recorder._switch_mode(on=False)
            begun = before(self, args, kwargs)
            recorder._depth += 1
            try:
                output = original(self, *args, **kwargs)
            finally:
                recorder._depth -= 1
                if (
                    was_on
                ):  # a model without gradients, whose results are part of the loss, as those of a target network
                    recorder._switch_mode(on=True)
            if begun is not None:
                after(begun, output)
            return output

        skip_frame(__call__)
        setattr(torch.nn.Module, "__call__", __call__)  # noqa: B010 - mypy forbids the plain assignment to a method

        def undo() -> None:
            if torch.nn.Module.__call__ is __call__:
                setattr(torch.nn.Module, "__call__", original)  # noqa: B010 - as above

        return undo

    def _replace_backward(self) -> Callable[[], None]:
        original = torch.autograd.backward
        see_loss = self._protect("recording a loss", self._loss_seen)

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            is_outermost = not self._is_in_backward  # under a function mode PyTorch calls it again, from within
            if is_outermost and not self._depth and self._is_here():
                see_loss(*args, **kwargs)
            self._is_in_backward = True
            try:
                original(*args, **kwargs)
            finally:
                self._is_in_backward = not is_outermost

        skip_frame(backward)
        torch.autograd.backward = backward

        def undo() -> None:
            if torch.autograd.backward is backward:
                torch.autograd.backward = original

        return undo

    def _is_here(self) -> bool:
        return (self._thread is None or self._thread == get_ident()) and not is_no_computation()

    def _before(self, module: torch.nn.Module, args: Any, kwargs: Any) -> _Begun | None:
        """Copy the arguments, which the call may write over."""
        if self._is_others():
            self.remove()
            return None
        inner = unwrapped(module)
        if not torch.is_grad_enabled() and not any(each.training for each in modules_of(inner)):
            return None  # an evaluation, or features of a model that is not trained
        self._thread = get_ident()
        return self._begun(inner, args, kwargs)

    def _after(self, begun: _Begun, output: Any) -> None:
        self._trace.add(begun, tensors_in(output))
        self._kept = None
        if torch.is_grad_enabled():
            self._switch_mode(on=True)

    def _function_called(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        name = getattr(function, "__name__", "")
        if (
            self._is_paused
            or self._depth
            or name in _NEVER_RECORDED
            or not self._is_here()
            or not self._is_concerned(args, kwargs)
        ):
            return function(*args, **kwargs)
        begun = self._begun(function, args, kwargs)
        self._depth += 1
        try:
            result = function(*args, **kwargs)
        finally:
            self._depth -= 1
        changed = name in _CHANGE_FIRST
        outputs = tensors_in(args[0] if changed else result)
        if outputs:
            self._trace.add(begun, outputs, changes_first=changed)
        return result

    def _is_concerned(self, args: Any, kwargs: Any) -> bool:
        found = tensors_in(args, kwargs)
        return any(isinstance(each, torch.nn.Parameter) or self._knows(each) for each in found)

    def _knows(self, tensor: torch.Tensor) -> bool:
        """Return True for the result of a call, for one that a called module keeps, and for one in another class.

        What is kept is recorded as read, and what was put into a class of its own (fastai's `TensorBase`) as put there:
        PyTorch shows no mode how that was done.
        """
        if self._trace.knows(tensor):
            return True
        if tensor.grad_fn is None:
            return False
        if (source := self._trace.source_of(tensor)) is not None:
            put = torch._C.TensorBase.as_subclass  # fastai replaces that of `torch.Tensor`
            self._trace.add(self._begun(put, (source, type(tensor)), {}), [tensor])
            return True
        if self._kept is None:
            self._kept = kept_tensors(self._trace.called_modules())
        known, reader = self._kept.get(id(tensor), (None, None))
        if reader is None or known is not tensor or reader.find() is not tensor:
            return False
        self._trace.add(_Begun(reader, ((), {}), {}, is_unknown=False), [tensor])
        return True

    def _begun(self, call: Callable[..., Any], args: Any, kwargs: Any) -> _Begun:
        slots: dict[int, int] = {}
        unknown: list[torch.Tensor] = []

        def copied(tensor: torch.Tensor) -> torch.Tensor:
            if self._knows(tensor):
                mark = torch.empty(0)
                slots[id(mark)] = self._trace.number(tensor)
                return mark
            if isinstance(tensor, torch.nn.Parameter):
                return tensor
            if not has_memory(tensor):
                unknown.append(tensor)
                return tensor
            if tensor.requires_grad and not tensor.is_leaf:
                unknown.append(tensor)
            return tensor.detach().clone().requires_grad_(tensor.requires_grad)

        arguments = (rebuilt(tuple(args), copied), rebuilt(dict(kwargs), copied))
        return _Begun(call, arguments, slots, is_unknown=bool(unknown))

    def _loss_seen(self, tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        self._switch_mode(on=False)
        self.gradients.backward_began()
        self._passes += 1
        losses = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        program = None
        if len(losses) == 1 and grad_tensors is None and losses[0].numel() == 1 and self._trace.knows(losses[0]):
            program = self._trace.program(losses[0])
        if program is None:
            why = "the script's backward pass does not begin at one number that follows from calls of the model"
            program = StepProgram((), -1, float("nan"), why)
        self._losses.append(program)
        self.labels = self.labels.and_those_of(program)

    def _switch_mode(self, *, on: bool) -> None:
        self._is_paused = not on
        stack = _get_current_function_mode_stack()  # type: ignore[no-untyped-call] # torch's own omission
        if (self._mode in stack) == on:
            return
        for _ in stack:
            _pop_mode()  # type: ignore[no-untyped-call] # as above
        rest = [mode for mode in stack if mode is not self._mode]
        if on:  # at the bottom, so that the end of a `with` block of the user's removes the user's own mode
            rest.insert(int(bool(rest) and rest[0] is _default_device()), self._mode)
        for mode in rest:
            _push_mode(mode)  # type: ignore[no-untyped-call] # as above


class _Mode(TorchFunctionMode):
    """Passes each call of a function of PyTorch on."""

    def __init__(self, called: Callable[[Callable[..., Any], Any, Any], Any]) -> None:
        super().__init__()
        self._called = called

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._called(func, args, kwargs or {})


class _Begun:
    """A call that has begun: its copied arguments, and the state of the process and of the module."""

    def __init__(
        self,
        call: Callable[..., Any],
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        slots: dict[int, int],
        *,
        is_unknown: bool,
    ) -> None:
        self.call, self.arguments, self.slots, self.is_unknown = call, arguments, slots, is_unknown
        self.has_gradients = torch.is_grad_enabled()
        self.autocast = _autocast()
        self.random = RandomState.now()
        modules = modules_of(call) if isinstance(call, torch.nn.Module) else []
        self.modes = tuple((module, module.training) for module in modules)
        held = {
            id(t): t
            for module in modules
            for t in (*module._parameters.values(), *module._buffers.values())
            if t is not None
        }
        is_lazy = any(torch.nn.parameter.is_lazy(tensor) for tensor in held.values())
        self.state = () if is_lazy else tuple((t, t.detach().clone()) for t in with_memory(held.values()))


class _Trace:
    """The calls recorded so far, with their results, which stay alive so that no id is given twice."""

    def __init__(self) -> None:
        self.dropped = 0
        self._calls: list[tuple[Call, bool]] = []
        self._numbers: dict[int, tuple[torch.Tensor, int]] = {}
        self._next = 0

    @property
    def end(self) -> int:
        return self.dropped + len(self._calls)

    def knows(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._numbers

    def number(self, tensor: torch.Tensor) -> int:
        return self._numbers[id(tensor)][1]

    def source_of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the known tensor that this one is, in another class; None if it is none."""
        node = tensor.grad_fn
        if node is None or node.name() != "AliasBackward0":
            return None
        source = node.next_functions[0][0]
        return next((known for known, _ in self._numbers.values() if known.grad_fn is source), None)

    def called_modules(self) -> list[torch.nn.Module]:
        """Return the modules that were called."""
        return [call.module for call, _ in self._calls if call.module is not None]

    def add(self, begun: _Begun, outputs: list[torch.Tensor], *, changes_first: bool = False) -> None:
        numbers = range(self._next, self._next + len(outputs))
        self._next += len(outputs)
        for tensor, number in zip(outputs, numbers, strict=True):
            self._numbers[id(tensor)] = (tensor, number)
        call = Call(
            begun.call,
            begun.arguments,
            begun.slots,
            tuple(numbers),
            changes_first,
            begun.has_gradients,
            begun.autocast,
            begun.random,
            begun.state,
            begun.modes,
        )
        self._calls.append((call, begun.is_unknown))

    def drop(self, through: int) -> None:
        """Drop the calls before this place, and the results that no later call has returned."""
        count = max(0, through - self.dropped)
        gone = {number for call, _ in self._calls[:count] for number in call.outputs}
        self._calls = self._calls[count:]
        self.dropped += count
        self._numbers = {key: held for key, held in self._numbers.items() if held[1] not in gone}

    def program(self, loss: torch.Tensor) -> StepProgram:
        """Return the calls that the loss follows from."""
        wanted, kept, lacks = {self.number(loss)}, [], ""
        for call, is_unknown in reversed(self._calls):
            is_change = _is_in_place(call.call) and call.first_slot is not None
            if not is_change and wanted.isdisjoint(call.outputs):
                continue
            kept.append(call)
            wanted |= call.needs
            if is_unknown:
                lacks = _UNKNOWN
        made = {number for call in kept for number in call.outputs}
        if not wanted <= made:
            lacks = lacks or "the loss follows from a model that was called before the last step"
        return StepProgram(tuple(reversed(kept)), self.number(loss), float(loss.detach()), lacks)


def _default_device() -> object:
    """Return the mode of `torch.set_default_device`, which must stay at the bottom of all; None without one."""
    return getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)


def _is_in_place(call: Callable[..., Any]) -> bool:
    name = getattr(call, "__name__", "")
    return name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))


def _autocast() -> tuple[Autocast, ...]:
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return tuple(
        Autocast(device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)) for device in devices
    )
