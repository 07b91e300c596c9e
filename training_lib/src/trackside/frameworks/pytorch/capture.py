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
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from trackside.capture.guard import Guard, describe
from trackside.capture.hook import Hook
from trackside.capture.process_end import ProcessEnd
from trackside.capture.run_files import RunFiles
from trackside.capture.step_boundary import StepBoundary
from trackside.capture.writer import Writer
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.run_layout import RunLocation
from trackside.environment import CaptureEnvironment
from trackside.frameworks.pytorch.copying import copy_to_array, is_in_cuda_graph
from trackside.frameworks.pytorch.losses import describe_loss
from trackside.frameworks.pytorch.names import ParameterNames
from trackside.frameworks.pytorch.optimizers import fused_scale
from trackside.frameworks.pytorch.tracing import skip_frame, untraced
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

CLOSE_SECONDS = 30.0  # how long the end of the process waits for what is queued
SIGTERM_SECONDS = 5.0  # the same where somebody waits for this process to die; Docker kills after 10


class Rank(NamedTuple):
    """Which worker of how many this process is."""

    number: int
    of: int


class PyTorchCapture:
    """Translates what PyTorch does into calls of the hook."""

    def __init__(self, environment: CaptureEnvironment, *, open_store: Callable[[str], Store] = open_store) -> None:
        location = RunLocation(_absolute(environment.run_uri))  # now, for the script may change its folder
        self._open_store = functools.partial(open_store, location.tensors)
        self._environment = environment
        self._guard = Guard()
        self._boundary = StepBoundary()
        self._parameter_names = ParameterNames()
        self._misfit: ConfigurationError | None = None
        self._request = self._read_request(environment.capture_request)
        self._hook = Hook(self._request)
        self._writer: Writer | None = None
        self._restore: list[Callable[[], None]] = []
        self._closure_is_done = False

    def _read_request(self, text: str) -> CaptureRequest:
        try:
            return CaptureRequest.from_json(text) if text else CaptureRequest()
        except ConfigurationError as error:
            self._misfit = error  # said with the first step: helper processes that never train stay silent
            return CaptureRequest(())

    def install(self) -> None:
        """Registers the hooks. Undone by `uninstall`, which only tests need."""
        before_step = untraced(self._guard.protect("capturing a step", self._before_step))
        after_step = untraced(self._guard.protect("ending a step", self._after_step))
        before = register_optimizer_step_pre_hook(before_step)
        after = register_optimizer_step_post_hook(after_step)
        self._restore = [before.remove, after.remove, self._wrap_backward(), self._wrap_optimizer_init()]
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork_in_child)

    def uninstall(self) -> None:
        """Removes every hook and closes the run."""
        for restore in self._restore:
            restore()
        self.close(CLOSE_SECONDS)

    def _wrap_backward(self) -> Callable[[], None]:
        original = torch.autograd.backward
        see_loss = untraced(self._guard.protect("reading the loss", self._see_loss))
        hook = self._hook

        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> None:
            if hook.due.losses:
                see_loss(*args, **kwargs)
            original(*args, **kwargs)

        skip_frame(backward)
        torch.autograd.backward = backward
        return functools.partial(setattr, torch.autograd, "backward", original)

    def _wrap_optimizer_init(self) -> Callable[[], None]:
        original = Optimizer.__init__
        created = untraced(self._guard.protect("meeting an optimizer", self._boundary.created))

        @functools.wraps(original)
        def __init__(self: Optimizer, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it replaces one
            original(self, *args, **kwargs)
            created(self)

        skip_frame(__init__)
        setattr(Optimizer, "__init__", __init__)  # noqa: B010 - mypy forbids the plain assignment to a method
        return functools.partial(setattr, Optimizer, "__init__", original)

    # The step, in the order of events: losses, before the optimizer, after it.

    def _see_loss(self, tensors: Any, grad_tensors: Any = None, *_: Any, **__: Any) -> None:
        if grad_tensors is not None or self._closure_is_done:
            return
        for tensor in (tensors,) if isinstance(tensors, torch.Tensor) else tensors:
            if isinstance(tensor, torch.Tensor) and tensor.numel() == 1 and not is_in_cuda_graph(tensor):
                name, scale = describe_loss(tensor.grad_fn)
                value = copy_to_array(tensor)
                self._hook.add_loss(name, value if scale == 1 else np.asarray(value / scale, value.dtype))

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if self._writer is None and not self._start():
            return None
        self._closure_is_done = False
        if self._boundary.ends_before(optimizer):
            self._hook.end_step(keep_unsettled=True)
        if not self._hook.due.parameters and not self._hook.due.losses:
            return None
        wrapped = self._with_observed_closure(optimizer, args, kwargs)
        if wrapped is None:
            self._copy_parameters(optimizer)
        return wrapped

    def _after_step(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self._closure_is_done = False
        if self._boundary.ends_after(optimizer):
            self._hook.end_step()
        elif self._hook.due.losses:
            self._hook.settle()

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
        if not self._hook.due.parameters:
            return
        hook = self._hook
        scale = fused_scale(optimizer)
        for name, parameter in self._parameter_names.of(optimizer):
            if hook.wants(name) and not hook.has(name):
                self._copy(name, parameter)
            gradient_name = f"gradient/{name}"
            if parameter.grad is not None and hook.wants(gradient_name):
                self._copy(gradient_name, parameter.grad, scale)

    def _copy(self, name: str, tensor: torch.Tensor, scale: float = 1.0) -> None:
        if is_in_cuda_graph(tensor):
            return
        try:
            array = copy_to_array(tensor)
        except Exception as error:  # noqa: BLE001 - one odd tensor must not cost the user all others
            what = "%s cannot be copied and is left out, as is any other that fails in this way: %s."
            self._guard.say_once(f"copy/{type(error).__name__}", what, name, describe(error))
            return
        self._hook.add(name, array if scale == 1 else np.asarray(array / scale, array.dtype))

    # The life of the run.

    def _start(self) -> bool:
        """Begins the run, with the first optimizer step of this process. False where none is to be captured."""
        if torch.utils.data.get_worker_info() is not None:
            return False
        if self._misfit is not None:
            raise self._misfit
        rank = _rank(self._environment)
        files = RunFiles(
            self._open_store,
            request=self._request,
            worker=f"worker_{rank.number}",
            num_workers=rank.of,
            ends_run=rank.number == 0,
        )
        self._writer = Writer(files, guard=self._guard)
        self._writer.start()
        self._hook.connect(self._writer)
        end = ProcessEnd(close=self.close, close_on_sigterm=self._close_on_sigterm, flush=self.flush)
        end.install()
        self._restore.append(end.remove)
        return True

    def close(self, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """Hands on the last step if an optimizer made it, stores what is queued and ends the run. Never raises."""
        writer = self._writer
        if writer is None:
            return
        if self._boundary.is_open and not self._guard.is_off:
            self._guard.attempt("saving the last step", self._hook.end_step)
        self._guard.attempt("ending the run", lambda: writer.close(timeout_seconds))
        self._guard.silence()

    def _close_on_sigterm(self) -> None:
        self.close(SIGTERM_SECONDS)

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Waits until what is queued is stored, at most so long."""
        if self._writer is not None:
            self._writer.flush(timeout_seconds)

    def _after_fork_in_child(self) -> None:
        """A child of a process that captures is a helper of it; one forked before the first step may be the trainer."""
        if self._writer is not None:
            self._writer = None
            self._guard.silence()


def _rank(environment: CaptureEnvironment) -> Rank:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    return Rank(environment.rank, environment.world_size)


def _absolute(uri: str) -> str:
    return uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))
