"""Weights, gradients and buffers of the trained models, as an optimizer's step uses them.

They are copied right before the optimizer's step: the weights that this forward pass used, and the gradients as the
optimizer gets them (clipped, unscaled, averaged over ranks). If the script or a call of the model ends a step, they are
copied at that moment, or in the backward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer

from trackside.capture.session import RunSession
from trackside.capture.steps.schedule import NOTHING_DUE
from trackside.capture.steps.step_engine import EVAL, PREDICT
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.parameter_names import ParameterNames
from trackside.frameworks.pytorch.modules.source import TrainedModules, save_buffers
from trackside.frameworks.pytorch.optimizers.raw_gradients import RawGradients
from trackside.frameworks.pytorch.optimizers.source import OptimizerSource, fused_scale
from trackside.frameworks.pytorch.saving.copying import is_one
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver
from trackside.frameworks.pytorch.sharding.flat_shards import FlatShards
from trackside.frameworks.pytorch.statistics.reductions import ReductionSource

_KINDS = frozenset({"weights", "biases"})


class ParameterSource:
    """A source of weights, gradients and buffers for the open step, if it saves them."""

    def __init__(
        self,
        session: RunSession,
        *,
        names: ParameterNames,
        modules: TrainedModules,
        saver: TensorSaver,
        raw_gradients: RawGradients,
        optimizers: OptimizerSource,
    ) -> None:
        self._engine = session.engine
        self._names, self._modules, self._saver = names, modules, saver
        self._raw_gradients, self._optimizers = raw_gradients, optimizers
        self.after_optimizer = FlatShards(names, session.shards, session.guard).note  # which part this worker holds
        self.reductions = ReductionSource(session.engine, is_taken=lambda name: not self.collection_of(name))
        self._handles: list[Any] = []  # on gradients that no optimizer is given
        self._protect = Fuse(session.guard, "copying gradients in the backward pass").protect
        self.seen_in_backward: Callable[[], object] | None = None  # saves the gradients that backward passes gave
        # The collection of a parameter that is in none by its name. smdebug's hook goes by names alone.
        self.collection_of: Callable[[str], str] = self._weights_unless_named

    def before_optimizer(self, optimizer: Optimizer) -> None:
        """Copy the values that this step's forward and backward passes used."""
        engine = self._engine
        if "buffers" in engine.due.kinds:
            save_buffers(self._modules, engine, self._saver)
        wants_raw = "raw_gradients" in engine.due.kinds
        if not engine.due.parameters and not wants_raw:
            return
        if self.seen_in_backward is not None:
            self.seen_in_backward()
        scale = fused_scale(optimizer)
        names, parameters = self._names.row(optimizer)
        reduced = self.reductions.add(names, parameters, gradient_scale=scale)
        if wants_raw:
            for name, parameter in zip(names, parameters, strict=True):
                if parameter.grad is not None:
                    self._raw_gradients.add_unclipped(name, parameter.grad, scale)
        if len(reduced) < 2 * len(names):
            self._copy_others(zip(names, parameters, strict=True), reduced, scale)

    def _copy_others(
        self,
        named: Iterable[tuple[str, torch.Tensor]],
        reduced: frozenset[str],
        scale: float | torch.Tensor,
    ) -> None:
        """Copy the parameters and gradients that are not among those `reduced`."""
        engine, save = self._engine, self._saver.save
        wanted: list[tuple[str, torch.Tensor]] = []
        for name, parameter in named:
            if name not in reduced and not engine.open_step.has(name):
                if collection := self.collection_of(name):
                    save(name, parameter, collection=collection)
                else:
                    wanted.append((name, parameter))
            if parameter.grad is None:
                continue
            is_seen = self.seen_in_backward is not None and engine.open_step.has(f"gradient/{name}")
            if f"gradient/{name}" not in reduced and not is_seen:
                if is_one(scale):
                    wanted.append((f"gradient/{name}", parameter.grad))
                else:
                    save(f"gradient/{name}", parameter.grad, scale=scale)
        self._saver.save_all(wanted)

    def step_begins_with_call(self) -> None:
        """Copy the weights, and each gradient when it is whole. No optimizer shows that moment, nor the clearing."""
        engine = self._engine
        if not engine.due.parameters:
            return
        named = list(self._names.of_roots())
        for name, parameter in named:
            if not engine.open_step.has(name):
                self._saver.save(name, parameter, collection=self.collection_of(name))
        if self.seen_in_backward is not None or engine.mode in (EVAL, PREDICT):
            return
        for name, parameter in named:
            if parameter.requires_grad and engine.open_step.wants(f"gradient/{name}"):
                save = self._protect(functools.partial(self._save_gradient, f"gradient/{name}"))
                handle = parameter.register_post_accumulate_grad_hook(save)  # type: ignore[no-untyped-call] # torch's own
                self._handles.append(handle)

    def step_ends_by_script(self, optimizers: Iterable[Optimizer], *, has_gradients: bool) -> None:
        """Copy the values that no optimizer's step has copied, at a step end by the script.

        Args:
            optimizers: Those of the captured models.
            has_gradients: True if a backward pass was made in the step.
        """
        engine = self._engine
        if engine.due is NOTHING_DUE:
            return
        if "buffers" in engine.due.kinds:
            save_buffers(self._modules, engine, self._saver)
        optimizers = list(optimizers)
        for optimizer in optimizers:
            self._optimizers.before_optimizer(optimizer)
        if not engine.due.parameters:
            return
        named = dict(self._names.of_roots())
        for optimizer in optimizers:
            named.update(self._names.of(optimizer))
        for name, parameter in named.items():
            if not engine.open_step.has(name):
                self._saver.save(name, parameter, collection=self.collection_of(name))
            gradient_name = f"gradient/{name}"
            if has_gradients and parameter.grad is not None and not engine.open_step.has(gradient_name):
                self._saver.save(gradient_name, parameter.grad)

    def step_ended(self, _mode: str, *, keep_unsettled: bool) -> None:
        """Copy no more gradients for the open step."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def _weights_unless_named(self, name: str) -> str:
        return "" if self._engine.open_step.membership.of(name) & _KINDS else "weights"

    def _save_gradient(self, name: str, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            self._saver.save(name, parameter.grad)
