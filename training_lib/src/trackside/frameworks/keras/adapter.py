"""Captures a training of Keras 3; a step is a batch of `fit`, or else one update by the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trackside.capture.array_parameters import Parameters
from trackside.capture.session import CLOSE_SECONDS, SIGTERM_SECONDS, Owner, RunSession, SessionOptions
from trackside.contracts.uncaptured import UncapturedProcess
from trackside.environment import CaptureEnvironment
from trackside.frameworks.adapter import Undo
from trackside.frameworks.keras.calls import listen
from trackside.frameworks.keras.loops_by_hand import LoopsByHand
from trackside.frameworks.keras.replicas import ReplicaGradients
from trackside.frameworks.keras.step import KerasStep
from trackside.frameworks.keras.values import array_of, has_value, learning_rate_of, number_of, weight_name

RATE = "hyperparameters/optimizer/group_0/lr"

_METRICS, _LAYERS = frozenset({"metrics"}), frozenset({"inputs", "outputs"})


class KerasAdapter:
    """The adapter of Keras; see `frameworks/adapter.py`.

    Attributes:
        session: The run.
        loops: Loops by hand.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        owner: Flushed and closed at the end of the process, in the place of this adapter.
    """

    def __init__(
        self, environment: CaptureEnvironment, *, options: SessionOptions | None = None, owner: Owner | None = None
    ) -> None:
        self.session = RunSession(environment, options=options)
        self._engine, self._statistics = self.session.engine, self.session.statistics
        self._step = KerasStep(self.session, self, owner or self)
        self.loops = LoopsByHand(self.session, self._step)
        self._undo: Undo | None = None
        self._parameters, self._replicas = Parameters(), ReplicaGradients()
        self._slopes: dict[str, Any] = {}  # gradients and variables of the update under way
        self._variables: dict[str, Any] = {}
        self._mean = (0, 0.0)  # batches and their mean loss so far, where only means are seen
        protect = self.session.guard.protect
        self.batch_begins = protect("beginning a batch", self._batch_begins)
        self.batch_ended = protect("capturing a batch", self._batch_ended)
        self.loop_began = protect("beginning a loop", self._loop_began)
        self.loss_computed = protect("capturing a loss", self._loss_computed)
        self.layer_called = protect("capturing a layer", self._layer_called)
        self._before = protect("capturing gradients", self._before_update)
        self._after = protect("ending a step", self._after_update)

    @property
    def has_begun(self) -> bool:
        """True once the first step has been made."""
        return self.session.has_begun

    @property
    def wants_layers(self) -> bool:
        """True while the open step saves inputs or outputs of layers."""
        return not self._engine.due.kinds.isdisjoint(_LAYERS) and bool(self._step.batch_mode or self.loops.is_recording)

    def signs(self) -> UncapturedProcess:
        """Return the signs of training before the first step: none is known."""
        return UncapturedProcess()

    def install(self) -> None:
        """Listen to Keras."""
        self._undo = listen(self)

    def uninstall(self) -> None:
        """Close the run, and leave Keras as it was."""
        self.close()
        self.session.forget_process_end()
        if self._undo is not None:
            self._undo()
            self._undo = None

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Store the steps that have ended."""
        self.session.flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run. Never raises."""
        if self.session.has_begun:
            self.session.close(timeout_seconds, is_interrupted=is_interrupted)

    def gradients_applied(self, optimizer: Any, gradients: Any, variables: Any, apply: Callable[[], Any]) -> Any:
        """Capture an update: gradients and weights before it, the optimizer's variables after it."""
        before = self._before(optimizer, gradients, variables)
        result = apply()
        self._after(optimizer, before)
        return result

    # Batches of `fit`, `evaluate` and `predict`.

    def _loop_began(self, mode: str) -> None:
        self._mean = (0, 0.0)

    def _batch_begins(self, mode: str, model: Any) -> None:
        step = self._step
        if step.is_others():
            return
        if mode == "TRAIN" and not self.session.has_begun:
            self.session.read_request()
        step.batch_mode, step.losses = mode, []
        self._replicas.begin()
        self._engine.set_mode(mode)

    def _batch_ended(self, mode: str, logs: Any) -> None:
        step = self._step
        if step.is_refused or mode != step.batch_mode:
            return
        step.batch_mode = ""
        if mode != "TRAIN" and not self.session.has_begun:  # a program that only evaluates is no training
            self._engine.set_mode("TRAIN")
            return
        step.begin()
        values = logs if isinstance(logs, dict) else {}
        mean = number_of(values.get("loss"))
        if mean is not None:
            count, before = self._mean
            step.losses = step.losses or [mean * (count + 1) - before * count]
            self._mean = count + 1, mean
        self._add_metrics(mode, values)
        step.end()
        self._engine.set_mode("TRAIN")

    def _add_metrics(self, mode: str, values: dict[str, Any]) -> None:
        open_step = self._engine.open_step
        if "metrics" not in self._engine.due.kinds or mode == "PREDICT":
            return
        prefix = "val_" if mode == "EVAL" else ""
        for key, value in values.items():
            number = number_of(value)
            if number is not None:
                open_step.add(f"{prefix}{key}", np.array([number]), collections=_METRICS)

    # Inside a batch, or in a loop by hand.

    def _loss_computed(self, x: Any, y: Any, predictions: Any, loss: Any) -> None:
        self.loops.loss_computed()
        if self._step.is_refused:
            return
        value = number_of(loss)
        if value is not None:
            self._step.add_loss(value)
        self._step.add_parts(("inputs", x), ("model_inputs", x), ("labels", y), ("predictions", predictions))

    def _layer_called(self, layer: Any, inputs: Any, outputs: Any) -> None:
        for kind, part in (("inputs", inputs), ("outputs", outputs)):
            if kind in self._engine.due.kinds and part is not None:
                self._step.add(f"{layer.name}/{kind}", part, frozenset({kind}))

    def _before_update(self, optimizer: Any, gradients: Any, variables: Any) -> dict[str, Any] | None:
        """Add gradients and weights. Return the weights, by name, if the size of the update is to be measured."""
        if self._step.is_others():
            return None
        if not _are_known(gradients):
            self.loops.note_update(is_compiled=True)
            return None
        gradients = self._replicas.total(gradients)
        if gradients is None:
            return None
        if not self.session.has_begun:
            self.session.read_request()
        self._step.begin()
        self._engine.set_mode("TRAIN")
        recorder, open_step = self._statistics.recorder, self._engine.open_step
        has_norms = self._statistics.is_on and recorder.takes_norms
        if not has_norms and not self._engine.due.parameters:
            return {}
        pairs = [
            (weight_name(variable), variable, gradient)
            for variable, gradient in zip(variables or optimizer._trainable_variables, gradients, strict=True)
            if gradient is not None
        ]
        weights = {name: array_of(variable) for name, variable, _ in pairs}
        slopes = {name: array_of(gradient) for name, _, gradient in pairs}
        for prefix, arrays in (("", weights), ("gradient/", slopes)) if self._engine.due.parameters else ():
            for name, array in arrays.items():
                if array is not None and open_step.wants(prefix + name):
                    open_step.add(prefix + name, array)
        self._slopes = slopes
        self._variables = {name: variable for name, variable, _ in pairs}
        return weights

    def _after_update(self, optimizer: Any, before: dict[str, Any] | None) -> None:
        if before is None:
            return
        recorder = self._statistics.recorder
        rate = learning_rate_of(optimizer)
        rates = {} if rate is None else {RATE: rate}
        if self._statistics.is_on:
            slopes, updates = (self._slopes if before else {}), dict[str, Any]()
            if before and recorder.takes_dear:
                updates = {name: array_of(each) - before[name] for name, each in self._variables.items()}
            recorder.add(self._parameters.reading(before, slopes, updates, rates, recorder))
        self._slopes, self._variables = {}, {}
        if "optimizer_variables" in self._engine.due.kinds:
            for variable in optimizer.variables:
                self._step.add(f"optimizer/{variable.path}", variable, frozenset({"optimizer_variables"}))
        self.loops.note_update(is_compiled=False)
        if self.loops.ends_at_update:
            self._step.end()


def _are_known(gradients: Iterable[Any]) -> bool:
    found = [gradient for gradient in gradients if gradient is not None]
    return bool(found) and has_value(found[0])
