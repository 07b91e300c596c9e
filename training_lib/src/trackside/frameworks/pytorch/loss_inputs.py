"""Saves predictions, labels and accuracy from what losses are computed from."""

from __future__ import annotations

import numpy as np

from trackside.capture.guard import Guard, describe
from trackside.capture.hook import Hook
from trackside.frameworks.pytorch.losses import Accuracy, LossInputs, accuracy
from trackside.frameworks.pytorch.saving import TensorSaver, outside_of_modes
from trackside.frameworks.pytorch.structures import holds_value

KINDS = frozenset({"labels", "predictions", "metrics"})
ACCURACY = "metrics/accuracy"
_MOST_OF_A_NAME = 256


class LossInputSource:
    """Counts them over one step: `<Loss>_input_0` and `_input_1` are predictions and labels of its first loss.

    Several losses in a step (accumulation) have `_input_2` and `_input_3` and so on; accuracy is over all of them.
    """

    def __init__(self, hook: Hook, guard: Guard, *, saver: TensorSaver) -> None:
        self._hook = hook
        self._guard = guard
        self._saver = saver
        self._counts: dict[tuple[str, str], int] = {}  # by mode and loss
        self._called: set[tuple[str, str]] = set()
        self._accuracy: dict[str, Accuracy] = {}

    @property
    def is_wanted(self) -> bool:
        """True if the open step saves any of it."""
        return not self._hook.due.kinds.isdisjoint(KINDS)

    def step_ended(self, mode: str) -> None:
        """Counts that mode's from 0 again."""
        self._counts = {key: k for key, k in self._counts.items() if key[0] != mode}
        self._called = {key for key in self._called if key[0] != mode}
        self._accuracy.pop(mode, None)

    def was_called(self, loss_name: str) -> bool:
        """True if a loss module of this name was seen in the open step, so that its graph tells nothing new."""
        return (self._hook.mode, loss_name) in self._called

    def add(self, loss_name: str, inputs: LossInputs, *, is_call: bool) -> None:
        """Adds what one loss was computed from; `is_call`: seen at a call, not in a graph."""
        if not holds_value(inputs.predictions) or not holds_value(inputs.labels):
            return
        key = (self._hook.mode, loss_name)
        k = self._counts.get(key, 0)
        if k >= _MOST_OF_A_NAME:
            return
        self._counts[key] = k + 2
        if is_call:
            self._called.add(key)
        self._saver.save(f"{loss_name}_input_{k}", inputs.predictions, collection="predictions")
        self._saver.save(f"{loss_name}_input_{k + 1}", inputs.labels, collection="labels")
        if self._hook.wants(ACCURACY, collections=frozenset({"metrics"})):
            self._add_accuracy(loss_name, inputs)

    def _add_accuracy(self, loss_name: str, inputs: LossInputs) -> None:
        try:
            with outside_of_modes():
                found = accuracy(loss_name, inputs)
        except Exception as error:  # noqa: BLE001 - predictions and labels of an odd kind cost only their accuracy
            self._guard.say_once("accuracy", "the accuracy cannot be computed: %s.", describe(error))
            return
        if found is not None:
            before = self._accuracy.get(self._hook.mode, Accuracy(0, 0))
            total = self._accuracy[self._hook.mode] = Accuracy(before.right + found.right, before.of + found.of)
            share = np.array(total.right / total.of, np.float32)
            self._hook.add(ACCURACY, share, collections=frozenset({"metrics"}))
