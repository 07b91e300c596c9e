"""Inputs and outputs of modules, and facts from the calls of loss modules, on the steps that save them.

They are observed through `calls.py`, which is switched on when a step ends and the next one is to save any of them, and
off when that one has ended. The first step is special: the modules to watch are those that an optimizer trains, so from
the first optimizer's construction until its first step the calls are watched too, if step 0 saves any of it.

- A tensor is copied at the call: an input before, an output after it. Calls that activation checkpointing repeats in
  the backward pass are ignored, and so are tensors inside of `torch.func`, `vmap` and traces, which hold no value.
- Names: the dotted path of the module (the root: its class), `_input_<k>` or `_output_<k>`; k runs over the tensors of
  a call and over the calls of a step. A second root's modules are prefixed with its name.
- With torch.compile the modules inside a compiled one are seen on steps that run eagerly only: see `eager_steps.py`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.steps.step_engine import TRAIN, StepEngine
from trackside.frameworks.pytorch.compiling.eager_steps import EagerSteps
from trackside.frameworks.pytorch.compiling.tracing import untraced
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.numbering import Numbering
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames, inner_modules
from trackside.frameworks.pytorch.ground.script_objects import own_buffers_of
from trackside.frameworks.pytorch.ground.structures import flatten, is_no_computation
from trackside.frameworks.pytorch.losses.description import is_loss_like
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.modules.calls import ModuleCalls
from trackside.frameworks.pytorch.modules.roles import (
    INPUT_COLLECTIONS,
    OUTPUT_COLLECTIONS,
    ROLE_COLLECTIONS,
    collections_of_inputs,
    collections_of_outputs,
    role_of,
)
from trackside.frameworks.pytorch.modules.stand_ins import StandIns
from trackside.frameworks.pytorch.modules.trial_calls import TrialCalls
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver

SEEN_IN_CALLS = ROLE_COLLECTIONS | {"inputs", "outputs", "labels", "predictions", "metrics", "activation_gradients"}
_OF_DATA = frozenset({"model_inputs"})  # not the activations that one trained model hands to another
_MOST_OF_A_NAME = 256  # tensors of one module in one step: a module called in a long loop, a step that never ends


class TrainedModules:
    """The modules with parameters that optimizers train, and their names."""

    def __init__(self, names: ParameterNames) -> None:
        self._names = names
        # In the order they came, for names are given in it, and ranks must give the same.
        self._optimizers: weakref.WeakKeyDictionary[Optimizer, None] = weakref.WeakKeyDictionary()
        self._is_new = False
        self._members: dict[int, tuple[weakref.ref[torch.nn.Module], weakref.ref[torch.nn.Module], str]] = {}
        self._root_types: frozenset[type] = frozenset()

    def optimizer_created(self, optimizer: Optimizer) -> None:
        """Add an optimizer. Its modules are looked for when they are next needed."""
        self._optimizers[optimizer] = None
        self._is_new = True

    def look_again(self) -> None:
        """Look for the modules again when they are next needed: they may have changed since."""
        self._is_new = True

    def roots(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """Return (name, module) of each root."""
        self._refresh()
        return self._names.roots()

    @property
    def root_types(self) -> frozenset[type]:
        """The classes of the roots."""
        self._refresh()
        return self._root_types

    @property
    def count(self) -> int:
        """The number of modules, as it was when they were last needed. Any thread may ask."""
        return len(self._members) // 2

    def name_of(self, module: torch.nn.Module) -> str | None:
        """Return the name under which the module's tensors are saved; None if no optimizer trains its root."""
        found = self._found(module)
        return found[2] if found else None

    def root_of(self, module: torch.nn.Module) -> torch.nn.Module | None:
        """Return the root that the module belongs to, also for the compiled form of a module."""
        found = self._found(as_written(module))
        return found[1]() if found else None

    def is_root(self, module: torch.nn.Module) -> bool:
        """Return True for a root itself."""
        found = self._found(module)
        return found is not None and found[0]() is found[1]()

    def parameter_name(self, parameter: torch.Tensor) -> str | None:
        """Return the name of a parameter that an optimizer trains; None for any other."""
        self._refresh()
        return self._names.name_of(parameter)

    def _found(self, module: torch.nn.Module) -> Any:
        self._refresh()
        found = self._members.get(id(module))
        if found is not None and found[0]() is module:
            return found
        # A replica of DataParallel shares the dict of its original's hooks, and nothing else that identifies it.
        return self._members.get(id(module.__dict__.get("_forward_hooks")))

    def _refresh(self) -> None:
        if not self._is_new:
            return
        self._is_new = False
        for optimizer in list(self._optimizers):
            for _ in self._names.of(optimizer):
                pass
        self._members = {}
        roots = list(self._names.roots())
        for index, (root_name, root) in enumerate(roots):
            for path, module in inner_modules(root):
                name = f"{root_name}.{path}" if index and path else (path or root_name)
                entry = (weakref.ref(module), weakref.ref(root), name)
                self._members.setdefault(id(module), entry)
                self._members.setdefault(id(module.__dict__.get("_forward_hooks")), entry)
        self._root_types = frozenset(type(root) for _, root in roots)


