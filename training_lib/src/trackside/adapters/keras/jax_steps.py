"""Steps of Keras on JAX. One that saves tensors is computed once more, by plain calls, where its values can be seen.

Keras compiles a whole step on JAX: gradients and outputs of layers stay on the device there. But a step is a function
of its state and its batch, so that to compute it a second time changes nothing. The functions that `fit`, `evaluate`,
`predict` and `train_on_batch` call for a step are replaced where Keras makes them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import keras

from trackside.adapters.keras.replacement import replaced
from trackside.adapters.keras.resting import Resting
from trackside.adapters.keras.step import WITHOUT_TENSORS, KerasStep
from trackside.adapters.keras.training_calls import TrainingCalls
from trackside.capture.session import RunSession
from trackside.frameworks.shared.adapter import Undo

_MODES = {"train": "TRAIN", "test": "EVAL", "predict": "PREDICT"}
Function = Callable[[Any, Iterator[Any]], Any]  # of a state and the batches to come; returns logs and the new state


class Batches(Protocol):
    """A receiver of the beginning and the end of a batch. Its methods never raise."""

    def loop_began(self, mode: str) -> None:
        """Handle the start of a loop."""

    def batch_begins(self, mode: str, model: Any) -> None:
        """Handle the start of a batch."""

    def batch_ended(self, mode: str, batch: int, logs: Any) -> None:
        """Handle its end."""


class JaxSteps:
    """Shows the values of the steps that save some, and captures those of `train_on_batch`.

    Args:
        session: The run.
        step: The step under way.
        batches: Gets the steps of `train_on_batch` as batches: Keras calls no callbacks for them.
        calls: Gets notice of the calls of the function that trains.
        resting: Ends a rest before a step that could not be counted.
    """

    def __init__(
        self, session: RunSession, step: KerasStep, batches: Batches, calls: TrainingCalls, resting: Resting
    ) -> None:
        self._guard, self._engine, self._step, self._batches = session.guard, session.engine, step, batches
        self._calls, self._rest, self._resting = calls, session.rest, resting
        self._makers: dict[str, Any] = {}  # Keras's own, by the word for what they make; while we listen
        self._is_plain = False  # a step is computed by plain calls now

    def listen(self) -> list[Undo]:
        """Show each step of a model from now on, if Keras runs on JAX. Return the functions that undo it."""
        if keras.backend.backend() != "jax":
            return []
        return [
            *[replaced(keras.Model, f"make_{word}_function", functools.partial(self._make, word)) for word in _MODES],
            self._makers.clear,  # models keep the functions that were made for them
        ]

    def take(self, model: Any) -> None:
        """Show the steps of a model. Its functions may have been made before we listened."""
        for word, maker in self._makers.items():
            made = getattr(model, f"{word}_function", None)
            if made is not None and not (isinstance(made, _StepFunction) and made.steps is self):
                setattr(model, f"{word}_function", _StepFunction(self, model, word, made, maker))

    def step_called(self, function: _StepFunction, state: Any, batches: Iterator[Any]) -> Any:
        """Make a step, once. Return its result. Raises what the step raises."""
        step, mode = self._step, _MODES[function.word]
        if self._guard.is_off or step.is_refused or not self._makers:
            return function.compiled(state, batches)
        if self._rest.is_on and self._resting.goes_on():
            return function.compiled(state, batches)
        is_by_hand = not step.batch_mode and mode == "TRAIN"
        if is_by_hand:
            self._batches.loop_began(mode)
            self._batches.batch_begins(mode, function.model)
            step.is_by_hand = True
        try:
            if mode == "TRAIN" and not is_by_hand:
                batches = self._calls.timed(batches)
            if mode == step.batch_mode and self._engine.due.kinds - WITHOUT_TENSORS:
                seen: list[Any] = []
                self._guard.attempt("capturing a step", lambda: self._compute(function, state, _noted(batches, seen)))
                batches = itertools.chain(seen, batches)
            with self._calls.inside() if mode == "TRAIN" else contextlib.nullcontext():
                logs, state = function.compiled(state, batches)
                if mode == "TRAIN":  # our reading of the loss waits for it anyway, and would be taken for our own cost
                    wait = functools.partial(sys.modules["jax"].block_until_ready, logs)
                    self._guard.attempt("waiting for a step", wait)
            if is_by_hand:
                self._batches.batch_ended(mode, 0, logs)
        finally:
            if is_by_hand:
                step.batch_mode = ""
        return logs, state

    def plain_conditions(self) -> AbstractContextManager[Any]:
        """Return the context in which a condition shows its values, too: a scaled loss makes the update in one."""
        return sys.modules["jax"].disable_jit() if self._is_plain else contextlib.nullcontext()

    def _compute(self, function: _StepFunction, state: Any, batches: Iterator[Any]) -> None:
        plain = function.plain()
        if plain is None:
            return
        self._is_plain = True
        try:
            with contextlib.suppress(StopIteration):  # the step itself meets it again
                plain(state, batches)
        finally:
            self._is_plain = False

    def _make(self, word: str, original: Any) -> Any:
        self._makers[word] = original

        @functools.wraps(original)
        def make(model: Any, force: bool = False) -> Any:
            result = original(model, force)
            self._guard.attempt("showing steps", functools.partial(self.take, model))
            return result

        return make


class _StepFunction:
    """The function of a model that makes a step.

    Attributes:
        steps: Gets notice of its calls.
        model: The model.
        word: The kind: "train", "test", "predict".
        compiled: The function as Keras made it.
    """

    def __init__(self, steps: JaxSteps, model: Any, word: str, compiled: Function, make: Any) -> None:
        self.steps, self.model, self.word, self.compiled, self._make = steps, model, word, compiled, make
        self._plain: Function | None = None

    def __call__(self, state: Any, iterator: Iterator[Any]) -> Any:
        return self.steps.step_called(self, state, iterator)

    def plain(self) -> Function | None:
        """Return the function as Keras makes it for `run_eagerly`; None if several devices share a step."""
        model, name = self.model, f"{self.word}_function"
        if self._plain is None and keras.distribution.distribution() is None:
            before = model.run_eagerly
            model.run_eagerly = True
            try:
                self._make(model, True)
                self._plain = getattr(model, name)
            finally:
                model.run_eagerly = before
                setattr(model, name, self)
        return self._plain


def _noted(batches: Iterator[Any], seen: list[Any]) -> Iterator[Any]:
    """Yield the batches, and keep them."""
    for batch in batches:
        seen.append(batch)
        yield batch
