"""Facts about programs of Keras, and the rules that read them: each fault beside the same program without it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import trackside
from tests.training_lib.adapters.keras.test_adapter import examples
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.model_facts import ModelFacts
from trackside.contracts.observations import CLIPPINGS, PROBABILITY
from trackside.contracts.rule_request import RuleConfiguration
from trackside.evaluation.backtest import backtest

BACKEND = keras.backend.backend()
pytestmark = pytest.mark.filterwarnings("ignore")  # Keras warns of some of these faults itself
EVERY_STEP = CaptureRequest(  # on JAX a saved step takes long, and these facts need one
    (CollectionRequest("losses", Schedule(1)), CollectionRequest("gradients", Schedule(60 if BACKEND == "jax" else 1))),
    statistics=StatisticsRequest(budget=1.0, dear_interval=1),
)


def _network(last: str | None = None, units: int = 3) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="relu", name="hidden"),
            keras.layers.Dropout(0.1, name="drop"),
            keras.layers.Dense(units, activation=last, name="scores"),
        ]
    )


class Unused(keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model with a large layer that its output does not use, or that it does."""

    def __init__(self, *, uses: bool) -> None:
        super().__init__()
        self.uses = uses
        self.hidden = keras.layers.Dense(8, activation="relu", name="hidden")
        self.beside = keras.layers.Dense(8, activation="relu", name="beside")
        self.scores = keras.layers.Dense(3, name="scores")

    def call(self, inputs: Any) -> Any:
        hidden = self.hidden(inputs)
        beside = self.beside(inputs)
        return self.scores(hidden + beside if self.uses else hidden)


