"""Loops without `fit`: a gradient tape, a compiled function, a loss that is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from trackside.adapters.keras.compiled_functions import CompiledFunctions
from trackside.adapters.keras.eager import EagerSteps
from trackside.adapters.keras.replicas import number_of_replicas
from trackside.adapters.keras.resting import Resting
from trackside.adapters.keras.step import WITHOUT_TENSORS, KerasStep
from trackside.adapters.keras.training_calls import TrainingCalls
from trackside.adapters.keras.values import array_of, number_of
from trackside.capture.session import RunSession


class LoopsByHand:
    """Finds the steps of such loops, and their losses. Also lets steps of `fit` that are saved run uncompiled.

    Args:
        session: The run.
        step: The step under way.
        calls: Gets notice of the calls of the function that trains.
        resting: Ends a rest before a step that could not be counted.
    """

    def __init__(self, session: RunSession, step: KerasStep, calls: TrainingCalls, resting: Resting) -> None:
        self._resting = resting
        self._session, self._engine, self._step, self._calls = session, session.engine, step, calls
        self._functions, self._eager = CompiledFunctions(), EagerSteps()
        self._is_in_compute_loss = False
        self._tapes = 0  # that record
        self._has_begun_step = False
        self._scaled: tuple[Any, Any] = None, None  # a loss, and the same scaled
        protect = session.guard.protect
        self.tape_began = protect("beginning a tape", self._tape_began)
        self.tape_ended = protect("ending a tape", self._tape_ended)
        self.slopes_requested = protect("capturing a loss", self._slopes_requested)
        self.loss_begins = protect("capturing a loss", self._loss_begins)
        self.loss_called = protect("capturing a loss", self._loss_called)
        self.loss_scaled = protect("capturing a loss", self._loss_scaled)
        self._function_begins = protect("beginning a step", self._before_function)
        self._function_ended = protect("ending a step", self._after_function)

    @property
    def is_recording(self) -> bool:
        """True while a tape records."""
        return self._tapes > 0

    @property
    def has_begun_step(self) -> bool:
        """True from the beginning of a tape to the update."""
        return self._has_begun_step

    @property
    def ends_at_update(self) -> bool:
        """True where an update ends the step: outside of `fit`, and of compiled functions."""
        return self._step.batch_mode != "TRAIN" and self._functions.current is None

    def note_update(self, *, is_compiled: bool) -> None:
        """Note that weights are updated, or that the function being compiled will do so."""
        if not is_compiled:
            self._functions.has_updated = True
        elif self._functions.current is not None and not self._step.batch_mode:
            self._functions.note_update()

    def function_called(self, function: Any, call: Callable[[], Any], argument: Any) -> Any:
        """Make a call of a compiled function. The outermost one is a step, if it updates weights."""
        if self._functions.current is not None or self._session.guard.is_off:
            return call()
        if self._session.rest.is_on and self._resting.goes_on():
            return call()
        self._function_begins(function, argument)
        try:
            result = call()
            self._calls.end()
            self._function_ended(function)
        finally:
            self._calls.end()
            self._eager.end()
            self._functions.end()
        return result

    def _before_function(self, function: Any, argument: Any) -> None:
        self._functions.begin(function)
        self._is_in_compute_loss = False
        if self._step.is_others():
            return
        mode = self._step.batch_mode
        if mode == "TRAIN":
            self._calls.begin(argument)
        if not mode:
            if not self._functions.may_train(function):
                return
            if not self._session.has_begun:
                self._session.read_request()
            self._step.losses = []
        if self._engine.due.kinds - WITHOUT_TENSORS and (mode in ("", "TRAIN") or self._session.has_begun):
            self._eager.begin()

    def _after_function(self, function: Any) -> None:
        functions, step = self._functions, self._step
        if step.batch_mode or step.is_refused or not (functions.has_updated or functions.trains(function)):
            return
        functions.note_update()
        step.begin()
        self._engine.set_mode("TRAIN")
        loss = None if step.losses else functions.loss(function)
        step.losses = step.losses or ([] if loss is None else [loss])
        self.end_step()

    def end_step(self) -> None:
        """End the step of a loop by hand."""
        self._has_begun_step, self._step.is_by_hand = False, True
        self._step.end()

    def _tape_began(self) -> None:
        self._tapes += 1
        self._has_begun_step = not self._step.batch_mode  # Keras's own step has a tape, too
        self._is_in_compute_loss = False

    def _tape_ended(self) -> None:
        self._tapes = max(0, self._tapes - 1)

    def _slopes_requested(self, target: Any, sources: Any) -> None:
        """Take the target as the loss, if the sources are weights."""
        if self._step.is_refused or self._step.batch_mode or isinstance(target, (list, tuple, dict)):
            return
        if not any(getattr(source, "trainable", False) for source in keras.tree.flatten(sources)):
            return
        target = self.unscaled(target)
        self._scaled = None, None
        array = array_of(target)
        if array is not None:
            self._take(float(array.mean()))
        elif self._functions.current is not None:
            self._functions.keep_loss(target)

    def unscaled(self, loss: Any) -> Any:
        """Return the loss that was scaled last, if this is the result; else this one."""
        own, scaled = self._scaled
        return own if scaled is loss else loss

    def _loss_scaled(self, loss: Any, scaled: Any) -> None:
        self._scaled = loss, scaled

    def _loss_begins(self) -> None:
        self._is_in_compute_loss = True

    def loss_computed(self) -> None:
        """Handle the end of `compute_loss`."""
        self._is_in_compute_loss = False

    def _loss_called(self, y: Any, predictions: Any, loss: Any) -> None:
        """Take a loss that has gradients, with its labels and predictions."""
        step = self._step
        if step.is_refused or step.batch_mode or self._is_in_compute_loss:
            return
        if not (self._tapes or getattr(loss, "requires_grad", False)):
            return
        step.add_parts(("y", y), ("predictions", predictions))
        value = None if self._tapes else number_of(loss)  # of a tape, the target is the loss
        if value is not None:
            self._take(value)

    def _take(self, loss: float) -> None:
        """Set the loss of the step: the last one before the update, or the sum over replicas."""
        if number_of_replicas() == 1:
            self._step.losses = []
        self._step.add_loss(loss)
