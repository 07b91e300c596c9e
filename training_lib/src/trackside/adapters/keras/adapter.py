"""Captures a training of Keras 3; a step is a batch of `fit`, or else one update by the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

import keras
import numpy as np

from trackside.adapters.keras.calls import listen, step_hooks
from trackside.adapters.keras.facts import KerasFacts
from trackside.adapters.keras.jax_steps import JaxSteps
from trackside.adapters.keras.loops_by_hand import LoopsByHand
from trackside.adapters.keras.names import OURS, Names, weight_name
from trackside.adapters.keras.operators import begin_operator_profile
from trackside.adapters.keras.replicas import ReplicaGradients
from trackside.adapters.keras.resting import Resting
from trackside.adapters.keras.speed_file import Speed
from trackside.adapters.keras.step import KerasStep
from trackside.adapters.keras.update_size import UpdateSize
from trackside.adapters.keras.values import array_of, has_value, learning_rate_of, number_of, view_of
from trackside.adapters.shared.listening import ListeningAdapter
from trackside.capture.session import CLOSE_SECONDS, Owner, SessionOptions
from trackside.capture.statistics.array_parameters import OpenReading, Parameters
from trackside.capture.statistics.budget import DEAR, NORMS, SAVED
from trackside.capture.steps.last_step import StepPosition
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared.adapter import Undo
from trackside.profiling.phase_clock import BACKWARD, CAPTURE, DATA, EVALUATION, OPTIMIZER, OTHER

P = ParamSpec("P")
R = TypeVar("R")


RATE = "hyperparameters/optimizer/group_0/lr"
FETCHES_BETWEEN = frozenset({"torch"})  # on TensorFlow and JAX the function that trains fetches its batch itself
_LOSSES, _METRICS = frozenset({"losses"}), frozenset({"metrics"})
_LAYERS = frozenset({"inputs", "outputs", "activations", "activation_inputs", "relu_outputs", "saturating_inputs"})


class _Update:
    """An update of the optimizer that is under way.

    Attributes:
        reading: Its numbers so far.
        variables: The variables, by name, if the size of the update is to be measured.
        weights: Their values before it.
        rate: The learning rate of the update, which the optimizer's counter of steps changes; None if it has none.
    """

    def __init__(self, rate: float | None) -> None:
        self.reading, self.rate = OpenReading(()), rate
        self.variables: dict[str, Any] = {}
        self.weights: dict[str, Any] = {}


class KerasAdapter(ListeningAdapter):
    """The adapter of Keras; see `frameworks/shared/adapter.py`.

    Attributes:
        loops: Loops by hand.
        jax: Steps on JAX.
        resting: Begins and ends its rests.
        facts: Facts about the program.
        batch_begins, batch_ended, epoch_ended, loop_began, loss_computed, layer_called: See `calls.Listener`.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        owner: Flushed and closed at the end of the process, in the place of this adapter.
        names: The names of saved tensors.
    """

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        options: SessionOptions | None = None,
        owner: Owner | None = None,
        names: Names = OURS,
    ) -> None:
        super().__init__(
            environment, options=options, owner=owner, framework="tensorflow", begin_operators=begin_operator_profile
        )
        self._engine, self._statistics, self._names = self.session.engine, self.session.statistics, names
        self.facts = KerasFacts(self.session.guard)
        self._step = KerasStep(self, names, self.facts)
        speed = self._speed = Speed(self.session)
        self.speed_parts, self._clock = speed.parts, speed.clock
        self._parameters, self._size, self._replicas = Parameters(), UpdateSize(), ReplicaGradients()
        self.resting = Resting(self, self._step, clock=self._clock, size=self._size)
        self.loops = LoopsByHand(self.session, self._step, speed.calls, self.resting)
        self._losses_around: list[float] | None = None  # of the batch within which a callback evaluates
        self._is_fetching = False  # between two batches of a training, where `fit` fetches one on PyTorch
        self.session.statistics.samplers.append(self.session.guard.protect("timing a step", self._clock.take))
        timed = self._timed
        self._phase = OTHER  # of the time that is not ours
        self.batch_begins = timed("beginning a batch", self._batch_begins)
        self.batch_ended = timed("capturing a batch", self._batch_ended)
        self.epoch_ended = timed("ending an epoch", self._epoch_ended)
        self.loop_began = timed("beginning a loop", self._loop_began)
        self.loss_computed = timed("capturing a loss", self._loss_computed)
        self._before = timed("capturing gradients", self._before_update)
        self._after = timed("ending a step", self._after_update)
        self.layer_called = timed("capturing a layer", self._layer_called)
        self.jax = JaxSteps(self.session, self._step, self, speed.calls, self.resting)

    def _timed(self, doing: str, method: Callable[P, R]) -> Callable[P, R | None]:
        """Return the method made harmless, with its time taken as our own."""
        clock, protected = self._clock, self.session.guard.protect(doing, method)

        def run(*args: P.args, **kwargs: P.kwargs) -> R | None:
            clock.enter(CAPTURE)
            try:
                return protected(*args, **kwargs)
            finally:
                clock.enter(self._phase)

        return run

    @property
    def wants_layers(self) -> bool:
        """True while the open step saves inputs or outputs of layers."""
        return not self._engine.due.kinds.isdisjoint(_LAYERS) and bool(self._step.batch_mode or self.loops.is_recording)

    def listen(self) -> Undo:
        """Listen to Keras. Return the function that undoes it."""
        undo, hooks = listen(self), step_hooks(self)
        hooks.put_in()
        self.resting.hooks = hooks

        def leave() -> None:
            self.resting.end()
            hooks.take_out()
            undo()
            self._speed.wait.close()

        return leave

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run. Never raises."""
        self.resting.end()
        super().close(timeout_seconds, is_interrupted=is_interrupted)

    @property
    def is_in_step(self) -> bool:
        """True within a batch, and in a loop by hand from the tape on."""
        return bool(self._step.batch_mode) or self.loops.has_begun_step

    def step_of_script(self) -> StepPosition | None:
        """Return the step that the last update of a loop by hand has ended, until the next one begins."""
        return self._step.ended if self._step.is_by_hand and not self.is_in_step else None

    def gradients_applied(self, optimizer: Any, gradients: Any, variables: Any, apply: Callable[[], Any]) -> Any:
        """Capture an update: gradients and weights before it, the optimizer's variables after it."""
        before = self._before(optimizer, gradients, variables)
        result = apply()
        self._after(optimizer, before)
        return result

    # Batches of `fit`, `evaluate` and `predict`.

    def _loop_began(self, mode: str) -> None:
        self._step.means.begin(mode)
        if mode != "TRAIN":
            self.resting.end()
        self._is_fetching = False
        self._phase = OTHER if mode == "TRAIN" else EVALUATION  # until a batch of the training begins

    def _batch_begins(self, mode: str, model: Any) -> None:
        step = self._step
        if mode == "TRAIN":
            self._phase = OTHER
            if self._is_fetching:
                self._clock.rename(OTHER, DATA)
            self._is_fetching = False
        if step.is_others():
            return
        if mode == "TRAIN":
            self.note_progress()
            if not self.session.has_begun:
                self.session.read_request()
        if mode != "TRAIN" and step.batch_mode == "TRAIN":  # a callback evaluates within a batch of the training
            self._losses_around = step.losses
        step.batch_mode, step.is_by_hand, step.losses = mode, False, []
        self.facts.model = model
        self.jax.take(model)
        if mode == "TRAIN" and not self.session.has_begun:
            self.facts.note_start(model)
        self._replicas.begin()
        self._engine.set_mode(mode)

    def _batch_ended(self, mode: str, batch: int, logs: Any) -> None:
        step = self._step
        if step.is_refused or mode != step.batch_mode:
            return
        around, self._losses_around = self._losses_around, None
        step.batch_mode = ""
        self._phase = OTHER if mode == "TRAIN" else EVALUATION
        if self.resting.is_within_step and mode == "TRAIN":
            step.losses = []
            self.resting.leave_out_step(batch, logs)
        else:
            self._end_batch(mode, batch, logs)
        self._is_fetching = mode == "TRAIN" and keras.backend.backend() in FETCHES_BETWEEN
        if around is not None:
            step.batch_mode, step.losses = "TRAIN", around

    def _end_batch(self, mode: str, batch: int, logs: Any) -> None:
        step = self._step
        if mode != "TRAIN" and not self.session.has_begun and not self._names.loss:  # one that only evaluates
            self._engine.set_mode("TRAIN")
            return
        step.begin()
        values = logs if isinstance(logs, dict) else {}
        mean = number_of(values.get("loss"))
        if mean is not None:
            loss = step.means.loss(mode, batch, mean)
            step.losses = step.losses or ([] if loss is None else [loss])
        if "metrics" in self._engine.due.kinds and mode != "PREDICT":
            for name, array in _metrics(self._names, values, mode, batch):
                self._engine.open_step.add(name, array, collections=_METRICS)
        step.end(mean)
        self._engine.set_mode("TRAIN")
        if mode == "TRAIN":
            self.resting.begin_after_step()

    def _epoch_ended(self, epoch: int, logs: Any) -> None:
        """Add the numbers of the epoch to its last step, regardless of the schedules, as smdebug's hook did."""
        last, ended = self.session.last, self._step.ended
        if not self._names.loss or last is None or ended is None or self._step.is_refused or not isinstance(logs, dict):
            return
        losses = {name: number_of(logs[name]) for name in ("loss", "val_loss") if name in logs}
        for name, value in losses.items():
            last.amend(ended, name, np.array([value], np.float64), _LOSSES)
        for name, array in _metrics(self._names, logs, "TRAIN", epoch):
            last.amend(ended, name, array, _METRICS)

    # Inside a batch, or in a loop by hand.

    def _loss_computed(self, model: Any, x: Any, y: Any, predictions: Any, loss: Any) -> None:
        self.loops.loss_computed()
        if self._step.is_refused:
            return
        self.facts.model = model
        if not self.session.has_begun:
            self.facts.note_loss(loss)
        value = number_of(loss)
        if value is not None:
            self._step.add_loss(value)
            if self._step.batch_mode == "TRAIN":
                self._phase = BACKWARD  # until the optimizer is called
        self._step.add_parts(("x", x), ("y", y), ("predictions", predictions))

    def backward_begins(self, loss: Any) -> None:
        """Take the loss of a `train_step` of the script's own, which calls no `compute_loss`."""
        if self._step.batch_mode == "TRAIN" and not self._step.losses:
            self.loss_computed(self.facts.model, None, None, None, self.loops.unscaled(loss))

    def layer_trained(self, layer: Any, *, is_training: bool) -> None:
        """Note the mode of a layer's call by a training step, before the run begins."""
        if not self.session.has_begun and (self._step.batch_mode == "TRAIN" or self.loops.is_recording):
            self.facts.note_mode(layer, is_training=is_training)

    def _layer_called(self, layer: Any, inputs: Any, outputs: Any) -> None:
        for side, part in (("inputs", inputs), ("outputs", outputs)):
            named = None if part is None else self._names.layer(layer, side)
            if named is not None:
                self._step.add(named[0], part, named[1])

    def _before_update(self, optimizer: Any, gradients: Any, variables: Any) -> _Update | None:
        """Add gradients and weights. Return what is known before the update; None if no step of ours makes it."""
        if self._step.is_others():
            return None
        if self._phase == BACKWARD:
            self._phase = OPTIMIZER
        gradients = list(gradients)
        variables = list(variables or optimizer._trainable_variables)
        self.facts.note_update(optimizer, gradients, variables)
        if not _are_known(gradients):
            self.loops.note_update(is_compiled=True)
            return None
        gradients = self._replicas.total(gradients)
        if gradients is None:
            return None
        if not self.session.has_begun:
            self.session.read_request()
        self._step.begin()
        if not self._step.batch_mode:
            self.note_progress()
        self._engine.set_mode("TRAIN")
        recorder = self._statistics.recorder
        has_norms = self._statistics.is_on and recorder.takes_norms
        update = _Update(learning_rate_of(optimizer) if self._statistics.is_on else None)
        if not has_norms and not self._engine.due.parameters:
            return update
        named = [(weight_name(variable), variable) for variable in variables]
        if self._engine.due.parameters:
            self._save(variables, gradients)
        if not has_norms:
            return update
        # Between the update's two halves weights are kept for its size alone, and gradients not at all.
        started = recorder.budget.clock()
        slopes = {name: view_of(slope) for (name, _), slope in zip(named, gradients, strict=True)}
        weights = dict[str, Any]()
        if recorder.takes_dear:
            update.variables = dict(named)
            weights = update.weights = {name: array_of(variable) for name, variable in named}
        recorder.budget.spend(DEAR if recorder.takes_dear else NORMS, started)
        update.reading = self._parameters.before(weights, slopes, recorder)
        return update

    def _save(self, variables: list[Any], gradients: list[Any]) -> None:
        """Add the weights and gradients that the open step saves."""
        started, is_batch = self._statistics.budget.clock(), bool(self._step.batch_mode)
        for variable, gradient in zip(variables, gradients, strict=True):
            for name, value in (
                (self._names.weight(variable, is_batch=is_batch), variable),
                (self._names.gradient(variable), gradient),
            ):
                if self._engine.open_step.wants(name) and (array := array_of(value)) is not None:
                    self._engine.open_step.add(name, array)
        self._statistics.budget.spend(SAVED, started)

    def _after_update(self, optimizer: Any, update: _Update | None) -> None:
        if self._phase == OPTIMIZER:
            self._phase = OTHER
        if update is None:
            return
        recorder = self._statistics.recorder
        if self._statistics.is_on:
            started = recorder.budget.clock()
            rates = {} if update.rate is None else {RATE: update.rate}
            updates = {name: view_of(each) - update.weights[name] for name, each in update.variables.items()}
            if updates:
                recorder.budget.spend(DEAR, started)
            recorder.add(self._parameters.after(update.reading, updates, rates, recorder))
            if recorder.takes_update:
                self._size.measure(optimizer, recorder)
        if "optimizer_variables" in self._engine.due.kinds:
            for variable in optimizer.variables:
                name = self._names.optimizer_variable(optimizer, variable)
                self._step.add(name, variable, frozenset({"optimizer_variables"}))
        self.loops.note_update(is_compiled=False)
        if self.loops.ends_at_update:
            self.loops.end_step()
            self.resting.begin_after_step()


def _are_known(gradients: Iterable[Any]) -> bool:
    first = next((gradient for gradient in gradients if gradient is not None), None)
    return first is not None and has_value(first)


def _metrics(names: Names, logs: dict[str, Any], mode: str, batch: int) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in names.metrics(logs, mode, batch):
        number = number_of(value)
        if number is not None:
            yield name, np.array([number])
