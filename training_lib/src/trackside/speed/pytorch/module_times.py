"""The times of modules, forward and backward, on a few steps that are sampled now and then.

A call is timed where it begins and ends. Its backward pass begins when the gradient of its output is known, and ends
when that of its input is, or with the whole pass where no input has one: marks at the nodes of the graph, which goes
with the step. Nothing is on modules or tensors, and nothing at all on other steps. Times are the processor's: on a GPU,
which works behind it, none are taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from trackside.frameworks.pytorch.compiling.tracing import untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.structures import flatten, is_no_computation
from trackside.frameworks.pytorch.modules.calls import ModuleCalls
from trackside.frameworks.pytorch.modules.source import TrainedModules
from trackside.records.machine.performance_facts import MOST_MODULES, ModuleTimes

MOST_CALLS = 5000  # of the steps of one window

_engine: Any = torch.autograd.Variable  # the class that holds the engine, for it has no other name


@dataclass
class _Call:
    """A call of a module."""

    module: torch.nn.Module
    name: str
    before: Any  # the node of its input
    depth: int
    began: float
    inside: float = 0.0  # seconds of the calls inside of it


@dataclass
class _Sums:
    """The times of one module so far."""

    kind: str
    calls: int = 0
    forward: float = 0.0
    own: float = 0.0
    backward: float = 0.0


@dataclass
class _Pass:
    """The backward pass that is under way: calls that end with it."""

    open: list[tuple[_Sums, float]] = field(default_factory=list)


class _Stack(threading.local):
    """The open calls of a thread."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []


class ModuleTimer:
    """Times modules while it is on.

    Args:
        modules: The modules that are trained, and their names.
        fuse: Keeps failures from the script.
        read: Returns seconds.
    """

    def __init__(self, modules: TrainedModules, *, fuse: Fuse, read: Callable[[], float] = time.perf_counter) -> None:
        self._modules, self._read = modules, read
        self._sums: dict[str, _Sums] = {}
        self._stack, self._pass = _Stack(), _Pass()
        self._calls = ModuleCalls(self)
        self._count = 0
        self._window = 0  # marks of earlier windows do nothing
        fuse.when_blown = self._calls.remove
        self._see_before = untraced(fuse.protect(self._before))
        self._see_after = untraced(fuse.protect(self._after))
        self._see_gradient = untraced(fuse.protect(self._gradient_came))
        self._see_end = untraced(fuse.protect(self._pass_ended))

    def start(self) -> None:
        """Time calls from now on."""
        self._modules.look_again()
        self._count = 0
        self._stack = _Stack()
        self._calls.switch(on=True)

    def stop(self) -> None:
        """Time none from now on."""
        self._window += 1
        self._calls.switch(on=False)

    def remove(self) -> None:
        """Leave PyTorch as it was."""
        self._window += 1
        self._calls.remove()

    def times(self, steps: int) -> tuple[ModuleTimes, ...]:
        """Return the times so far, in seconds of a step, the longest first.

        Args:
            steps: Number of steps that were timed.
        """
        found = [
            ModuleTimes(
                name, one.kind, one.calls / steps, one.forward / steps, max(0.0, one.own) / steps, one.backward / steps
            )
            for name, one in list(self._sums.items())
        ]
        return tuple(sorted(found, key=lambda one: -(one.forward + one.backward))[:MOST_MODULES])

    def before_call(self, module: torch.nn.Module, args: Any, kwargs: Any, *, is_outermost: bool) -> None:
        """Note the start of a call; see `CallObserver`."""
        self._see_before(module, args, kwargs)

    def after_call(self, module: torch.nn.Module, output: Any) -> None:
        """Note the end of a call; see `CallObserver`."""
        self._see_after(module, output)

    def _before(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        calls, depth = self._stack.calls, self._calls.depth
        while calls and calls[-1].depth >= depth:
            calls.pop()  # it raised
        if not torch.is_grad_enabled() or is_no_computation() or self._count >= MOST_CALLS:
            return
        name = self._modules.name_of(module)
        if name is not None:
            self._count += 1
            calls.append(_Call(module, name, _node(args, kwargs), depth, self._read()))

    def _after(self, module: torch.nn.Module, output: Any) -> None:
        calls, depth = self._stack.calls, self._calls.depth
        while calls and calls[-1].depth > depth:
            calls.pop()  # it raised
        if not calls or calls[-1].module is not module:
            return
        call = calls.pop()
        seconds = self._read() - call.began
        if calls:
            calls[-1].inside += seconds
        sums = self._sums.get(call.name)
        if sums is None:
            sums = self._sums[call.name] = _Sums(type(module).__name__)
        sums.calls += 1
        sums.forward += seconds
        sums.own += seconds - call.inside
        node = _node(output)
        if node is not None and node is not call.before:
            self._mark(node, call.before, sums)

    def _mark(self, node: Any, before: Any, sums: _Sums) -> None:
        """Time the backward pass from the node of an output to that of an input."""
        window, began = self._window, list[float]()

        def start(_gradients: Any) -> None:
            if window == self._window:
                self._see_gradient(sums, began, before is None)

        node.register_prehook(start)
        if before is None:
            return

        def end(_gradients: Any) -> None:
            if window == self._window and began:
                sums.backward += self._read() - began.pop()

        before.register_prehook(end)

    def _gradient_came(self, sums: _Sums, began: list[float], is_to_the_end: bool) -> None:
        if not is_to_the_end:
            began[:] = [self._read()]
            return
        if not self._pass.open:
            _engine._execution_engine.queue_callback(self._see_end)
        self._pass.open.append((sums, self._read()))

    def _pass_ended(self) -> None:
        now, ended = self._read(), self._pass.open
        self._pass = _Pass()
        for sums, began in ended:
            sums.backward += now - began


def _node(*values: Any) -> Any:
    """Return the node of the first tensor that has one; None without."""
    return next((tensor.grad_fn for tensor in flatten(*values) if tensor.grad_fn is not None), None)
