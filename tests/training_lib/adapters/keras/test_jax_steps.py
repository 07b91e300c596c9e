"""Steps of Keras on JAX: those that are saved are computed once more, by plain calls. `make keras` runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import trackside
from tests.training_lib.adapters.keras.test_adapter import examples

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="it is JAX's")

SAVE = {"losses": 1, "weights": 2, "biases": 2, "gradients": 2, "outputs": 2}
KERNEL = "hidden/weights/hidden/kernel:0"


def _dense(**settings: Any) -> Any:
    return keras.layers.Dense(8, activation="tanh", name="hidden", **settings)


def _plain() -> keras.Model:
    return keras.Sequential([keras.Input((6,)), _dense(), keras.layers.Dense(3, name="scores")])


def _regularized() -> keras.Model:
    regularizer = keras.regularizers.L2(0.1)
    return keras.Sequential([keras.Input((6,)), _dense(kernel_regularizer=regularizer), keras.layers.Dense(3)])


def _recurrent() -> keras.Model:
    """Its loop over time is a loop of JAX's."""
    layers = [keras.layers.Reshape((3, 2)), keras.layers.LSTM(8, name="hidden"), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((6,)), *layers])


def _normalized() -> keras.Model:
    """Its moving means are values of the state that are not trained."""
    layers = [_dense(), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5, seed=1), keras.layers.Dense(3)]
    return keras.Sequential([keras.Input((6,)), *layers])


class Own(keras.Model):  # type: ignore[misc]  # Keras has no types
    """A model with a step of its own, as Keras's guide for JAX shows it."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.scores = _dense(), keras.layers.Dense(3)

    def call(self, inputs: Any) -> Any:
        return self.scores(self.hidden(inputs))

    def train_step(self, state: Any, data: Any) -> Any:
        import jax

        trainable, other, optimizer_variables, metrics = state
        x, y = data[:2]
        gradient = jax.value_and_grad(self.compute_loss_and_updates, has_aux=True)
        (loss, aux), slopes = gradient(trainable, other, metrics, x, y, None, training=True,
                                       optimizer_variables=optimizer_variables)  # fmt: skip
        trainable, optimizer_variables = self.optimizer.stateless_apply(optimizer_variables, slopes, trainable)
        return {"loss": loss}, (trainable, aux[2], optimizer_variables, aux[3])


MODELS: dict[str, Callable[[], keras.Model]] = {
    "plain": _plain, "regularized": _regularized, "recurrent": _recurrent, "normalized": _normalized, "own step": Own,
}  # fmt: skip


def _compiled(make: Callable[[], keras.Model], **compiling: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, **compiling)
    return model


def _fit(model: keras.Model, *callbacks: Any, epochs: int = 2) -> list[Any]:
    model.fit(*examples(), batch_size=16, epochs=epochs, shuffle=False, verbose=0, callbacks=list(callbacks))
    return [np.asarray(weight) for weight in model.get_weights()]


@pytest.mark.parametrize("name", MODELS)
def test_the_training_is_the_same(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bare = _fit(_compiled(MODELS[name]))
    model = _compiled(MODELS[name])
    with trackside.KerasHook(str(tmp_path), save=SAVE) as hook:
        watched = _fit(model, hook)
    for one, other in zip(bare, watched, strict=True):
        assert np.array_equal(one, other)
    assert not [each.getMessage() for each in caplog.records if each.name.startswith("trackside")]
    trial = trackside.open_trial(str(tmp_path))
    saved = trial.tensor_names(collection="weights")
    assert saved
    assert {trial.tensor(weight).steps for weight in saved} == {(0, 2, 4, 6)}
    assert len(trial.tensor_names(collection="gradients")) >= len(saved)


def test_saved_gradients_are_those_of_jax(tmp_path: Path) -> None:
    """Each saved step's weights, and the gradients that `jax.grad` computes of them."""
    import jax

    with trackside.KerasHook(str(tmp_path), save=SAVE) as hook:
        _fit(_compiled(_plain), hook, epochs=1)
    trial = trackside.open_trial(str(tmp_path))
    names = [f"{layer}/{kind}/{layer}/{leaf}:0" for layer in ("hidden", "scores")
             for kind, leaf in (("weights", "kernel"), ("biases", "bias"))]  # fmt: skip
    inputs, labels = examples()

    def loss(kernels: list[Any], x: Any, y: Any) -> Any:
        first, bias, second, last = kernels
        scores = jax.nn.log_softmax(jax.numpy.tanh(x @ first + bias) @ second + last)
        return -scores[np.arange(len(y)), y].mean()

    for step in (0, 2):
        rows = slice(16 * step, 16 * step + 16)
        held = [trial.value(name, step=step, worker="worker_0") for name in names[:1]]
        assert held[0].shape == (6, 8)
        weights = [trial.value(name, step=step, worker="worker_0") for name in names]
        value, slopes = jax.value_and_grad(loss)(weights, inputs[rows], labels[rows])
        assert trial.value("loss_output_0", step=step, worker="worker_0") == pytest.approx(float(value), rel=1e-5)
        for name, slope in zip(names, slopes, strict=True):
            found = trial.value(f"gradient/{name}", step=step, worker="worker_0")
            np.testing.assert_allclose(found, slope, atol=1e-6)


