"""Facts about a program of Keras: layers, weights, optimizer, loss, and the lines that made them."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from trackside.adapters.keras.layers import family_of, leaves, role_of
from trackside.adapters.keras.names import path_of, weight_name
from trackside.adapters.keras.torch_graph import of_graph
from trackside.adapters.keras.values import array_of, has_value, learning_rate_of
from trackside.capture.ground.guard import Guard, describe
from trackside.capture.ground.script_lines import Place, script_path, shown, user_place
from trackside.contracts.model_facts import (
    LossFacts,
    ModelFacts,
    ModuleFacts,
    OptimizerFacts,
    ParameterFacts,
    ProgramFacts,
)
from trackside.contracts.observations import (
    CLIPPINGS,
    HAS_GRADIENT,
    LOOKS_UNTRAINED,
    LOWERS_LIKELIHOOD,
    PROBABILITY,
    SELECTIONS,
    STATE,
    TAKES_SCORES_FOR_PROBABILITIES,
    ClippingFacts,
    Observation,
    SelectionFacts,
    without_defaults,
)
from trackside.frameworks.shared.initial_draws import MOST_NUMBERS, Moments, is_drawn
from trackside.frameworks.shared.selections import selections_of

OPTIMIZER = "optimizer"  # as in hyperparameters/optimizer/group_0/lr
LOSS_TENSOR = "loss_output_0"

# PyTorch's class for the same loss, by Keras's class or function; with `from_logits` of scores.
_LOSSES = {
    "SparseCategoricalCrossentropy": "CrossEntropyLoss",
    "CategoricalCrossentropy": "CrossEntropyLoss",
    "BinaryCrossentropy": "BCELoss",
    "MeanSquaredError": "MSELoss",
    "MeanAbsoluteError": "L1Loss",
    "Huber": "HuberLoss",
}
_OF_PROBABILITIES = {"SparseCategoricalCrossentropy", "CategoricalCrossentropy", "BinaryCrossentropy"}
_FUNCTIONS = {
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
    "mean_squared_error": "MeanSquaredError",
    "mean_absolute_error": "MeanAbsoluteError",
    "huber": "Huber",
}
_REDUCTIONS = {"sum_over_batch_size": "mean", "mean": "mean", "sum": "sum", "none": "none"}
_CLIPPINGS = (("clipnorm", "norm"), ("global_clipnorm", "norm"), ("clipvalue", "value"))


class ScriptLines:
    """The lines of the script that made layers and optimizers, and that compiled models."""

    def __init__(self) -> None:
        self._places: weakref.WeakKeyDictionary[Any, Place] = weakref.WeakKeyDictionary()

    def note(self, made: Any) -> None:
        """Note the line that makes an object now."""
        place = user_place()
        if place is not None:
            self._places[made] = place

    def line(self, made: Any) -> str:
        """Return the line as "train.py:41"; "" if it was made before capture began."""
        return "" if made is None else shown(self._places.get(made), script_path())


class KerasFacts:
    """The facts about the program that show until its run begins.

    Attributes:
        model: The model that trains; None in a loop by hand.
        made: The lines that made layers and optimizers.
        compiled: The lines that compiled models.

    Args:
        guard: Logs a failure, which leaves the facts out.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self.model: Any = None
        self.made, self.compiled = ScriptLines(), ScriptLines()
        self._optimizer: Any = None
        self._variables: list[tuple[Any, bool]] = []  # and whether it had a gradient
        self._modes: dict[str, bool] = {}  # by layer
        self._frozen: tuple[ParameterFacts, ...] = ()
        self._rate: float | None = None
        self._selections: tuple[SelectionFacts, ...] | None = None  # None: not known yet
        self._of_loss: Mapping[Observation[Any], Any] | None = None
        self._more_losses: bool | None = None  # of layers; None: not known yet

    def note_start(self, model: Any) -> None:
        """Note what shows before the first batch: on JAX, variables have no values from then on to the epoch's end."""
        self._guard.attempt("reading facts about the program", functools.partial(self._note_start, model))

    def _note_start(self, model: Any) -> None:
        self._rate = learning_rate_of(getattr(model, "optimizer", None))
        self._more_losses = bool(model.losses)
        self._frozen = tuple(_frozen_facts(model))

    def note_callbacks(self, callbacks: Iterable[Any]) -> None:
        """Note the callbacks of `fit`, once."""
        if self._selections is None:
            self._selections = ()
            self._guard.attempt("reading callbacks", functools.partial(self._note_callbacks, callbacks))

    def _note_callbacks(self, callbacks: Iterable[Any]) -> None:
        self._selections = selections_of(callbacks, line=shown(user_place(), script_path()))

    def note_update(self, optimizer: Any, gradients: Iterable[Any], variables: Iterable[Any]) -> None:
        """Note the first update, or the one that is being compiled."""
        if self._optimizer is None:
            self._optimizer = optimizer
            self._variables = [(v, g is not None) for v, g in zip(variables, gradients, strict=True)]

    def note_loss(self, loss: Any) -> None:
        """Note what the graph of a loss shows: of the first one with values and a graph."""
        if self._of_loss is None and getattr(loss, "grad_fn", None) is not None and has_value(loss):
            self._of_loss = {}
            self._guard.attempt("reading the graph of a loss", functools.partial(self._note_loss, loss))

    def _note_loss(self, loss: Any) -> None:
        self._of_loss = of_graph(loss)

    def note_mode(self, layer: Any, *, is_training: bool) -> None:
        """Note the mode in which a layer that differs in training was called by a training step."""
        self._modes[layer.name] = is_training

    def read(self, world_size: int) -> ModelFacts:
        """Return the facts; those about the program alone if others cannot be read."""
        program = ProgramFacts(
            script=script_path(), framework="keras", framework_version=keras.__version__, world_size=world_size
        )
        try:
            return self._read(program)
        except Exception as error:  # noqa: BLE001 - a model may be anybody's code
            message = "facts about the program are left out: %s."
            self._guard.warn_once("facts", message, describe(error))
            return ModelFacts(program=program)

    def _read(self, program: ProgramFacts) -> ModelFacts:
        model = self.model
        optimizers = () if self._optimizer is None else (self._optimizer_facts(),)
        return ModelFacts(
            modules=() if model is None else tuple(self._module_facts(layer) for layer in leaves(model)),
            parameters=(*(_parameter_facts(variable, has) for variable, has in self._variables), *self._frozen),
            optimizers=optimizers,
            losses=() if model is None else (self._loss_facts(),),
            program=self._program(program),
        )

    def _program(self, program: ProgramFacts) -> ProgramFacts:
        optimizer, compute = self._optimizer, str(keras.config.dtype_policy().compute_dtype)
        clipping = tuple(
            ClippingFacts(kind, float(limit), self.made.line(optimizer))
            for name, kind in _CLIPPINGS
            if (limit := getattr(optimizer, name, None)) is not None
        )
        return ProgramFacts(
            script=program.script,
            framework=program.framework,
            framework_version=program.framework_version,
            world_size=program.world_size,
            autocast_dtype=compute if compute in ("float16", "bfloat16") else "",
            has_grad_scaler=isinstance(getattr(self.model, "optimizer", None), keras.optimizers.LossScaleOptimizer),
            observed=without_defaults({CLIPPINGS: clipping, SELECTIONS: self._selections or ()}),
        )

    def _module_facts(self, layer: Any) -> ModuleFacts:
        is_training = not self._modes or any(self._modes.values())
        rate = getattr(layer, "rate", None) if role_of(layer) == "dropout" else None
        units = getattr(layer, "units", None) or getattr(layer, "filters", None)
        return ModuleFacts(
            layer.name,
            type(layer).__name__,
            role=role_of(layer),
            activation=family_of(layer),
            is_training=self._modes.get(layer.name, is_training),
            out_features=units if isinstance(units, int) else None,
            line=self.made.line(layer),
            observed=without_defaults({PROBABILITY: float(rate) if isinstance(rate, (int, float)) else None}),
        )

    def _optimizer_facts(self) -> OptimizerFacts:
        optimizer = self._optimizer
        rate = learning_rate_of(optimizer) if self._rate is None else self._rate
        decay = getattr(optimizer, "weight_decay", None)
        group = {"lr": rate, "weight_decay": decay}
        return OptimizerFacts(
            OPTIMIZER,
            type(optimizer).__name__,
            line=self.made.line(optimizer),
            groups=({name: float(value) for name, value in group.items() if value is not None},),
            parameter_count=len(self._variables),
            observed={STATE: "new"},
        )

    def _loss_facts(self) -> LossFacts:
        model = self.model
        line = self.compiled.line(model)
        loss: Any = getattr(model, "loss", None)  # a model that is not compiled has none
        has_more = model.losses if self._more_losses is None else self._more_losses
        kind = "" if _is_by_hand(model) or has_more else _kind(loss)
        observed = dict(self._of_loss or {})
        if not kind:
            return LossFacts(LOSS_TENSOR, line=line, observed=observed)
        observed.pop(LOWERS_LIKELIHOOD, None)
        takes_scores = bool(loss.get_config().get("from_logits")) if hasattr(loss, "get_config") else False
        last = _last_layer(model)
        is_healed = keras.backend.backend() == "tensorflow"  # Keras takes the scores from before the softmax there
        if kind in _OF_PROBABILITIES and not takes_scores and _is_linear(last):
            observed[TAKES_SCORES_FOR_PROBABILITIES] = True
        of_classes = kind.endswith("CategoricalCrossentropy")
        classes = last.output.shape[-1] if of_classes and hasattr(last, "output") else None
        return LossFacts(
            LOSS_TENSOR,
            "BCEWithLogitsLoss" if kind == "BinaryCrossentropy" and takes_scores else _LOSSES[kind],
            reduction=_REDUCTIONS.get(str(getattr(loss, "reduction", "mean")), ""),
            input_from=(family_of(last) or "linear") if takes_scores and last is not None and not is_healed else "",
            class_count=classes if isinstance(classes, int) else None,
            line=line,
            observed=observed,
        )


