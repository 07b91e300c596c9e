"""Loops by hand with `tf.GradientTape`, run eagerly and compiled. Runs on TensorFlow only: `.ci/keras_backends`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from numpy.typing import NDArray

import trackside
from tests.training_lib.adapters.keras.test_adapter import examples
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.environment import inherited
from trackside.trial.trial import Trial

pytestmark = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="gradient tapes are TensorFlow's")

Step = Callable[[NDArray[Any], NDArray[Any]], Any]
SAVE = {"losses": 1, "weights": 3, "gradients": 3, "outputs": 3, "labels": 3, "predictions": 3}
STEPS = 7
WAYS = ["eager", "compiled", "xla"]


def network(policy: str = "float32") -> keras.Model:
    keras.utils.set_random_seed(1)
    layers = [
        keras.layers.Dense(8, activation="relu", name="hidden", dtype=policy),
        keras.layers.Dense(3, name="scores", dtype=policy),
    ]
    return keras.Sequential([keras.Input((6,)), *layers])


def step_of(model: keras.Model, way: str, optimizer: Any = None) -> Step:
    """Return a training step as a user writes it. It returns the loss."""
    import tensorflow as tf

    optimizer = optimizer or keras.optimizers.SGD(0.1)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
            target = optimizer.scale_loss(loss)
        gradients = tape.gradient(target, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    if way == "eager":
        return step
    found: Step = tf.function(step, jit_compile=way == "xla")
    return found


def train(step: Step, steps: int = STEPS) -> list[float]:
    inputs, labels = examples()
    return [float(step(inputs[k * 8 : k * 8 + 8], labels[k * 8 : k * 8 + 8])) for k in range(steps)]


def recorded(trial: Trial) -> list[float]:
    (column,) = trial.columns("loss_output_0", "mean", last_step=10**9, mode="TRAIN")
    return [float(value) for value in column.values]


@pytest.mark.parametrize("way", WAYS)
def test_saves_what_each_step_used(way: str, tmp_path: Path) -> None:
    bare = train(step_of(network(), way))
    with trackside.KerasHook(str(tmp_path), save=SAVE):
        model = network()
        start = np.array(keras.ops.convert_to_numpy(model.layers[0].kernel))
        losses = train(step_of(model, way))
    np.testing.assert_allclose(losses, bare, rtol=1e-5)
    trial = trackside.open_trial(str(tmp_path))
    assert [trial.mode_of(step) for step in trial.steps()] == ["TRAIN"] * STEPS
    np.testing.assert_allclose(recorded(trial), losses, rtol=1e-5)
    worker = trial.workers[0]
    weight = "hidden/weights/hidden/kernel:0"
    assert np.array_equal(trial.value(weight, step=0, worker=worker), start)
    assert trial.tensor(weight).steps == (0, 3, 6)
    assert trial.tensor(f"gradient/{weight}").steps == (0, 3, 6)
    names = set(trial.tensor_names(collection="all"))
    assert {"hidden/outputs", "scores/outputs", "labels", "predictions"} <= names
    assert trial.value("hidden/outputs", step=3, worker=worker).shape == (8, 8)
    assert np.array_equal(trial.value("labels", step=0, worker=worker).reshape(-1), examples()[1][:8])
    moved = trial.value(weight, step=3, worker=worker)
    gradient = trial.value(f"gradient/{weight}", step=3, worker=worker)
    assert moved.shape == gradient.shape == (6, 8)
    assert np.abs(gradient).max() > 0


@pytest.mark.parametrize("way", WAYS)
def test_functions_that_do_not_train_are_no_steps(way: str, tmp_path: Path) -> None:
    import tensorflow as tf

    model = network()

    scores_of = tf.function(lambda x: model(x, training=False))
    inputs, _ = examples()
    with trackside.KerasHook(str(tmp_path / "run"), save=SAVE):
        scores_of(inputs)
        assert not (tmp_path / "run").exists()
        step = step_of(model, way)
        for _ in range(2):
            train(step, 2)
            scores_of(inputs)
    trial = trackside.open_trial(str(tmp_path / "run"))
    assert trial.steps() == (0, 1, 2, 3)
    assert len(recorded(trial)) == 4


@pytest.mark.parametrize("way", WAYS)
def test_a_nan_is_recorded_where_it_was(way: str, tmp_path: Path) -> None:
    with trackside.KerasHook(str(tmp_path), save={"losses": 1}):
        model = network()
        step = step_of(model, way)
        train(step, 1)
        model.layers[1].bias.assign(np.full(3, np.nan))
        train(step, 1)
    losses = recorded(trackside.open_trial(str(tmp_path)))
    assert [bool(np.isnan(loss)) for loss in losses] == [False, True]


@pytest.mark.parametrize("way", WAYS)
def test_a_loss_scaled_for_half_precision_is_recorded_unscaled(way: str, tmp_path: Path) -> None:
    with trackside.KerasHook(str(tmp_path), save={"losses": 1, "gradients": 2}):
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
        losses = train(step_of(network("mixed_float16"), way, optimizer), 5)
    trial = trackside.open_trial(str(tmp_path))
    np.testing.assert_allclose(recorded(trial), losses, rtol=1e-2)
    gradient = trial.value("gradient/scores/weights/scores/kernel:0", step=2, worker=trial.workers[0])
    assert np.abs(gradient).max() < 10


def test_a_compiled_step_is_traced_once(tmp_path: Path) -> None:
    with trackside.KerasHook(str(tmp_path), save={"losses": 1, "gradients": 2}):
        step: Any = step_of(network(), "compiled")
        train(step)
    assert step.experimental_get_tracing_count() == 1


def test_an_error_of_the_script_passes_through_and_leaves_tensorflow_compiling(tmp_path: Path) -> None:
    import tensorflow as tf

    def fail(x: Any) -> Any:
        raise RuntimeError("of the script")

    broken = tf.function(fail)
    with trackside.KerasHook(str(tmp_path / "run"), save={"gradients": 1}):
        with pytest.raises(RuntimeError, match="of the script"):
            broken(tf.constant(1.0))
        assert not tf.config.functions_run_eagerly()
    assert not (tmp_path / "run").exists()


def test_leaves_tensorflow_as_it_was(tmp_path: Path) -> None:
    import tensorflow as tf

    def ways_in() -> tuple[Any, ...]:
        tape = tf.GradientTape
        return tape.__enter__, tape.__exit__, tape.gradient, type(tf.function(lambda: None)).__call__

    before = ways_in()
    with trackside.KerasHook(str(tmp_path)):
        assert ways_in() != before
    assert ways_in() == before


SCRIPT = """
from tests.training_lib.adapters.keras.test_loops_by_hand import network, step_of, train
train(step_of(network(), "{way}"))
"""


@pytest.mark.parametrize("way", WAYS)
def test_needs_no_change_of_the_script(way: str, tmp_path: Path) -> None:
    request = CaptureRequest((CollectionRequest("gradients", Schedule(2)),))
    subprocess.run(
        [sys.executable, "-c", SCRIPT.format(way=way)],
        cwd=Path(__file__).parents[4],
        env={**inherited(), "TRACKSIDE_RUN": str(tmp_path / "run"), "TRACKSIDE_CAPTURE_REQUEST": request.to_json()},
        check=True,
        timeout=300,
    )
    trial = trackside.open_trial(str(tmp_path / "run"))
    assert len(recorded(trial)) == STEPS
    assert trial.tensor("gradient/hidden/weights/hidden/kernel:0").steps == (0, 2, 4, 6)
    assert trial.has_ended
