"""Weights, biases and gradients of the registered models as smdebug 1.0.34 saves them.

The capture of unmodified training saves what optimizers hold and get. smdebug saves every parameter of a registered
model, in evaluations too, and the gradients that backward passes gave: before clipping, still scaled by AMP, and of
this rank alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.session import RunSession
from trackside.capture.steps.step_engine import EVAL, PREDICT, TRAIN, StepEngine
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.saving.slabs import PLAIN_TYPES
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver
from trackside.frameworks.pytorch.sharding.flat_shards import flat_collection
from trackside.frameworks.pytorch.steps.parameters import ParameterSource
from trackside.frameworks.pytorch.steps.sources import PyTorchSources


class ModelTensors:
    """A source of the parameters and gradients that optimizers do not show. See `Source`.

    Call `connect` before any event.
    """

    _names: ParameterNames
    _saver: TensorSaver
    _parameters: ParameterSource

    def __init__(self, session: RunSession) -> None:
        self._engine: StepEngine = session.engine
        self._protect = Fuse(session.guard, "copying gradients in the backward pass").protect
        self._mode = TRAIN  # of the step with watched gradients
        self._watched: dict[int, Callable[[], object]] = {}  # by the parameter's id: removes its hook
        self._used: set[int] = set()  # parameters that an optimizer has stepped in the open step
        self._later: dict[str, torch.Tensor] = {}  # gradients of these since: of the next step, or of none

    def connect(self, sources: PyTorchSources) -> None:
        """Add to these sources, and leave gradients of backward passes to this one."""
        self._names, self._saver, self._parameters = sources.names, sources.saver, sources.parameters
        sources.parameters.seen_in_backward = self._save_later
        sources.parameters.collection_of = flat_collection
        sources.parameters.reductions.leaves_gradients = True

    def backward_begins(self) -> None:
        """Watch the gradients that the open step saves."""
        engine = self._engine
        self._mode = engine.mode
        if not engine.due.parameters:
            return
        for name, parameter in self._names.of_roots():
            if id(parameter) in self._watched or not parameter.requires_grad or not _is_whole(name, parameter):
                continue
            gradient_name = f"gradient/{name}"
            if engine.open_step.wants(gradient_name):
                save = self._protect(functools.partial(self._save, gradient_name, id(parameter)))
                handle = parameter.register_hook(save)  # type: ignore[no-untyped-call] # torch's own
                self._watched[id(parameter)] = handle.remove

    def evaluation_step_begins(self) -> None:
        """Copy the weights and biases for a step of an evaluation."""
        if self._engine.mode in (EVAL, PREDICT):
            self._parameters.step_begins_with_call()

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Copy the parameters that no optimizer holds."""
        self._used.update(id(parameter) for group in optimizer.param_groups for parameter in group["params"])
        engine = self._engine
        if engine.due.parameters:
            named = [(name, parameter) for name, parameter in self._names.of_roots() if not engine.open_step.has(name)]
            self._saver.save_all(named)

    def step_ended(self, mode: str, *, keep_unsettled: bool) -> None:
        """Watch no more gradients for the open step."""
        if mode != self._mode:  # a validation, within a training step that is still open
            return
        for remove in self._watched.values():
            remove()
        self._watched, self._used = {}, set()
        if not keep_unsettled:
            self._later = {}

    def _save(self, gradient_name: str, parameter_id: int, gradient: torch.Tensor) -> None:
        if parameter_id in self._used and has_memory(gradient):
            earlier = self._later.get(gradient_name)
            self._later[gradient_name] = gradient.detach().clone() if earlier is None else earlier + gradient
            return
        open_step = self._engine.open_step
        known = open_step.unsettled.get(gradient_name)
        if known is None:
            self._saver.save(gradient_name, gradient)
            return
        open_step.tensors()  # waits for copies that are on their way from a device
        further = self._saver.copied(gradient_name, gradient)
        if further is not None:
            open_step.add(gradient_name, known + further)

    def _save_later(self) -> None:
        """Save the gradients that came after the optimizer's step of a step which has ended since."""
        if not self._used:
            later, self._later = self._later, {}
            for gradient_name, gradient in later.items():
                self._saver.save(gradient_name, gradient)


def _is_whole(name: str, parameter: torch.Tensor) -> bool:
    """Return False for a part of a sharded parameter: its hooks see other gradients than its optimizer."""
    return type(parameter) in PLAIN_TYPES and not flat_collection(name)