def _kind(loss: Any) -> str:
    """Return the class of a loss of Keras's; "" for one that was written by hand, and for several."""
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    if isinstance(loss, keras.losses.Loss):
        name = type(loss).__name__ if type(loss).__module__.startswith("keras.") else ""
    else:
        is_keras = str(getattr(loss, "__module__", "")).startswith("keras.")
        name = _FUNCTIONS.get(getattr(loss, "__name__", ""), "") if is_keras else ""
    return name if name in _LOSSES else ""


def _is_by_hand(model: Any) -> bool:
    """Return True if the script computes the loss, or makes the step, itself."""
    own = [kind for kind in type(model).__mro__ if not kind.__module__.startswith("keras.")]
    return any(name in vars(kind) for kind in own for name in ("compute_loss", "train_step"))


def _last_layer(model: Any) -> Any:
    """Return the layer that returns a model's predictions; None if that cannot be known without a call."""
    if isinstance(model, keras.Sequential):
        last = model.layers[-1] if model.layers else None
    else:
        outputs: Any = getattr(model, "outputs", None) or ()
        last = getattr(outputs[0], "_keras_history", (None,))[0] if len(outputs) == 1 else None
    return _last_layer(last) if isinstance(last, keras.Model) else last


def _is_linear(layer: Any) -> bool:
    """Return True for a layer that multiplies by weights and has no activation."""
    return role_of(layer) in {"linear", "convolution"} and not family_of(layer)


