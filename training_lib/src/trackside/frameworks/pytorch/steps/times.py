"""Times of the parts of a training step: data, forward and backward of each module, the optimizer.

On the steps in between only three wrapped functions are in place, which compare one flag. On a timed step:

- forward: each call of a module, from call to return; a module's time includes that of the modules inside of it.
- backward: a call of `backward` as a whole (`module` ""); and of each module that has none inside, from the arrival of
  the gradient of its output to those of its inputs and its own parameters.
- optimizer: one call of an optimizer's `step` (`module`: its class).
- data: one batch fetched by a `DataLoader` (`module`: "DataLoader"); it counts to the step that is open then.

On a GPU the device's own clock is read, where the work ends and not where it was queued; nothing waits before rows are
read. If a step also saves tensors, copying them is in its times.
"""

from __future__ import annotations

import functools
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

from trackside.capture.ground.guard import Guard
from trackside.frameworks.pytorch.compiling.tracing import skip_frame, untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.script_objects import own_parameters_of
from trackside.frameworks.pytorch.ground.structures import flatten
from trackside.frameworks.pytorch.modules.source import TrainedModules

MOST_ROWS = 100_000
FORWARD, BACKWARD, OPTIMIZER, DATA = "forward", "backward", "optimizer", "data"

_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class TimeRow:
    """The time of one part of a step.

    start     seconds since the epoch
    duration  seconds
    memory    bytes at the end of it: allocated on the GPU if one is used, else resident; None where unknown
    """

    step: int
    phase: str
    module: str
    start: float
    duration: float
    memory: int | None


class _Mark:
    """A moment: on the host, and on the GPU when the GPU reaches it."""

    __slots__ = ("event", "host")

    def __init__(self) -> None:
        self.event: Any = None
        if _uses_gpu() and not torch.cuda.is_current_stream_capturing():
            self.event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call] # torch's own omission
            self.event.record()
        self.host = time.perf_counter()

    def seconds_until(self, end: _Mark) -> float:
        """Return the seconds to another moment. Waits for the GPU if both were taken on it."""
        if self.event is None or end.event is None:
            return end.host - self.host
        end.event.synchronize()
        return float(self.event.elapsed_time(end.event)) / 1000


@dataclass(frozen=True)
class _Timing:
    """A row with a duration that may not be known yet."""

    step: int
    phase: str
    module: str
    begin: _Mark
    end: _Mark
    memory: int | None


