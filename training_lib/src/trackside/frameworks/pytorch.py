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
import gc
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

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
from trackside.storage.open_store import open_store
from trackside.storage.store import Store

P = ParamSpec("P")
R = TypeVar("R")

CLOSE_SECONDS = 30.0  # how long the end of the process waits for what is queued
SIGTERM_SECONDS = 5.0  # the same where somebody waits for this process to die; Docker kills after 10


def attach() -> None:
    """Switches capture on if the environment names a run; called once torch has been imported."""
    environment = CaptureEnvironment.read()
    if environment.run_uri:
        PyTorchCapture(environment).install()


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
            if isinstance(tensor, torch.Tensor) and tensor.numel() == 1 and not _is_in_cuda_graph(tensor):
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
        scale = _fused_scale(optimizer)
        for name, parameter in self._parameter_names.of(optimizer):
            if hook.wants(name) and not hook.has(name):
                self._copy(name, parameter)
            gradient_name = f"gradient/{name}"
            if parameter.grad is not None and hook.wants(gradient_name):
                self._copy(gradient_name, parameter.grad, scale)

    def _copy(self, name: str, tensor: torch.Tensor, scale: float = 1.0) -> None:
        if _is_in_cuda_graph(tensor):
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


def untraced(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, with all that it calls, hidden from torch.compile, which would compile it into the user's step.

    `torch.compiler.disable` does that but imports the compiler, which takes seconds: so only where that is in use.
    """
    hidden: Callable[P, R] | None = None

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        nonlocal hidden
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        if hidden is None:
            hidden = torch.compiler.disable(function)  # type: ignore[no-untyped-call] # torch's own omission
        return hidden(*args, **kwargs)

    skip_frame(run)
    return run


def skip_frame(function: Callable[..., Any]) -> None:
    """Tells torch.compile to leave the function's own frame alone, without importing the compiler.

    Both ways are private; with neither, a training step that is compiled as a whole compiles this frame too.
    """
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "set_code_exec_strategy"):
        only_this_frame = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        frames.set_code_exec_strategy(function.__code__, only_this_frame)
    elif hasattr(frames, "skip_code"):  # before torch 2.7
        frames.skip_code(function.__code__)


# What the losses of torch.nn.functional leave in the graph, and the module that computes the same.
_LOSS_OF_NODE: Mapping[str, str] = {
    "NllLossBackward0": "NLLLoss",
    "NllLoss2DBackward0": "NLLLoss",
    "MseLossBackward0": "MSELoss",
    "BinaryCrossEntropyBackward0": "BCELoss",
    "BinaryCrossEntropyWithLogitsBackward0": "BCEWithLogitsLoss",
    "HuberLossBackward0": "HuberLoss",
    "SmoothL1LossBackward0": "SmoothL1Loss",
    "SoftMarginLossBackward0": "SoftMarginLoss",
    "MultiMarginLossBackward0": "MultiMarginLoss",
    "MultilabelMarginLossBackward0": "MultiLabelMarginLoss",
}
_SCALING = {"MulBackward0", "DivBackward0"}
_VALUE_KEEPING = {"ToCopyBackward0", "CloneBackward0", "AliasBackward0", "ViewBackward0", "SqueezeBackward0"}
_LONGEST_WALK = 16
_SMALLEST_AMP_SCALE = 16.0


class LossDescription(NamedTuple):
    """`name`: what to call the loss, in the words of torch.nn; `scale`: what its true value was multiplied by."""

    name: str
    scale: float


def describe_loss(node: Any) -> LossDescription:
    """Walks back from the graph node of a scalar to the loss function it came from.

    Behind an unknown function a factor may be part of the loss (a mean by hand), so only AMP's is undone there: a
    last multiplication by a power of two.
    """
    scale = 1.0
    outermost = 1.0
    for depth in range(_LONGEST_WALK):
        kind = type(node).__name__
        if kind in _LOSS_OF_NODE:
            return LossDescription(_loss_name(kind, node), scale)
        inputs = [following for following, _ in getattr(node, "next_functions", ()) if following is not None]
        if len(inputs) != 1 or kind not in _SCALING | _VALUE_KEEPING:
            break
        if kind in _SCALING:
            factor = _constant_factor(kind, node)
            if factor is None:
                break
            scale *= factor
            outermost = factor if depth == 0 and kind == "MulBackward0" else outermost
        node = inputs[0]
    is_amp = outermost >= _SMALLEST_AMP_SCALE and np.frexp(outermost)[0] == 0.5
    return LossDescription("loss", outermost if is_amp else 1.0)


def _loss_name(kind: str, node: Any) -> str:
    before = node.next_functions[0][0]
    if _LOSS_OF_NODE[kind] == "NLLLoss" and type(before).__name__ == "LogSoftmaxBackward0":
        return "CrossEntropyLoss"
    return _LOSS_OF_NODE[kind]


def _constant_factor(kind: str, node: Any) -> float | None:
    """The constant that a node multiplies its only graph input by; None if it cannot be known or undone."""
    is_first = node.next_functions[0][0] is not None
    if kind == "DivBackward0" and not is_first:
        return None  # constant / loss
    constant = node._saved_other if is_first else node._saved_self
    if not isinstance(constant, torch.Tensor) or constant.numel() != 1:
        return None
    factor = float(constant.detach())
    if factor == 0 or not np.isfinite(factor):
        return None
    return 1 / factor if kind == "DivBackward0" else factor


_WRAPPERS = {
    "DataParallel": "module",
    "DistributedDataParallel": "module",
    "FullyShardedDataParallel": "_fsdp_wrapped_module",
    "OptimizedModule": "_orig_mod",
}
_WRAPPER_PARTS = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}


class ParameterNames:
    """Names parameters as smdebug does: `<RootClass>_<dotted.name>`.

    The modules that own an optimizer's parameters are looked for among all live objects, once per optimizer, on its
    first captured step: some ten milliseconds then, and nothing while models are built. (Following
    `register_module_module_registration_hook` instead costs 10 us per child, and never sees a deep copy or a model
    that was unpickled.)

    A second root of a class is `<RootClass>2`; a parameter of no module is `Parameters_<k>.weight`.
    """

    def __init__(self) -> None:
        self._names: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._root_names: dict[int, tuple[weakref.ref[torch.nn.Module], str]] = {}
        self._taken: dict[str, int] = {}
        self._homeless = 0

    def of(self, optimizer: Optimizer) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, parameter) for each parameter of the optimizer, in its order."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if any(self._known(p) is None for p in parameters):
            self._name_all(parameters)
        for parameter in parameters:
            name = self._known(parameter)
            if name is not None:
                yield name, parameter

    def _known(self, parameter: torch.Tensor) -> str | None:
        reference, name = self._names.get(id(parameter), (None, ""))
        # The object itself is compared, for an id is given again once its object is gone.
        return name if reference is not None and reference() is parameter else None

    def _name_all(self, parameters: list[torch.Tensor]) -> None:
        homes = _homes({id(p) for p in parameters})
        for parameter in parameters:
            if self._known(parameter) is not None:
                continue
            home = homes.get(id(parameter))
            if home is None:
                name = f"Parameters_{self._homeless}.weight"
                self._homeless += 1
            else:
                name = f"{self._root_name(home.root)}_{home.path}"
            self._names[id(parameter)] = (weakref.ref(parameter), name)

    def _root_name(self, root: torch.nn.Module) -> str:
        reference, name = self._root_names.get(id(root), (None, ""))
        if reference is None or reference() is not root:
            kind = type(root).__name__
            count = self._taken[kind] = self._taken.get(kind, 0) + 1
            name = kind if count == 1 else f"{kind}{count}"
            self._root_names[id(root)] = (weakref.ref(root), name)
        return name


class Home(NamedTuple):
    """Where a parameter lives: the outermost module that holds it, and its dotted path in there."""

    root: torch.nn.Module
    path: str


def _homes(wanted: set[int]) -> dict[int, Home]:
    """The home of each wanted parameter, by id. Of several roots the one with the most of them is taken."""
    homes: dict[int, Home] = {}
    owned = [(root, paths) for root in _roots() if (paths := _paths(root, wanted))]
    for root, paths in sorted(owned, key=lambda pair: -len(pair[1])):
        for number, path in paths.items():
            homes.setdefault(number, Home(root, path))
    return homes


def _paths(root: torch.nn.Module, wanted: set[int]) -> dict[int, str]:
    named = root.named_parameters()  # each parameter once, so tied weights have one name
    return {id(parameter): _without_wrappers(name) for name, parameter in named if id(parameter) in wanted}


def _without_wrappers(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPER_PARTS)


def _roots() -> list[torch.nn.Module]:
    """The live modules that no other module holds, without what wraps them."""
    # By type and not by isinstance, which would ask the `__class__` of lazy proxies and so wake them up.
    modules = [o for o in gc.get_objects() if issubclass(type(o), torch.nn.Module) and "_modules" in o.__dict__]
    held = {id(child) for module in modules for child in module._modules.values()}
    return [_unwrapped(module) for module in modules if id(module) not in held]


def _unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    inner = module._modules.get(_WRAPPERS.get(type(module).__name__, ""))
    return module if inner is None else _unwrapped(inner)


_KEPT_DTYPES = {
    torch.float16, torch.float32, torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.bool, torch.complex64, torch.complex128,
}  # fmt: skip


def copy_to_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's value as an array of our own, in C order; sparse becomes dense, bfloat16 and float8 float32.

    A copy always: version counters do not tell whether an optimizer writes over the tensor later. Of a sharded tensor
    it is this rank's part. Errors: whatever torch raises for a tensor that holds no value, such as a meta tensor.
    """
    value = tensor.detach()
    if hasattr(value, "to_local"):
        value = value.to_local()
    if value.layout != torch.strided:
        value = value.to_dense()
    dtype = value.dtype if value.dtype in _KEPT_DTYPES else torch.float32
    value = value.to(device="cpu", dtype=dtype, copy=True, memory_format=torch.contiguous_format)
    return value.resolve_conj().resolve_neg().numpy()


def _fused_scale(optimizer: Optimizer) -> float:
    """What AMP has multiplied the gradients by and a fused optimizer will divide by, inside of its step."""
    scale = getattr(optimizer, "grad_scale", None)
    return float(scale) if isinstance(scale, torch.Tensor) and scale.numel() == 1 else 1.0


def _is_in_cuda_graph(tensor: torch.Tensor) -> bool:
    """True while a CUDA graph is being recorded, which a copy to the CPU would break."""
    return tensor.is_cuda and torch.cuda.is_current_stream_capturing()


def _rank(environment: CaptureEnvironment) -> Rank:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return Rank(distributed.get_rank(), distributed.get_world_size())
    return Rank(environment.rank, environment.world_size)


def _absolute(uri: str) -> str:
    return uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))
