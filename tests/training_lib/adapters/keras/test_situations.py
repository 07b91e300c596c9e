"""Situations of `fit`: kinds of models, XLA, half precision, clipping, several steps a call, several replicas.

Each is held against the same training without capture. On TensorFlow and JAX: `.ci/keras_backends`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import trackside
from tests.training_lib.adapters.keras.test_adapter import examples
from trackside.environment import inherited
from trackside.trial.trial import Trial

BACKEND = keras.backend.backend()
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
needs_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="it is TensorFlow's")
SAVE = {"losses": 1, "weights": 2, "gradients": 2, "outputs": 2, "labels": 2}
WEIGHT = "hidden/weights/hidden/kernel:0"


def _layers(policy: str = "float32", dropout: float = 0.5) -> list[Any]:
    return [
        keras.layers.Dense(8, activation="relu", name="hidden", dtype=policy),
        keras.layers.Dropout(dropout, seed=3, name="dropout", dtype=policy),
        keras.layers.Dense(3, name="scores", dtype=policy),
    ]


def sequential(policy: str = "float32") -> keras.Model:
    return keras.Sequential([keras.Input((6,)), *_layers(policy)])


def _without_dropout() -> keras.Model:
    """XLA draws other numbers for it than a step that runs without the compiler: docs/frameworks.md."""
    return keras.Sequential([keras.Input((6,)), *_layers(dropout=0.0)])


def functional() -> keras.Model:
    hidden, dropout, scores = _layers()
    inputs = keras.Input((6,))
    return keras.Model(inputs, scores(dropout(hidden(inputs))))


class Subclass(keras.Model):  # type: ignore[misc]  # Keras has no types
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.dropout, self.scores = _layers()

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.scores(self.dropout(self.hidden(inputs), training=training))


def _half() -> keras.Model:
    return sequential("mixed_bfloat16" if BACKEND == "torch" else "mixed_float16")


CASES: dict[str, tuple[Callable[[], Any], dict[str, Any], dict[str, Any]]] = {
    "sequential": (sequential, {}, {}),
    "functional": (functional, {}, {}),
    "subclass": (Subclass, {}, {}),
    "eager": (sequential, {}, {"run_eagerly": True}),
    "clipping by norm": (sequential, {"global_clipnorm": 0.01}, {}),
    "clipping by value": (sequential, {"clipvalue": 0.001}, {}),
    "half precision": (_half, {}, {}),
}
if BACKEND != "torch":  # Keras does not compile it
    CASES["xla"] = (_without_dropout, {}, {"jit_compile": True})
    CASES["not xla"] = (sequential, {}, {"jit_compile": False})


def train(case: str, run: str) -> tuple[list[Any], list[float]]:
    """Return the weights at the end and the loss of each epoch. An epoch has one batch of 32 rows."""
    make, optimizer, compiling = CASES[case]
    keras.utils.set_random_seed(1)
    model = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.1, **optimizer), loss=loss, **compiling)
    inputs, labels = examples()
    hook = trackside.KerasHook(run, save=SAVE) if run else None
    history = model.fit(
        inputs[:32], labels[:32], batch_size=32, epochs=5, shuffle=False, verbose=0, callbacks=[hook] if hook else None
    )
    if hook is not None:
        hook.close()
    return [np.asarray(weight, np.float64) for weight in model.get_weights()], history.history["loss"]


def losses_of(trial: Trial) -> list[float]:
    (column,) = trial.columns("loss_output_0", "mean", last_step=10**9, mode="TRAIN")
    return [float(value) for value in column.values]


@pytest.mark.parametrize("case", CASES)
def test_the_training_is_the_same_and_its_losses_are_recorded(case: str, tmp_path: Path) -> None:
    bare, losses = train(case, "")
    weights, watched = train(case, str(tmp_path))
    tolerance = 2e-2 if case == "half precision" else 1e-5
    np.testing.assert_allclose(watched, losses, rtol=tolerance)
    for one, other in zip(bare, weights, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance / 10)
    trial = trackside.open_trial(str(tmp_path))
    assert trial.steps() == (0, 1, 2, 3, 4)
    np.testing.assert_allclose(losses_of(trial), watched, rtol=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_saves_weights_gradients_and_outputs(case: str, tmp_path: Path) -> None:
    train(case, str(tmp_path))
    trial = trackside.open_trial(str(tmp_path))
    worker = trial.workers[0]
    for name in (WEIGHT, f"gradient/{WEIGHT}", "labels"):
        assert trial.tensor(name).steps == (0, 2, 4), name
    first, gradient = (trial.value(name, step=0, worker=worker) for name in (WEIGHT, f"gradient/{WEIGHT}"))
    assert first.shape == gradient.shape == (6, 8)
    assert 0 < np.abs(gradient).max() < 10  # not scaled for half precision
    assert {"hidden/outputs", "scores/outputs"} <= set(trial.tensor_names(collection="outputs"))


@pytest.mark.skipif(BACKEND == "torch", reason="Keras refuses it there")
def test_several_batches_of_one_execution_are_one_step(tmp_path: Path) -> None:
    """Four batches an epoch, two an execution: its loss is their mean, or that of the last."""

    def trained(hook: Any) -> tuple[list[Any], list[float]]:
        keras.utils.set_random_seed(1)
        model = _without_dropout()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss, steps_per_execution=2)
        inputs, labels = examples()
        callbacks = [hook] if hook is not None else None
        log = model.fit(inputs, labels, batch_size=16, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
        return [np.asarray(weight, np.float64) for weight in model.get_weights()], log.history["loss"]

    bare, losses = trained(None)
    with trackside.KerasHook(str(tmp_path), save=SAVE) as hook:
        weights, watched = trained(hook)
    np.testing.assert_allclose(watched, losses, rtol=1e-5)
    for one, other in zip(bare, weights, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    trial = trackside.open_trial(str(tmp_path))
    assert trial.steps() == tuple(range(6))
    assert trial.tensor(WEIGHT).steps == trial.tensor(f"gradient/{WEIGHT}").steps == (0, 2, 4)
    assert len(losses_of(trial)) == 6


@needs_tensorflow
@pytest.mark.parametrize("way", ["fit", "hand"])
def test_replicas_of_mirrored_strategy(way: str, tmp_path: Path) -> None:
    """Loss and gradients are those of the whole batch, as one device computes them."""

    def trained(run: str) -> list[Any]:
        command = [sys.executable, "-m", "tests.training_lib.adapters.keras.replicas", way, run]
        folder, environment = Path(__file__).parents[4], {**inherited(), "KERAS_BACKEND": "tensorflow"}
        done = subprocess.run(
            command, cwd=folder, env=environment, check=True, timeout=300, capture_output=True, text=True
        )
        assert "trackside:" not in done.stderr
        return list(json.loads(done.stdout.splitlines()[-1]))

    for one, other in zip(trained(""), trained(str(tmp_path)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    trial = trackside.open_trial(str(tmp_path))
    assert trial.steps() == ((0, 1, 2, 3) if way == "fit" else (0, 2))  # by hand, compiled steps have no loss
    worker = trial.workers[0]
    layers = {}
    for layer in ("hidden", "scores"):
        for kind, leaf in (("weights", "kernel"), ("biases", "bias")):
            name = f"{layer}/{kind}/{layer}/{leaf}:0"
            assert trial.tensor(name).steps == (0, 2)
            layers[layer, leaf] = trial.value(name, step=2, worker=worker)
    loss, gradient = _on_one_device(layers, examples()[0][32:48], examples()[1][32:48])
    assert trial.value("loss_output_0", step=2, worker=worker) == pytest.approx(loss, rel=1e-5)
    found = trial.value("gradient/scores/weights/scores/kernel:0", step=2, worker=worker)
    np.testing.assert_allclose(found, gradient, atol=1e-6)


def _on_one_device(layers: dict[tuple[str, str], Any], inputs: Any, labels: Any) -> tuple[float, Any]:
    """Return the loss and the gradient of the last kernel, by NumPy."""
    hidden = np.maximum(inputs @ layers["hidden", "kernel"] + layers["hidden", "bias"], 0)
    scores = hidden @ layers["scores", "kernel"] + layers["scores", "bias"]
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    wrong = shares.copy()
    wrong[rows, labels] -= 1
    return float(-np.log(shares[rows, labels]).mean()), hidden.T @ wrong / len(labels)
