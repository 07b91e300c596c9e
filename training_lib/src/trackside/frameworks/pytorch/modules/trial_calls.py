"""Separates calls that only try a model out, before any training, from the first call of the training.

A script may call its model to see a shape, to give lazy modules theirs, or to play a game with it. The call itself does
not show that. But when the same model is called next, nothing is left of the first call's result: no tensor, no graph
that a backward pass could walk. Everything collected from it is then dropped. Calls are only checked until the first
step.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch

from trackside.capture.steps.step_engine import StepEngine
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.numbering import Numbering
from trackside.frameworks.pytorch.ground.structures import flatten
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver


class _Graph:
    """A hook on the graph of a tensor, which lives as long as the graph, and records a backward pass through it."""

    def __init__(self, call: _Call) -> None:
        self._call = call

    def __call__(self, _gradient: Any) -> None:
        self._call.was_used = True


class _Call:
    """A call of a model, and the data collected before it."""

    def __init__(self, model: torch.nn.Module, names: frozenset[str], counts: Mapping[str, int]) -> None:
        self.model = id(model)
        self.names, self.counts = names, counts
        self.was_used = False
        self._left: list[weakref.ref[Any]] = []

    def returned(self, output: Any) -> None:
        for tensor in flatten(output):
            if not has_memory(tensor):
                continue
            kept: Any = tensor
            if tensor.grad_fn is not None:
                kept = _Graph(self)
                tensor.register_hook(kept)  # type: ignore[no-untyped-call] # torch's own omission
            self._left.append(weakref.ref(kept))

    def has_left_nothing(self) -> bool:
        return not self.was_used and bool(self._left) and all(reference() is None for reference in self._left)


class TrialCalls:
    """A detector of trial calls. It needs the outermost calls of models until training has begun."""

    def __init__(
        self, engine: StepEngine, *, saver: TensorSaver, numbering: Numbering, loss_inputs: LossInputSource
    ) -> None:
        self._engine, self._saver = engine, saver
        self._numbering, self._loss_inputs = numbering, loss_inputs
        self._last: _Call | None = None

    def called(self, model: torch.nn.Module) -> None:
        """Drop the data of the call before, if that was of this model and only a trial."""
        last, mode = self._last, self._engine.mode
        if last is not None and last.model == id(model) and last.has_left_nothing():
            self._saver.has_freed(self._engine.open_step.drop_all_but(last.names))
            self._numbering.go_back(mode, last.counts)
            self._loss_inputs.drop_unsettled(mode)
        self._last = _Call(model, frozenset(self._engine.open_step.unsettled), self._numbering.counted(mode))

    def returned(self, output: Any) -> None:
        """Note the result of the call."""
        if self._last is not None:
            self._last.returned(output)