def test_several_steps_of_one_call_are_one_step(tmp_path: Path) -> None:
    model = _compiled(_plain, steps_per_execution=2)
    bare = _fit(_compiled(_plain, steps_per_execution=2))
    with trackside.KerasHook(str(tmp_path), save=SAVE) as hook:
        watched = _fit(model, hook)
    for one, other in zip(bare, watched, strict=True):
        assert np.array_equal(one, other)
    assert trackside.open_trial(str(tmp_path)).tensor(KERNEL).steps == (0, 2)


def test_only_saved_steps_are_computed_by_plain_calls(tmp_path: Path) -> None:
    """What Keras compiles runs its Python code once; a plain call runs it each time."""
    calls = []

    class Counted(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
        def call(self, inputs: Any) -> Any:
            calls.append(type(inputs).__name__)
            return inputs

    def model() -> keras.Model:
        return keras.Sequential([keras.Input((6,)), _dense(), Counted(), keras.layers.Dense(3)])

    _fit(_compiled(model), epochs=4)
    bare = len(calls)
    calls.clear()
    with trackside.KerasHook(str(tmp_path), save={"losses": 1, "gradients": 8}) as hook:
        _fit(_compiled(model), hook, epochs=4)
    assert len(calls) == bare + 2


def test_a_step_that_fails_as_plain_calls_costs_the_training_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class OnlyCompiled(Own):
        def train_step(self, state: Any, data: Any) -> Any:
            assert "Jaxpr" in type(state[0][0]).__name__, "a plain call"
            return super().train_step(state, data)

    bare = _fit(_compiled(OnlyCompiled))
    with trackside.KerasHook(str(tmp_path), save=SAVE) as hook:
        watched = _fit(_compiled(OnlyCompiled), hook)
    for one, other in zip(bare, watched, strict=True):
        assert np.array_equal(one, other)
    assert "a plain call" in caplog.text
    trial = trackside.open_trial(str(tmp_path))
    assert len(trial.tensor("loss_output_0").steps) == 8


def test_a_model_is_as_it_was_after_the_hook(tmp_path: Path) -> None:
    model = _compiled(_plain)
    _fit(model)
    with trackside.KerasHook(str(tmp_path), save=SAVE) as hook:
        _fit(model, hook)
    steps = trackside.open_trial(str(tmp_path)).steps()
    _fit(model)
    model.save(tmp_path / "model.keras")
    assert not model.run_eagerly
    assert trackside.open_trial(str(tmp_path)).steps() == steps
    with trackside.KerasHook(str(tmp_path / "second"), save=SAVE) as hook:
        _fit(model, hook)
    assert trackside.open_trial(str(tmp_path / "second")).tensor(KERNEL).steps == (0, 2, 4, 6)
