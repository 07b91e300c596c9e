"""Losses of training: the scalars that `backward` is called on, and the outputs of loss modules that the script names.

If the graph of a loss ends in a loss function of PyTorch, constant factors behind it (accumulation, AMP) are undone and
it has that function's name. Otherwise it is `loss`, unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from trackside.capture.ground.guard import describe
from trackside.capture.session import RunSession
from trackside.capture.statistics.budget import SAVED
from trackside.capture.steps.schedule import NOTHING_DUE
from trackside.frameworks.pytorch.facts.model_facts import ModelFactsSource
from trackside.frameworks.pytorch.ground.fuse import Fuse
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.pytorch.ground.structures import flatten
from trackside.frameworks.pytorch.losses.description import (
    UNNAMED,
    LateScale,
    LossDescription,
    constant_of,
    describe_loss,
    inputs_in_graph,
    is_sum,
)
from trackside.frameworks.pytorch.losses.description import name_of_loss_module as name_of
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.losses.parts import parts_of
from trackside.frameworks.pytorch.modes.validation import Validation
from trackside.frameworks.pytorch.saving.copying import is_in_cuda_graph
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver
from trackside.frameworks.pytorch.statistics.readings import PyTorchStatistics
from trackside.frameworks.pytorch.steps.graph_looks import GraphLooks


class LossSource:
    """A source of the losses of the open step, for the saved data, the statistics and the facts.

    Attributes:
        looks: The looks into the graphs of losses.
    """

    def __init__(
        self,
        session: RunSession,
        *,
        statistics: PyTorchStatistics,
        saver: TensorSaver,
        validation: Validation,
        inputs: LossInputSource,
        facts: ModelFactsSource,
        tokens: Callable[[], Sequence[torch.Tensor]],
    ) -> None:
        self._engine, self._guard = session.engine, session.guard
        self._statistics, self._record = statistics, statistics.record
        self._saver, self._validation = saver, validation
        self._inputs, self._facts = inputs, facts
        fuse = Fuse(session.guard, "looking into the graph of a loss")
        self.looks = GraphLooks(session, statistics=statistics, fuse=fuse, tokens=tokens)

    def backward_called(self, tensors: Any, *, is_saved: bool) -> None:
        """Add the losses that a backward pass begins with.

        Args:
            tensors: The first argument of `torch.autograd.backward`.
            is_saved: False if the open step has its losses from calls of loss modules.
        """
        engine = self._engine
        for tensor in (tensors,) if isinstance(tensors, torch.Tensor) else tensors:
            if not isinstance(tensor, torch.Tensor) or tensor.numel() != 1 or not has_memory(tensor):
                continue
            if not is_in_cuda_graph(tensor):
                loss = describe_loss(tensor.grad_fn)
                if self._facts.wants_loss(loss.name):
                    self._facts.loss_seen(tensor, loss)
                self._validation.trained_on(loss.name, tensor, is_sum=is_sum(loss))
                self._statistics.add_loss(loss.name, tensor, loss.scale, mode=engine.mode, part=loss.part)
                if engine.step >= self.looks.due:
                    self.looks.backward_begins(tensor)
                if is_saved and engine.due is not NOTHING_DUE:
                    started = self._record.budget.clock()
                    self._add(tensor, loss)
                    self._record.budget.spend(SAVED, started)

    def seen_at_rest(self, tensors: Any) -> None:
        """Save the losses that a backward pass of a step at rest begins with.

        Args:
            tensors: The first argument of `torch.autograd.backward`.
        """
        for tensor in (tensors,) if isinstance(tensors, torch.Tensor) else tensors:
            if isinstance(tensor, torch.Tensor) and tensor.numel() == 1 and has_memory(tensor):
                self._add(tensor, describe_loss(tensor.grad_fn))

    def module_returned(self, module: torch.nn.Module, output: Any) -> bool:
        """Add the output of a loss module. Return True if it held any loss."""
        name = name_of(module)
        self._validation.trained_on(name, is_sum=attribute_of(module, "reduction") == "sum")
        values = [self._saver.copied(name, tensor) for tensor in flatten(output)]
        found = [value for value in values if value is not None]
        for value in found:
            self._engine.open_step.add_loss(name, value)
        return bool(found)

    def _add(self, tensor: torch.Tensor, loss: LossDescription) -> None:
        if self._engine.due.losses:
            value = self._value(tensor, loss)
            if value is not None:
                weight = constant_of(loss.scale)
                self._engine.open_step.add_loss(loss.name, value, part=loss.part, weight=weight)
        if loss.name == UNNAMED:
            self._add_parts(tensor.grad_fn)
        if self._inputs.is_wanted and not self._inputs.was_called(loss.name):
            try:
                inputs = inputs_in_graph(loss.node)
            except RuntimeError as error:
                self._warn_of_lost_graph(error)
                return
            if inputs is not None:
                self._inputs.add(loss.name, inputs, is_call=False)

    def _value(self, tensor: torch.Tensor, loss: LossDescription) -> np.ndarray | None:
        """Return the value of the loss before it was scaled; on a GPU on its way, unless the scale lies on it too."""
        if self._saver.is_sent(tensor) and not isinstance(loss.scale, LateScale):
            return self._saver.sent(loss.name, tensor, scale=loss.scale)
        value = self._saver.copied(loss.name, tensor)
        if value is None:
            return None
        scale = loss.read_scale()
        return value if scale == 1 else np.asarray(value / scale, value.dtype)

    def _add_parts(self, node: Any) -> None:
        """Add the losses in the sum of a loss, and their inputs."""
        if not (self._engine.due.losses or self._inputs.is_wanted):
            return
        try:
            for part in parts_of(node):
                value = self._saver.copied(part.name, part.value) if self._engine.due.losses else None
                if value is not None:
                    self._engine.open_step.add_loss(part.name, value)
                inputs = inputs_in_graph(part.node) if self._inputs.is_wanted else None
                if inputs is not None and not self._inputs.was_called(part.name):
                    self._inputs.add(part.name, inputs, is_call=False)
        except RuntimeError as error:
            self._warn_of_lost_graph(error)

    def _warn_of_lost_graph(self, error: RuntimeError) -> None:
        self._guard.warn_once("graph", "what a loss was computed from is gone: %s.", describe(error))
