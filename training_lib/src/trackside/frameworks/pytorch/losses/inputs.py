"""Predictions, labels and accuracy, saved from the inputs of losses."""

from __future__ import annotations

import numpy as np
import torch

from trackside.capture.ground.guard import Guard, describe
from trackside.capture.steps.step_engine import StepEngine
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.numbering import Numbering
from trackside.frameworks.pytorch.losses.description import Accuracy, LossInputs, accuracy
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver, outside_of_modes

KINDS = frozenset({"labels", "predictions", "metrics"})
ACCURACY = "metrics/accuracy"
_MOST_OF_A_NAME = 256
_NONE = Accuracy(0, 0)


class LossInputSource:
    """A source of the inputs of losses.

    `<Loss>_input_0` and `_input_1` are predictions and labels of a step's first loss. Several losses in a step
    (accumulation) have `_input_2` and `_input_3` and so on. Accuracy is over all of them.
    """

    def __init__(self, engine: StepEngine, guard: Guard, *, saver: TensorSaver, numbering: Numbering) -> None:
        self._engine = engine
        self._guard = guard
        self._saver = saver
        self._numbering = numbering
        self._called: set[tuple[str, str]] = set()  # mode and loss
        self._accuracy: dict[str, Accuracy] = {}  # by mode
        self._settled: dict[str, Accuracy] = {}

    @property
    def is_wanted(self) -> bool:
        """True if the open step saves any of it."""
        return not self._engine.due.kinds.isdisjoint(KINDS)

    def settle(self, mode: str) -> None:
        """Mark the answers counted so far as the open step's own, as `OpenStep.settle`."""
        if mode in self._accuracy:
            self._settled[mode] = self._accuracy[mode]

    def drop_unsettled(self, mode: str) -> None:
        """Drop the answers counted since the last `settle`, as `OpenStep.drop_unsettled`."""
        self._called = {key for key in self._called if key[0] != mode}
        self._accuracy.pop(mode, None)
        if mode in self._settled:
            self._accuracy[mode] = self._settled[mode]

    def step_ended(self, mode: str, *, keep_unsettled: bool = False) -> None:
        """Reset the answers of that mode. Call it right before `StepEngine.end_step`."""
        total, settled = self._accuracy.pop(mode, _NONE), self._settled.pop(mode, _NONE)
        if not keep_unsettled:
            self._called = {key for key in self._called if key[0] != mode}
            return
        self._accuracy[mode] = Accuracy(total.right - settled.right, total.of - settled.of)
        if ACCURACY in self._engine.open_step.unsettled:
            self._save_accuracy(self._accuracy[mode])

    def was_called(self, loss_name: str) -> bool:
        """Return True if a loss module of this name was seen in the open step, so that its graph adds nothing new."""
        return (self._engine.mode, loss_name) in self._called

    def add(self, loss_name: str, inputs: LossInputs, *, is_call: bool) -> None:
        """Add the inputs of one loss. `is_call`: seen at a call, not in a graph."""
        if not has_memory(inputs.predictions) or not has_memory(inputs.labels):
            return
        mode, prefix = self._engine.mode, f"{loss_name}_input_"
        k = self._numbering.of(mode, prefix)
        if k >= _MOST_OF_A_NAME:
            return
        self._numbering.move_on(mode, prefix, k + 2)
        if is_call:
            self._called.add((mode, loss_name))
        self._saver.save(f"{loss_name}_input_{k}", inputs.predictions, collection="predictions")
        self._saver.save(f"{loss_name}_input_{k + 1}", inputs.labels, collection="labels")
        is_due = "metrics" in self._engine.due.kinds
        if is_due and self._engine.open_step.wants(ACCURACY, collections=frozenset({"metrics"})):
            self._add_accuracy(loss_name, inputs)

    def _add_accuracy(self, loss_name: str, inputs: LossInputs) -> None:
        try:
            with outside_of_modes():
                found = accuracy(loss_name, inputs)
                before = self._accuracy.get(self._engine.mode, _NONE)
                total = None if found is None else Accuracy(before.right + found.right, before.of + found.of)
        except Exception as error:  # noqa: BLE001 - predictions and labels of an odd kind cost only their accuracy
            self._guard.warn_once("accuracy", "the accuracy cannot be computed: %s.", describe(error))
            return
        if total is not None:
            self._accuracy[self._engine.mode] = total
            self._save_accuracy(total)

    def _save_accuracy(self, accuracy: Accuracy) -> None:
        with outside_of_modes():
            share = accuracy.right / accuracy.of
        if isinstance(share, torch.Tensor):  # its value comes later
            self._saver.save(ACCURACY, share, collection="metrics")
        else:
            self._engine.open_step.add(ACCURACY, np.array(share, np.float32), collections=frozenset({"metrics"}))