class Evaluating(keras.Model):  # type: ignore[misc]  # as above
    """A model that is trained in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = _network()

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.inner(inputs, training=False)


def _scores() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _own(y: Any, predictions: Any) -> Any:
    return keras.ops.mean(keras.ops.square(keras.ops.cast(keras.ops.reshape(y, (-1, 1)), "float32") - predictions))


def facts_of(folder: Path, model: keras.Model, loss: Any, *, epochs: int = 4, **optimizer: Any) -> ModelFacts:
    keras.utils.set_random_seed(1)
    with trackside.KerasHook(str(folder), save=EVERY_STEP) as hook:
        model.compile(optimizer=keras.optimizers.SGD(0.01, **optimizer), loss=loss)
        model.fit(*examples(), batch_size=16, epochs=epochs, verbose=0, callbacks=[hook])
    facts = trackside.open_trial(str(folder)).model_facts
    assert facts is not None
    return facts


def test_layers_weights_optimizer_and_loss_are_known(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, _network(), _scores(), clipnorm=1.0)
    assert [(module.name, module.role, module.activation) for module in facts.modules[1:]] == [
        ("hidden", "linear", "relu"), ("drop", "dropout", ""), ("scores", "linear", ""),
    ]  # fmt: skip
    assert facts.modules[0].role == "container"
    assert PROBABILITY.of(facts.modules[2]) == pytest.approx(0.1)
    assert [(held.name, held.shape) for held in facts.parameters] == [
        ("hidden/weights/hidden/kernel:0", (6, 8)), ("hidden/biases/hidden/bias:0", (8,)),
        ("scores/weights/scores/kernel:0", (8, 3)), ("scores/biases/scores/bias:0", (3,)),
    ]  # fmt: skip
    assert [held.fan_in for held in facts.parameters if len(held.shape) > 1] == [6, 8]
    (optimizer,) = facts.optimizers
    assert optimizer.type_name == "SGD"
    assert optimizer.hyperparameter("lr") == pytest.approx(0.01)
    (loss,) = facts.losses
    assert (loss.type_name, loss.reduction, loss.class_count) == ("CrossEntropyLoss", "mean", 3)
    assert [(clipping.kind, clipping.limit) for clipping in CLIPPINGS.of(facts.program)] == [("norm", 1.0)]
    module = facts.module_of("hidden/outputs")
    assert module is not None
    assert module.name == "hidden"


@pytest.mark.parametrize(
    ("loss", "type_name"),
    [
        pytest.param("mse", "MSELoss", id="name"),
        pytest.param(keras.losses.Huber(), "HuberLoss", id="object"),
        pytest.param(keras.losses.mean_absolute_error, "L1Loss", id="function"),
        pytest.param(_own, "", id="by hand"),
    ],
)
def test_a_loss_is_known_by_its_kind(loss: Any, type_name: str, tmp_path: Path) -> None:
    facts = facts_of(tmp_path, _network(units=1), loss, epochs=1)
    assert facts.losses[0].type_name == type_name


def _likelihood(sign: float) -> Any:
    """Return a part of cross entropy by hand, with a sign: slow, so that no rule sees it run away."""

    def loss(y: Any, scores: Any) -> Any:
        chosen = keras.ops.cast(keras.ops.reshape(y, (-1, 1)), "int64")
        return sign * keras.ops.mean(keras.ops.take_along_axis(keras.ops.log_softmax(scores, axis=-1), chosen, axis=1))

    return loss


class Squares(keras.losses.Loss):  # type: ignore[misc]  # as above
    """Squared errors by hand, with answers as a row or as a column."""

    def __init__(self, *, as_row: bool) -> None:
        super().__init__()
        self._shape = (-1,) if as_row else (-1, 1)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        answers = keras.ops.cast(keras.ops.reshape(y_true, self._shape), "float32")
        return keras.ops.mean(keras.ops.square(y_pred - answers))


def _with_frozen(*, is_trained: bool) -> keras.Model:
    """Return a model with a frozen layer: at its random start, or with weights as after a training."""
    model = keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(64, "relu", name="hidden"), keras.layers.Dense(3, name="scores")]
    )
    kernel = model.layers[0].kernel
    kernel.assign(kernel * np.linspace(0.2, 3.0, 6, dtype=np.float32)[:, None] if is_trained else kernel)
    model.layers[0].trainable = False
    return model


NEVER: frozenset[str] = frozenset()
COMPILED = frozenset({"tensorflow", "jax"})  # whose graphs are not read
# (rule, the faulty program, the same without it, backends on which the fault cannot be seen: docs/frameworks.md)
CASES: dict[str, tuple[Callable[[], Any], Any, Callable[[], Any], Any, frozenset[str]]] = {
    "double-softmax": (lambda: _network("softmax"), _scores, _network, _scores, frozenset({"tensorflow"})),
    "unsuitable-loss": (lambda: _network("softmax", 1), lambda: "categorical_crossentropy", _network, _scores, NEVER),
    "unsuitable-loss, probabilities": (_network, lambda: "sparse_categorical_crossentropy",
                                       lambda: _network("softmax"), lambda: "sparse_categorical_crossentropy", NEVER),
    "wrong-mode": (Evaluating, _scores, _network, _scores, NEVER),
    "parameters-not-trained": (lambda: Unused(uses=False), _scores, lambda: Unused(uses=True), _scores,
                               frozenset({"jax"})),
    "parameters-not-trained, frozen": (lambda: _with_frozen(is_trained=False), _scores,
                                       lambda: _with_frozen(is_trained=True), _scores, NEVER),
    "unsuitable-loss, likelihood": (_network, lambda: _likelihood(0.05), _network, lambda: _likelihood(-0.05),
                                    COMPILED),
    "unsuitable-loss, broadcast": (lambda: _network(units=1), lambda: Squares(as_row=True),
                                   lambda: _network(units=1), lambda: Squares(as_row=False), COMPILED),
}  # fmt: skip


@pytest.mark.parametrize("is_faulty", [True, False], ids=["fault", "clean"])
@pytest.mark.parametrize("rule", CASES)
def test_rules_about_the_program_find_its_faults(rule: str, is_faulty: bool, tmp_path: Path) -> None:
    faulty, faulty_loss, clean, clean_loss, unseen = CASES[rule]
    model, loss = (faulty(), faulty_loss()) if is_faulty else (clean(), clean_loss())
    one_hot = loss == "categorical_crossentropy"
    keras.utils.set_random_seed(1)
    inputs, labels = examples()
    with trackside.KerasHook(str(tmp_path), save=EVERY_STEP) as hook:
        model.compile(optimizer=keras.optimizers.SGD(0.01), loss=loss)
        answers = np.ones((len(labels), 1), np.float32) if one_hot else labels
        model.fit(inputs, answers, batch_size=4, epochs=15, verbose=0, callbacks=[hook])
    found = backtest(str(tmp_path), [RuleConfiguration(rule.partition(",")[0])], clock=lambda: 0.0)
    assert bool(found.issues) == (is_faulty and BACKEND not in unseen), found.issues


@pytest.mark.parametrize(
    ("make", "is_faulty"),
    [
        pytest.param(lambda: keras.callbacks.EarlyStopping("val_accuracy", mode="min", patience=9), True, id="fault"),
        pytest.param(lambda: keras.callbacks.ReduceLROnPlateau("val_loss", mode="max"), True, id="a schedule"),
        pytest.param(lambda: keras.callbacks.EarlyStopping("val_accuracy", mode="max", patience=9), False, id="clean"),
        pytest.param(lambda: keras.callbacks.EarlyStopping("val_loss", patience=9), False, id="keras decides"),
        pytest.param(lambda: keras.callbacks.CSVLogger(os.devnull), False, id="another callback"),
    ],
)
def test_callbacks_that_choose_the_wrong_way_round_are_found(
    make: Callable[[], Any], is_faulty: bool, tmp_path: Path
) -> None:
    keras.utils.set_random_seed(1)
    model, (inputs, labels) = _network(), examples()
    with trackside.KerasHook(str(tmp_path), save=EVERY_STEP) as hook:
        model.compile(optimizer="sgd", loss=_scores(), metrics=["accuracy"])
        held_out = (inputs, labels)
        model.fit(inputs, labels, validation_data=held_out, epochs=2, verbose=0, callbacks=[hook, make()])
    found = backtest(str(tmp_path), [RuleConfiguration("reversed-selection")], clock=lambda: 0.0)
    assert bool(found.issues) == is_faulty, found.issues


class OwnStep(keras.Model):  # type: ignore[misc]  # as above
    """A model with a step of its own, as keras.io has it for PyTorch ("Customizing what happens in fit").

    Args:
        loss: A function of predictions and answers, as PyTorch orders them.
        units: Of its layer.
    """

    def __init__(self, loss: Any, units: int) -> None:
        super().__init__()
        self.own_loss, self.dense = loss, keras.layers.Dense(units)
        self.mean = keras.metrics.Mean(name="loss")

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        import torch

        x, y = data
        self.zero_grad()
        loss = self.own_loss(self(x, training=True), y)
        loss.backward()
        weights = list(self.trainable_weights)
        with torch.no_grad():
            self.optimizer.apply([weight.value.grad for weight in weights], weights)
        self.mean.update_state(loss)
        return {"loss": self.mean.result()}


def _own_likelihood(sign: float) -> Any:
    def loss(scores: Any, y: Any) -> Any:
        return sign * scores.log_softmax(-1).gather(1, y.reshape(-1, 1).long()).mean()

    return loss


def _own_squares(*shape: int) -> Any:
    def loss(predictions: Any, y: Any) -> Any:
        return (predictions - y.reshape(shape).float()).square().mean()

    return loss


@pytest.mark.skipif(BACKEND != "torch", reason="such a step is compiled there, and its graph is not read: 0140")
@pytest.mark.parametrize(
    ("units", "loss", "is_faulty"),
    [
        pytest.param(3, _own_likelihood(0.05), True, id="likelihood, fault"),
        pytest.param(3, _own_likelihood(-0.05), False, id="likelihood, clean"),
        pytest.param(1, _own_squares(-1), True, id="broadcast, fault"),
        pytest.param(1, _own_squares(-1, 1), False, id="broadcast, clean"),
    ],
)
def test_the_loss_of_a_step_of_the_scripts_own(units: int, loss: Any, is_faulty: bool, tmp_path: Path) -> None:
    keras.utils.set_random_seed(1)
    seen: list[float] = []

    def noted(predictions: Any, y: Any) -> Any:
        found = loss(predictions, y)
        seen.append(float(found.item()))
        return found

    model = OwnStep(noted, units)
    with trackside.KerasHook(str(tmp_path), save=EVERY_STEP) as hook:
        model.compile(optimizer=keras.optimizers.SGD(0.01))
        model.fit(*examples(), batch_size=4, epochs=15, verbose=0, callbacks=[hook])
    found = backtest(str(tmp_path), [RuleConfiguration("unsuitable-loss")], clock=lambda: 0.0)
    assert bool(found.issues) == is_faulty, found.issues
    trial = trackside.open_trial(str(tmp_path))
    column = trial.tensor("loss_output_0").statistic("mean")
    assert list(column.values) == pytest.approx(seen)