def as_written(module: torch.nn.Module) -> torch.nn.Module:
    """Return the module itself, or the one that `torch.compile` wrapped into it."""
    inner = module._modules.get("_orig_mod") if type(module).__name__ == "OptimizedModule" else None
    return module if inner is None else inner


def save_buffers(modules: TrainedModules, engine: StepEngine, saver: TensorSaver) -> None:
    """Save `buffer/<Root>_<dotted name>` for all trained models, once a step."""
    for root_name, root in modules.roots():
        for path, module in inner_modules(root):
            for key, buffer in own_buffers_of(module):
                name = f"buffer/{root_name}_{path}.{key}" if path else f"buffer/{root_name}_{key}"
                if not engine.open_step.has(name):
                    saver.save(name, buffer, collection="buffers")


class CallWatcher(Protocol):
    """A second observer of calls while they are observed. Its methods may raise: then modules are watched no longer."""

    def is_model(self, module: torch.nn.Module) -> bool:
        """Return True if the module is trained, or stands for one that is."""

    def model_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> bool:
        """Handle a call of such a module, by no other of them. Return False if the call is no part of any step."""

    def model_returned(self, output: Any) -> None:
        """Handle the output of such a call."""

    def loss_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Handle the call of a loss module, or of a module named like one."""

    def loss_returned(self, module: torch.nn.Module, output: Any) -> None:
        """Handle the output of a loss module."""


class CallDetectors(Protocol):
    """Detectors that hear calls while they are observed, by event. None of their functions raises."""

    outermost_called: tuple[Callable[..., None], ...]

    @property
    def called(self) -> Mapping[type, tuple[Callable[..., None], ...]]:
        """The functions that note a call, by the class of the module."""

    @property
    def returned(self) -> Mapping[type, tuple[Callable[..., None], ...]]:
        """The functions that note what a module returned, by its class."""


class ModuleSource:
    """A source of the inputs and outputs of trained modules. It passes calls on to `watcher` and `detectors`."""

    def __init__(
        self,
        engine: StepEngine,
        *,
        fuse: Fuse,
        saver: TensorSaver,
        modules: TrainedModules,
        watcher: CallWatcher,
        detectors: CallDetectors,
        loss_inputs: LossInputSource,
        numbering: Numbering,
        is_eager_allowed: bool,
    ) -> None:
        self._engine = engine
        self._fuse = fuse
        self._saver = saver
        self._modules = modules
        self._watcher = watcher
        self.eager = EagerSteps(is_allowed=is_eager_allowed)
        self._model: int | None = None  # with an open call
        self._is_ignored = False
        self._is_outside = False  # of any step: the latest call of a model was, and so is a loss of what it gave
        self.trial_calls: TrialCalls | None = TrialCalls(  # until training begins
            engine, saver=saver, numbering=numbering, loss_inputs=loss_inputs
        )
        self._outermost_called = detectors.outermost_called
        self._called, self._returned = detectors.called, detectors.returned
        self._numbering = numbering
        self._stand_ins = StandIns()
        self._generation = 0
        self.calls = ModuleCalls(self)
        fuse.when_blown = self.remove
        self._see_before = untraced(fuse.protect(self._before))
        self._see_after = untraced(fuse.protect(self._after))

    # The switch.

    def install(self) -> Callable[[], None]:
        """Wrap `torch.compile`. Return the function that undoes that and removes all the rest."""
        undo = self.eager.install(self.calls.absent)

        def remove() -> None:
            self.remove()
            undo()

        return remove

    def look_ahead(self, *, is_validating: bool) -> None:
        """Observe calls if the open step needs them. Call it when a step or a validation begins or ends."""
        is_needed = not self._fuse.is_blown and not self._engine.due.kinds.isdisjoint(SEEN_IN_CALLS)
        if is_needed:
            self._modules.look_again()
        self.eager.switch(on=is_needed)
        self.calls.switch(on=is_needed or is_validating)

    def remove(self) -> None:
        """Leave PyTorch as it was."""
        self.eager.switch(on=False)
        self.calls.remove()

    def step_ended(self, mode: str, *, keep_unsettled: bool) -> None:
        """Ignore later gradients of tensors that were seen in that mode."""
        if mode == TRAIN:
            self._generation += 1

    # Called by ModuleCalls.

    def before_call(self, module: torch.nn.Module, args: Any, kwargs: Any, *, is_outermost: bool) -> None:
        """Save the inputs of a module; see `CallObserver`."""
        self._see_before(module, args, kwargs, is_outermost)

    def after_call(self, module: torch.nn.Module, output: Any) -> None:
        """Save the outputs of a module; see `CallObserver`."""
        self._see_after(module, output)

    def _before(self, module: torch.nn.Module, args: Any, kwargs: Any, is_outermost: bool) -> None:
        if is_no_computation():
            return
        if is_outermost:  # whatever an exception has left behind
            self._model, self._is_ignored = None, False
            for see in self._outermost_called:
                see(module)
        if self._model is None and self._watcher.is_model(module):
            self._model = id(module)
            self._is_ignored = self._is_outside = not self._watcher.model_called(module, args, kwargs)
            if self.trial_calls is not None and not self._is_ignored:
                self.trial_calls.called(module)
        if self._is_ignored:
            return
        if is_loss_like(module) and not self._is_outside:
            self._watcher.loss_called(module, args, kwargs)
        for see in self._called[type(module)]:
            see(module, args, kwargs)
        kinds = self._engine.due.kinds
        if "inputs" in kinds or not kinds.isdisjoint(INPUT_COLLECTIONS):
            is_root = self._modules.is_root(module)
            if self._model == id(module):
                is_root |= self._stand_ins.is_one(module, root=self._modules.root_of(module))
            collections = collections_of_inputs(role_of(module), is_root=is_root)
            if not kinds.isdisjoint(collections):
                self._save(module, "input", collections, args, kwargs)

    def _after(self, module: torch.nn.Module, output: Any) -> None:
        if is_no_computation():
            return
        is_model = self._model == id(module)
        if is_model:
            self._model = None
        if self._is_ignored:
            self._is_ignored = not is_model
            return
        for see in self._returned[type(module)]:
            see(module, output)
        kinds = self._engine.due.kinds
        if "outputs" in kinds or "activation_gradients" in kinds or not kinds.isdisjoint(OUTPUT_COLLECTIONS):
            collections = collections_of_outputs(role_of(module))
            if "activation_gradients" in kinds or not kinds.isdisjoint(collections):
                self._save(module, "output", collections, output)
        if is_loss_like(module) and not self._is_outside:
            self._watcher.loss_returned(module, output)
        if is_model and self.trial_calls is not None:
            self.trial_calls.returned(output)
        if is_model:
            self._watcher.model_returned(output)

    def _save(self, module: torch.nn.Module, side: str, collections: frozenset[str], *values: Any) -> None:
        module_name = self._modules.name_of(module)
        if module_name is None:
            return
        prefix = f"{module_name}_{side}_"
        k = self._numbering.of(self._engine.mode, prefix)
        for tensor in flatten(*values):
            if k >= _MOST_OF_A_NAME:
                break
            name = f"{prefix}{k}"
            k += 1
            some = collections - _OF_DATA if tensor.grad_fn is not None else collections
            if not some.isdisjoint(self._engine.due.kinds):
                self._saver.save_activation(name, tensor, collections=some)
            if side == "output" and tensor.requires_grad and "activation_gradients" in self._engine.due.kinds:
                self._watch_gradient(f"activation_gradient/{name}", tensor)
        self._numbering.move_on(self._engine.mode, prefix, k)

    def _watch_gradient(self, name: str, tensor: torch.Tensor) -> None:
        if not has_memory(tensor) or not self._engine.open_step.wants(
            name, collections=frozenset({"activation_gradients"})
        ):
            return
        generation = self._generation

        def save(gradient: torch.Tensor) -> None:
            if generation == self._generation:  # else the backward pass came after the step had ended
                self._saver.save_activation(name, gradient, collection="activation_gradients")

        tensor.register_hook(untraced(self._fuse.protect(save)))  # type: ignore[no-untyped-call] # torch's own omission
