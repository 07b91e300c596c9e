"""Losses of a validation step: results of loss modules, loss functions and the model while it was open.

A validation in training mode shows at its end only that it was one. Until then the losses of its steps are held.

A loss that the evaluation sums up over a batch (`reduction="sum"`, to divide by all rows at its end) is recorded as the
mean where the training takes the mean: else the two could not be compared.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from trackside.capture.steps.step_engine import EVAL, TRAIN, StepEngine
from trackside.frameworks.pytorch.ground.memory import has_memory
from trackside.frameworks.pytorch.ground.script_objects import attribute_of
from trackside.frameworks.pytorch.ground.structures import is_no_computation
from trackside.frameworks.pytorch.losses.description import (
    NAMED_LOSSES,
    UNNAMED,
    inputs_of_call,
    name_of_loss_module,
    term_count,
)
from trackside.frameworks.pytorch.losses.inputs import LossInputSource
from trackside.frameworks.pytorch.losses.parts import is_term_among_others
from trackside.frameworks.pytorch.modes.validation_in_training_mode import ValidationInTrainingMode
from trackside.frameworks.pytorch.saving.tensor_saver import TensorSaver

_MOST_NODES = 2000  # of a graph, that are looked at
MOST_HELD = 4096  # steps of a validation in training mode


class ValidationLosses:
    """The losses of a validation step. Its methods may raise.

    Attributes:
        values: Name and value of each loss of the open step so far.
        is_step_open: True while a step is open.
        held: The losses of each ended step of what may be a validation in training mode.
        needs_training_call: True if a number beside the model's output was taken for its loss, before the model was
            seen in training.
        takes_functions: Returns True if results of loss functions belong to the watched training.

    Args:
        reads_every_loss: Returns True for a loss that is read even on a step that need not save any.
    """

    def __init__(
        self,
        engine: StepEngine,
        *,
        saver: TensorSaver,
        inputs: LossInputSource,
        reads_every_loss: Callable[[torch.Tensor], bool],
        in_training_mode: ValidationInTrainingMode,
    ) -> None:
        self._engine, self._saver, self._loss_inputs = engine, saver, inputs
        self._reads_every_loss, self._in_training_mode = reads_every_loss, in_training_mode
        self._names_in_training: set[str] = set()
        # The scalar beside the model's output in training. Not held: with it goes the graph of a step without backward.
        self._beside: weakref.ref[torch.Tensor] | None = None
        self._is_beside_a_loss = True
        # The number of the last node of the loss that the model names in training, and whether it is trained on.
        self._named_number: int | None = None
        self._is_named_trained_on = True
        self._is_seen_in_training = self.needs_training_call = False
        self._summed_in_training: set[str] = set()
        # (module, how many losses there were when it was called, terms that its result is to be divided by)
        self._scopes: list[tuple[int, int, int]] = []
        self.values: list[tuple[str, np.ndarray]] = []
        self.is_step_open = self._is_held_open = False
        self.held: list[list[tuple[str, np.ndarray]]] = []
        self.takes_functions: Callable[[], bool] = lambda: True

    def trained_on(self, loss_name: str, loss: torch.Tensor | None = None, *, is_sum: bool = False) -> None:
        """Note the name of a loss in training, and whether the scalar beside the model's output is it.

        It is not if it needs no gradient, or is a penalty by hand among other terms: what falls may be worse then.
        `is_sum`: it is a sum over the batch that nothing divides.
        """
        self._names_in_training.add(loss_name)
        if is_sum:
            self._summed_in_training.add(loss_name)
        number, self._named_number = self._named_number, None
        if number is not None and loss is not None:
            self._is_named_trained_on = _is_in_graph(number, loss.grad_fn)
        beside = self._beside() if self._beside is not None else None
        self._beside = None
        if beside is not None and loss is not None:
            self._is_beside_a_loss = beside.requires_grad and not is_term_among_others(beside.grad_fn, loss.grad_fn)

    def close_step(self) -> None:
        """Drop the losses; no step is open."""
        self.is_step_open = False
        self._scopes, self.values = [], []

    def hold_step(self) -> None:
        """Open a step of what may be a validation in training mode, after the end of the one before."""
        self._end_held_step()
        self._is_held_open = len(self.held) < MOST_HELD

    def take_held(self) -> list[list[tuple[str, np.ndarray]]]:
        """Return the losses of the held steps that have any, and hold none."""
        self._end_held_step()
        taken, self.held = self.held, []
        return taken

    def record_held(self, ended: Callable[..., None]) -> None:
        """Record the held losses as steps of the mode EVAL, in the midst of a training step.

        Args:
            ended: Called right before each step ends; see `Validation`.
        """
        held, engine = self.take_held(), self._engine
        if engine.mode != TRAIN:
            return
        engine.set_mode(EVAL)
        try:
            for losses in held:
                self.values = losses
                if engine.due.losses:
                    for name, value in losses:
                        engine.open_step.add_loss(name, value)
                ended(EVAL, is_past=True)
                engine.end_step()
        finally:
            self.values = []
            engine.set_mode(TRAIN)

    def _end_held_step(self) -> None:
        if self._is_held_open and self.values:
            self.held.append(self.values)
        if self._is_held_open:
            self.close_step()
        self._is_held_open = False

    @property
    def _is_held(self) -> bool:
        return self._is_held_open and not torch.is_grad_enabled()

    @property
    def _takes(self) -> bool:
        return self.is_step_open or self._is_held

    def model_returned(self, output: Any) -> None:
        """Add the loss in the output of the model."""
        if not self._is_seen_in_training and self._engine.mode == TRAIN and torch.is_grad_enabled():
            self._is_seen_in_training, self.needs_training_call = True, False
            beside = _scalar_beside(output)
            self._beside = weakref.ref(beside) if beside is not None else None
            self._named_number = _number_of(_loss_in(output)) if beside is None else None
        if self.is_step_open or self._in_training_mode.is_looking:
            loss = _loss_in(output)
            if loss is not None and loss is _scalar_beside(output):
                self.needs_training_call = not self._is_seen_in_training
                loss = loss if self._is_beside_a_loss else None
            elif loss is not None:
                self.needs_training_call = not self._is_seen_in_training
            self._in_training_mode.loss_taken(loss if self._is_named_trained_on else None)
            if self._takes:
                self._settle(0, loss)

    def loss_called(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        """Note that a loss module is about to be called."""
        name, terms = self._as_in_training(name_of_loss_module(module)), 1
        if isinstance(module, torch.nn.modules.loss._Loss):
            is_sum = self._is_to_be_mean(name, {"reduction": attribute_of(module, "reduction")})
            is_wanted = not self._is_held and self._loss_inputs.is_wanted
            inputs = (
                inputs_of_call(args, kwargs, ignored_label=attribute_of(module, "ignore_index"))
                if is_sum or is_wanted
                else None
            )
            if inputs is not None and is_wanted:
                self._loss_inputs.add(name, inputs, is_call=True)
            terms = term_count(name, inputs) if inputs is not None and is_sum else 1
        self._scopes.append((id(module), len(self.values), terms))

    def loss_returned(self, module: torch.nn.Module, output: Any) -> None:
        """Add the output of a loss module."""
        start, terms = 0, 1
        while self._scopes:  # what raised has left its scope behind
            number, start, terms = self._scopes.pop()
            if number == id(module):
                break
        self._in_training_mode.loss_taken(output)
        if self._takes:
            self._settle(start, output, name=name_of_loss_module(module), terms=terms)

    def function_called(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Add the result of a loss function of torch.nn."""
        if is_no_computation() or not self.takes_functions():
            return
        self._in_training_mode.loss_taken(result)
        if not self._takes:
            return
        name = self._as_in_training(name)
        is_wanted = self.is_step_open and not self._scopes and self._loss_inputs.is_wanted
        is_sum = self._is_to_be_mean(name, kwargs)
        inputs = inputs_of_call(args, kwargs, ignored_label=-100) if is_wanted or is_sum else None
        if inputs is not None and is_wanted:
            self._loss_inputs.add(name, inputs, is_call=True)
        value = self._value(result, terms=term_count(name, inputs) if inputs is not None and is_sum else 1)
        if value is not None:
            self.values.append((name, value))

    def _is_to_be_mean(self, name: str, options: Any) -> bool:
        """Return True for a sum over a batch of a loss of which the training takes the mean."""
        is_mean = name in NAMED_LOSSES and name in self._names_in_training and name not in self._summed_in_training
        return is_mean and (options.get("reduction") == "sum" or options.get("size_average") is False)

    def _as_in_training(self, name: str) -> str:
        """Return the name that the loss has in training, where a graph shows cross entropy by its log-softmax."""
        is_cross_entropy = name == "NLLLoss" and self._names_in_training == {"CrossEntropyLoss"}
        return "CrossEntropyLoss" if is_cross_entropy else name

    def _settle(self, start: int, output: Any, *, name: str = UNNAMED, terms: int = 1) -> None:
        """Replace the losses computed inside of a call by the loss that it returned, unless one of them is equal."""
        value = self._value(output, terms=terms)
        if value is None:
            return
        inside = self.values[start:]
        same = [loss for loss in inside if np.array_equal(loss[1], value, equal_nan=True)]
        if name == UNNAMED and self._names_in_training == {loss[0] for loss in inside}:
            name = inside[0][0]  # so training's graph led from such a value to that loss alone: it is that, scaled
        self.values[start:] = same[-1:] or [(self._as_in_training(name), value)]

    def _value(self, result: Any, *, terms: int = 1) -> np.ndarray | None:
        if not isinstance(result, torch.Tensor) or not (self._engine.due.losses or self._reads_every_loss(result)):
            return None
        if result.numel() != 1 or not result.is_floating_point() or not has_memory(result):
            return None
        value = self._saver.copied("a loss of the evaluation", result)
        return value if value is None or terms <= 1 else np.asarray(value / terms, value.dtype)