class StepTimes:
    """A source of the times of every `interval`-th step. It keeps the latest `MOST_ROWS` rows."""

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._timings: deque[_Timing] = deque(maxlen=MOST_ROWS)
        self._is_on = False
        self._step = 0
        self._epoch = time.time() - time.perf_counter()
        self._open: list[tuple[int, _Mark]] = []
        self._optimizer_began: dict[int, _Mark] = {}
        self._backward_of: dict[int, _ModuleBackward] = {}
        self._handles: list[Any] = []
        self._names: TrainedModules | None = None

    def rows(self) -> list[TimeRow]:
        """Return the rows so far, by start. On a GPU this waits for work that is still under way."""
        self._close_backwards()
        rows = [
            TimeRow(t.step, t.phase, t.module, self._epoch + t.begin.host, t.begin.seconds_until(t.end), t.memory)
            for t in tuple(self._timings)
        ]
        return sorted(rows, key=lambda row: row.start)

    # The switch.

    def of(self, names: TrainedModules, *, guard: Guard) -> StepTimes:
        """Return this source, with the modules of one session."""
        self._names = names
        self._fuse = Fuse(guard, "timing steps")
        return self

    def install(self) -> Callable[[], None]:
        """Put the timers in place. Return the function that undoes it."""
        fuse = self._fuse
        fuse.when_blown = self._switch_off
        self._before = untraced(fuse.protect(self._module_called))
        self._after = untraced(fuse.protect(self._module_returned))
        self._protect = fuse.protect
        undo = [
            register_optimizer_step_pre_hook(untraced(fuse.protect(self._optimizer_begins))).remove,
            register_optimizer_step_post_hook(untraced(fuse.protect(self._optimizer_ends))).remove,
            self._wrap(torch.autograd, "backward", BACKWARD, ""),
            self._wrap(_BaseDataLoaderIter, "__next__", DATA, "DataLoader"),
            self._wrap_calls(),
            self._switch_off,
        ]

        def undo_all() -> None:
            for restore in undo:
                restore()

        return undo_all

    def step_began(self, step: int) -> None:
        """Switch the timers on if the step that begins is to be timed."""
        self._switch_off()
        self._step = step
        if step % self._interval == 0:
            self._is_on = True

    def _switch_off(self) -> None:
        self._close_backwards()
        self._is_on = False
        for handle in self._handles:
            handle.remove()
        self._handles, self._open, self._optimizer_began = [], [], {}

    def _wrap(self, owner: Any, name: str, phase: str, module: str) -> Callable[[], None]:
        original = getattr(owner, name)
        times = self

        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if not times._is_on:
                return original(*args, **kwargs)
            begin, step = _Mark(), times._step
            result = original(*args, **kwargs)
            times._note(phase, module, begin, _Mark(), step=step)
            return result

        skip_frame(timed)
        setattr(owner, name, timed)

        def undo() -> None:
            if getattr(owner, name) is timed:
                setattr(owner, name, original)

        return undo

    def _wrap_calls(self) -> Callable[[], None]:
        original = torch.nn.Module.__call__
        times = self

        @functools.wraps(original)
        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it replaces one
            if not times._is_on or torch.compiler.is_compiling():
                return original(self, *args, **kwargs)
            times._before(self, args, kwargs)
            output = original(self, *args, **kwargs)
            times._after(self, output)
            return output

        skip_frame(__call__)
        setattr(torch.nn.Module, "__call__", __call__)  # noqa: B010 - mypy forbids assigning to a method

        def undo() -> None:
            if torch.nn.Module.__call__ is __call__:  # else it stays below what was put on top of it, inert
                setattr(torch.nn.Module, "__call__", original)  # noqa: B010 - as above

        return undo

    def _note(self, phase: str, module: str, begin: _Mark, end: _Mark, *, step: int | None = None) -> None:
        self._timings.append(_Timing(self._step if step is None else step, phase, module, begin, end, _memory_bytes()))

    # Optimizers.

    def _optimizer_begins(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if self._is_on:
            self._optimizer_began[id(optimizer)] = _Mark()

    def _optimizer_ends(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        begin = self._optimizer_began.pop(id(optimizer), None)
        if begin is not None:
            self._note(OPTIMIZER, type(optimizer).__name__, begin, _Mark())

    # Modules.

    def _module_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        if not self._is_on or torch._C._current_graph_task_id() != -1:
            return
        if not module._modules and torch.is_grad_enabled():
            self._watch_inputs(module, args, kwargs)
        self._open.append((id(module), _Mark()))

    def _module_returned(self, module: torch.nn.Module, output: Any) -> None:
        if not self._is_on or torch._C._current_graph_task_id() != -1:
            return
        end = _Mark()
        while self._open:  # what raised has left its mark behind
            number, begin = self._open.pop()
            if number == id(module):
                self._note(FORWARD, self._name(module), begin, end)
                break
        if not module._modules:
            self._watch_outputs(module, output)

    def _name(self, module: torch.nn.Module) -> str:
        name = self._names.name_of(module) if self._names is not None else None
        return name or type(module).__name__

    def _watch_inputs(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        watched = self._backward_of.setdefault(id(module), _ModuleBackward(self._name(module), self._step))
        mark = self._protect(watched.gradient_of_input)
        for tensor in flatten(args, kwargs):
            if tensor.requires_grad:
                self._handles.append(tensor.register_hook(mark))  # type: ignore[no-untyped-call] # torch's omission
        if not watched.has_parameters:
            watched.has_parameters = True
            for parameter in own_parameters_of(module):
                if parameter.requires_grad:
                    handle = parameter.register_post_accumulate_grad_hook(mark)  # type: ignore[no-untyped-call] # as above
                    self._handles.append(handle)

    def _watch_outputs(self, module: torch.nn.Module, output: Any) -> None:
        watched = self._backward_of.get(id(module))
        if watched is None:
            return
        mark = self._protect(watched.gradient_of_output)
        for tensor in flatten(output):
            if tensor.requires_grad:
                self._handles.append(tensor.register_hook(mark))  # type: ignore[no-untyped-call] # as above

    def _close_backwards(self) -> None:
        """Note the backward passes of modules that have been watched."""
        for watched in self._backward_of.values():
            if watched.begin is not None and watched.end is not None:
                self._timings.append(
                    _Timing(watched.step, BACKWARD, watched.name, watched.begin, watched.end, watched.memory)
                )
        self._backward_of = {}


class _ModuleBackward:
    """The backward pass of one module in one step; of several calls of it, from the first gradient to the last."""

    def __init__(self, name: str, step: int) -> None:
        self.name, self.step = name, step
        self.begin: _Mark | None = None
        self.end: _Mark | None = None
        self.memory: int | None = None
        self.has_parameters = False

    def gradient_of_output(self, _gradient: Any) -> None:
        self.begin = self.begin or _Mark()

    def gradient_of_input(self, _gradient: Any) -> None:
        if self.begin is not None:
            self.end, self.memory = _Mark(), _memory_bytes()


@functools.lru_cache(maxsize=1)
def _page_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def _uses_gpu() -> bool:
    return torch.cuda.is_available() and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call] # as above


def _memory_bytes() -> int | None:
    if _uses_gpu():
        return int(torch.cuda.memory_allocated())
    try:
        return int(_STATM.read_text("ascii").split()[1]) * _page_bytes()
    except (OSError, ValueError, IndexError):  # no Linux
        return None
