"""The calls of Keras that show a training, on every backend; replaced once, and each listener gets notice of them.

`CallbackList` is the one object that `fit`, `evaluate` and `predict` of every backend call; the optimizer's `apply`
gets the gradients; `compute_loss` gets inputs, labels and predictions, and returns the loss.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Protocol

import keras

from trackside.adapters.keras.facts import KerasFacts, ScriptLines
from trackside.adapters.keras.jax_steps import JaxSteps
from trackside.adapters.keras.replacement import replaced, replacement
from trackside.adapters.keras.resting import Resting
from trackside.adapters.keras.tensorflow_calls import TapeListener, listen_to_functions, tape_hooks
from trackside.frameworks.shared.adapter import StepHook, Undo
from trackside.frameworks.shared.replaced_methods import ReplacedFunction, StepHooks


class LoopListener(TapeListener, Protocol):
    """A receiver of the calls of loops by hand."""

    def loss_begins(self) -> None:
        """Handle the start of `compute_loss`, which calls the losses."""

    def loss_called(self, y: Any, predictions: Any, loss: Any) -> None:
        """Handle a call of a loss."""

    def loss_scaled(self, loss: Any, scaled: Any) -> None:
        """Handle a loss that an optimizer scales, for gradients in half precision."""


class Listener(Protocol):
    """A receiver of these calls. Its methods never raise."""

    def batch_begins(self, mode: str, model: Any) -> None:
        """Handle the start of a batch of `fit`, `evaluate` or `predict`."""

    def batch_ended(self, mode: str, batch: int, logs: Any) -> None:
        """Handle its end, with its number and the metrics so far: means over the epoch."""

    def epoch_ended(self, epoch: int, logs: Any) -> None:
        """Handle the end of an epoch, with its number and metrics."""

    def loop_began(self, mode: str) -> None:
        """Handle the start of an epoch, an evaluation or a prediction: means begin anew."""

    def loss_computed(self, model: Any, x: Any, y: Any, predictions: Any, loss: Any) -> None:
        """Handle a loss of a model."""

    def backward_begins(self, loss: Any) -> None:
        """Handle the start of a backward pass of PyTorch."""

    def layer_trained(self, layer: Any, *, is_training: bool) -> None:
        """Handle a call of a layer that differs in training, in training mode or not."""

    def gradients_applied(self, optimizer: Any, gradients: Any, variables: Any, apply: Callable[[], Any]) -> Any:
        """Call `apply`, once, which updates the variables. Return its result. Raises what `apply` raises."""

    def layer_called(self, layer: Any, inputs: Any, outputs: Any) -> None:
        """Handle the outputs of a layer. Called only if `wants_layers`."""

    @property
    def facts(self) -> KerasFacts:
        """Gets notice of objects that the script makes."""

    @property
    def loops(self) -> LoopListener:
        """Handles the calls of loops by hand."""

    @property
    def jax(self) -> JaxSteps:
        """Makes the steps on JAX."""

    @property
    def resting(self) -> Resting:
        """Takes the batches and updates at rest, in the place of the methods here."""

    @property
    def wants_layers(self) -> bool:
        """True while the open step saves inputs or outputs of layers."""


_BATCHES = {"train": "TRAIN", "test": "EVAL", "predict": "PREDICT"}


def listen(listener: Listener) -> Undo:
    """Call the listener from now on, but for the calls of `step_hooks`. Return the function that undoes it."""
    undo = [
        *_callback_list(listener),
        replaced(keras.optimizers.Optimizer, "apply", functools.partial(_apply, listener)),
        replaced(keras.layers.Layer, "__init__", functools.partial(_noted, listener.facts.made)),
        replaced(keras.optimizers.Optimizer, "__init__", functools.partial(_noted, listener.facts.made)),
        replaced(keras.Model, "compile", functools.partial(_noted, listener.facts.compiled)),
        *listen_to_functions(listener.loops),
        *listener.jax.listen(),
    ]

    def undo_all() -> None:
        for one in reversed(undo):
            one()

    return undo_all


def step_hooks(listener: Listener) -> StepHooks:
    """Return the replaced functions that are taken out while a training rests. They are not put in yet."""
    return StepHooks(
        [
            replacement(keras.Model, "compute_loss", functools.partial(_compute_loss, listener)),
            replacement(keras.losses.Loss, "__call__", functools.partial(_loss, listener)),
            replacement(keras.optimizers.LossScaleOptimizer, "scale_loss", functools.partial(_scale, listener.loops)),
            replacement(keras.layers.Layer, "__call__", functools.partial(_call, listener)),
            replacement(keras.layers.Dropout, "call", functools.partial(_in_training, listener)),
            replacement(keras.layers.BatchNormalization, "call", functools.partial(_in_training, listener)),
            *_backward_passes(listener),
            *tape_hooks(listener.loops),
        ]
    )


def _batch_begins(listener: Listener, mode: str, original: Any) -> Any:
    resting = listener.resting

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not resting.batch_begins(mode):
            listener.batch_begins(mode, self.model)
        return original(self, *args, **kwargs)

    return call


def _batch_ended(listener: Listener, mode: str, original: Any) -> Any:
    resting = listener.resting

    @functools.wraps(original)
    def call(self: Any, batch: Any, logs: Any = None) -> Any:
        result = original(self, batch, logs)
        if not resting.batch_ended(mode, batch, logs):
            listener.batch_ended(mode, batch, logs)
        return result

    return call


def _callback_list(listener: Listener) -> list[Undo]:
    def loop(mode: str, original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            if mode == "TRAIN":
                listener.facts.note_callbacks(self.callbacks)
            listener.loop_began(mode)
            return original(self, *args, **kwargs)

        return call

    def epoch(original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, epoch: Any, logs: Any = None) -> Any:
            result = original(self, epoch, logs)
            listener.epoch_ended(epoch, logs)
            return result

        return call

    found = [replaced(keras.callbacks.CallbackList, "on_epoch_end", epoch)]
    for word, mode in _BATCHES.items():
        found += [
            replaced(
                keras.callbacks.CallbackList, f"on_{word}_batch_begin", functools.partial(_batch_begins, listener, mode)
            ),
            replaced(
                keras.callbacks.CallbackList, f"on_{word}_batch_end", functools.partial(_batch_ended, listener, mode)
            ),
        ]
    for name, mode in (("on_epoch_begin", "TRAIN"), ("on_test_begin", "EVAL"), ("on_predict_begin", "PREDICT")):
        found.append(replaced(keras.callbacks.CallbackList, name, functools.partial(loop, mode)))
    return found


def _backward_passes(listener: Listener) -> list[StepHook]:
    if keras.backend.backend() != "torch":
        return []

    def backward(original: Any) -> Any:
        @functools.wraps(original)
        def call(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            listener.backward_begins(tensors)
            return original(tensors, *args, **kwargs)

        return call

    return [ReplacedFunction(sys.modules["torch"].autograd, "backward", backward)]


def _noted(lines: ScriptLines, original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        lines.note(self)
        return original(self, *args, **kwargs)

    return call


def _in_training(listener: Listener, original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, inputs: Any, training: Any = None, *args: Any, **kwargs: Any) -> Any:
        listener.layer_trained(self, is_training=training is not None and bool(training))
        return original(self, inputs, training, *args, **kwargs)

    return call


def _apply(listener: Listener, original: Any) -> Any:
    resting = listener.resting

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if hasattr(self, "inner_optimizer"):  # it scales, and calls the optimizer within
            with listener.jax.plain_conditions():
                return original(self, grads, trainable_variables)
        if resting.update_begins():
            result = original(self, grads, trainable_variables)
            resting.update_ended()
            return result
        return listener.gradients_applied(
            self, grads, trainable_variables, lambda: original(self, grads, trainable_variables)
        )

    return apply


def _compute_loss(listener: Listener, original: Any) -> Any:
    @functools.wraps(original)
    def compute_loss(self: Any, x: Any = None, y: Any = None, y_pred: Any = None, *args: Any, **kwargs: Any) -> Any:
        listener.loops.loss_begins()
        loss = original(self, x, y, y_pred, *args, **kwargs)
        listener.loss_computed(self, x, y, y_pred, loss)
        return loss

    return compute_loss


def _loss(listener: Listener, original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
        loss = original(self, y_true, y_pred, *args, **kwargs)
        listener.loops.loss_called(y_true, y_pred, loss)
        return loss

    return call


def _scale(listener: LoopListener, original: Any) -> Any:
    @functools.wraps(original)
    def scale_loss(self: Any, loss: Any) -> Any:
        scaled = original(self, loss)
        listener.loss_scaled(loss, scaled)
        return scaled

    return scale_loss


def _call(listener: Listener, original: Any) -> Any:
    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = original(self, *args, **kwargs)
        if listener.wants_layers:
            listener.layer_called(self, args[0] if args else None, outputs)
        return outputs

    return call