def _number_of(loss: Any) -> int | None:
    """Return the number of the last node of a loss; None without a graph. The graph is not held."""
    node = getattr(loss, "grad_fn", None)
    return int(node._sequence_nr()) if node is not None else None


def _is_in_graph(number: int, end: Any) -> bool:
    """Return True if the node of this number is near the end of a graph; also where the graph is too large to know."""
    seen, waiting = {end}, [end]
    while waiting:
        node = waiting.pop()
        if node is None or node._sequence_nr() < number:  # made before it: so is all that it was made of
            continue
        if node._sequence_nr() == number or len(seen) > _MOST_NODES:
            return True
        more = [following for following, _ in node.next_functions if following not in seen]
        seen.update(more)
        waiting += more
    return False


def _loss_in(output: Any) -> Any:
    """Return the loss that a model returns beside or instead of its output; None if it returns none."""
    if isinstance(output, torch.Tensor):
        return output if output.dim() == 0 else None  # (1, 1) is the score of one sample
    if isinstance(output, Mapping):
        return output.get("loss")
    if hasattr(output, "loss"):
        return output.loss
    return _scalar_beside(output)


def _scalar_beside(output: Any) -> torch.Tensor | None:
    """Return the only scalar in a tuple or list that a model returns; else None."""
    if dataclasses.is_dataclass(output) or hasattr(output, "loss") or not isinstance(output, (tuple, list)):
        return None
    scalars = [v for v in output if isinstance(v, torch.Tensor) and v.dim() == 0 and v.is_floating_point()]
    return scalars[0] if len(scalars) == 1 else None