def _frozen_facts(model: Any) -> Iterator[ParameterFacts]:
    """Yield the weights that would train if the script had not frozen them, or the layer of them."""
    seen = set[int]()
    for layer in model._flatten_layers():
        for variable in layer._trainable_variables:  # made to be trained, and in this list whatever became of that
            if not variable.trainable and id(variable) not in seen:
                seen.add(id(variable))
                facts = _parameter_facts(variable, has_gradient=False)
                yield replace(
                    facts,
                    requires_grad=False,
                    optimizer="",
                    observed=without_defaults({LOOKS_UNTRAINED: _looks_untrained(variable)}),
                )


def _looks_untrained(variable: Any) -> bool:
    numbers = array_of(variable) if len(variable.shape) > 1 else None
    if numbers is None or numbers.dtype.kind != "f":
        return False
    shape = tuple(reversed(numbers.shape))  # outputs before inputs, as in PyTorch
    numbers = numbers.reshape(-1)[:MOST_NUMBERS].astype(np.float64)
    numbers = numbers[numbers != 0]
    if not numbers.size:
        return False
    squares = np.square(numbers)
    mean, square, fourth = (float(each.mean()) for each in (numbers, squares, np.square(squares)))
    return is_drawn(Moments(numbers.size, mean, square, fourth, float(np.abs(numbers).max())), shape)


def _parameter_facts(variable: Any, has_gradient: bool) -> ParameterFacts:
    return ParameterFacts(
        weight_name(variable),
        path_of(variable)[0],
        tuple(int(size) for size in variable.shape),
        str(variable.dtype),
        optimizer=OPTIMIZER,
        observed=without_defaults({HAS_GRADIENT: has_gradient}),
        units_last=True,
    )
