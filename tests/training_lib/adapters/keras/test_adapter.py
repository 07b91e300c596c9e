"""Keras 3, on the backend that KERAS_BACKEND names; the suite uses torch, `.ci/keras_backends` the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from numpy.typing import NDArray

import trackside
from docs.framework_tables import FRAMEWORKS, ON_JAX, ON_TENSORFLOW, TABLE
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule
from trackside.environment import inherited
from trackside.testing.adapter_contract import AdapterContract, Training

# Keras's own conversion from torch to NumPy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

# What a compiled backend does not show, by the name of the test: docs/frameworks.md.
_COMPILED = {
    "test_records_statistics_of_every_step": "gradients are seen at saved steps only",
    "test_is_judged_by_the_rules[tiny]": "gradients are seen at saved steps only",
}
MISSING = {"tensorflow": _COMPILED, "jax": _COMPILED}


@pytest.fixture(autouse=True)
def missing_on_this_backend(request: pytest.FixtureRequest) -> None:
    reason = MISSING.get(keras.backend.backend(), {}).get(request.node.name)
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.mark.parametrize(("backend", "framework"), [("tensorflow", ON_TENSORFLOW), ("jax", ON_JAX)])
def test_the_page_promises_nothing_that_is_missing(backend: str, framework: str) -> None:
    missing = {name.partition("[")[0] for name in MISSING[backend]}
    promised = {row: cells[FRAMEWORKS.index(framework)].test for row, cells in TABLE.items()}
    assert not {row: test for row, test in promised.items() if test.partition("::")[2].partition(",")[0] in missing}


def linear(weight: NDArray[np.float64], learning_rate: float) -> keras.Model:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False, name="fc")])
    model.layers[0].kernel.assign(weight.T.astype(np.float32))
    model.compile(optimizer=keras.optimizers.SGD(learning_rate), loss="mse")
    return model


class TestKerasAdapter(AdapterContract):
    """`fit` with one batch an epoch, and `evaluate`."""

    loss_name, weight_name = "loss", "fc/weights/fc/kernel:0"

    def train(self, training: Training, run: str, request: CaptureRequest) -> NDArray[np.float64]:
        hook = trackside.KerasHook(run, save=request) if run else None
        model = linear(training.weight, training.learning_rate)
        for step, (inputs, targets) in enumerate(zip(training.inputs, training.targets, strict=True)):
            model.fit(inputs, targets, batch_size=4, shuffle=False, verbose=0, callbacks=[hook] if hook else None)
            if step in training.evaluated_after:
                model.evaluate(inputs, targets, batch_size=4, verbose=0)
        if hook is not None:
            hook.close()
        return np.asarray(keras.ops.convert_to_numpy(model.layers[0].kernel)).T


def network() -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="relu", name="hidden"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.Dense(3, name="scores"),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def examples() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    random = np.random.default_rng(0)
    inputs = random.normal(size=(64, 6)).astype(np.float32)
    return inputs, inputs[:, :3].argmax(axis=1).astype(np.int64)


EVERYTHING = dict.fromkeys(
    (
        "losses", "metrics", "weights", "biases", "gradients", "optimizer_variables", "inputs", "outputs", "labels",
        "predictions",
    ),
    2,
)  # fmt: skip


def fit(model: keras.Model, *callbacks: keras.callbacks.Callback) -> keras.callbacks.History:
    inputs, labels = examples()
    return model.fit(
        inputs, labels, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=list(callbacks),
        validation_data=(inputs[:32], labels[:32]), validation_batch_size=16,
    )  # fmt: skip


def test_saves_everything_of_fit(tmp_path: Path) -> None:
    with trackside.KerasHook(str(tmp_path), save=EVERYTHING) as hook:
        model = network()
        start = np.array(keras.ops.convert_to_numpy(model.get_layer("hidden").kernel))
        history = fit(model, hook).history
        model.predict(examples()[0], batch_size=32, verbose=0)
    trial = trackside.open_trial(str(tmp_path))
    assert [trial.mode_of(step)[0] for step in trial.steps()] == list("TTETTEP")
    first = trial.value("hidden/weights/hidden/kernel:0", step=0, worker="worker_0")
    assert np.array_equal(first, start)
    names = set(trial.tensor_names(collection="all"))
    assert {
        "gradient/hidden/weights/hidden/kernel:0", "scores/biases/scores/bias:0", "norm/weights/norm/gamma:0",
        "norm/biases/norm/beta:0", "hidden/outputs", "hidden/inputs", "labels", "predictions", "inputs", "loss",
        "accuracy", "val_accuracy", "loss_output_0",
    } <= names  # fmt: skip
    assert any(name.startswith("optimizer/") and "momentum" in name for name in names)
    assert np.array_equal(trial.value("labels", step=0, worker="worker_0").reshape(-1), examples()[1][:16])
    (losses,) = trial.columns("loss_output_0", "mean", last_step=10**9, mode="TRAIN")
    assert losses.values[:4].mean() == pytest.approx(history["loss"][0], rel=1e-4)
    (validation,) = trial.columns("loss_output_0", "mean", last_step=10**9, mode="EVAL")
    assert validation.values[:2].mean() == pytest.approx(history["val_loss"][0], rel=1e-4)
    outputs = trial.value("hidden/outputs", step=0, worker="worker_0")
    assert outputs.shape == (16, 8)
    assert outputs.min() == 0


def test_the_model_is_the_same_without_it(tmp_path: Path) -> None:
    bare, watched = network(), network()
    fit(bare)
    with trackside.KerasHook(str(tmp_path), save=EVERYTHING) as hook:
        fit(watched, hook)
    for a, b in zip(bare.get_weights(), watched.get_weights(), strict=True):
        assert np.allclose(a, b, atol=0 if keras.backend.backend() == "torch" else 1e-6)


def test_a_loop_by_hand(tmp_path: Path) -> None:
    with trackside.KerasHook(str(tmp_path), save={"losses": 1, "gradients": 2}):
        model = network()
        inputs, labels = examples()
        losses = [float(model.train_on_batch(inputs, labels)[0]) for _ in range(5)]
    trial = trackside.open_trial(str(tmp_path))
    assert trial.has_ended
    (loss,) = trial.tensor_names(collection="losses")
    gradients = [trial.tensor(name) for name in trial.tensor_names(collection="gradients")]
    assert trial.steps()[-1] <= 4
    np.testing.assert_allclose(trial.tensor(loss).values, losses, rtol=1e-5)
    assert {len(gradient.values) for gradient in gradients} == {3}


def test_leaves_keras_as_it_was(tmp_path: Path) -> None:
    before = keras.layers.Layer.__call__, keras.Model.compute_loss, keras.callbacks.CallbackList.on_train_batch_end
    with trackside.KerasHook(str(tmp_path)):
        assert keras.layers.Layer.__call__ is not before[0]
    assert before == (
        keras.layers.Layer.__call__,
        keras.Model.compute_loss,
        keras.callbacks.CallbackList.on_train_batch_end,
    )


SCRIPT = """import keras
from tests.training_lib.adapters.keras.test_adapter import examples

model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, name="scores")])
optimizer = keras.optimizers.SGD(0.1)
model.compile(
    optimizer=optimizer, loss="sparse_categorical_crossentropy")
model.fit(*examples(), batch_size=16, epochs=2, verbose=0)
"""


def test_needs_no_change_of_the_script(tmp_path: Path) -> None:
    script, run = tmp_path / "train.py", tmp_path / "run"
    script.write_text(SCRIPT)
    request = CaptureRequest((CollectionRequest("gradients", Schedule(2)),))
    variables = {"TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": request.to_json()}
    environment = {**inherited(), **variables, "PYTHONPATH": str(Path(__file__).parents[4])}
    subprocess.run([sys.executable, "-W", "ignore", str(script)], env=environment, check=True, timeout=300)
    trial = trackside.open_trial(str(run))
    assert trial.steps("TRAIN")[-1] >= 6
    assert "gradient/scores/weights/scores/kernel:0" in trial.tensor_names(collection="gradients")
    (losses,) = trial.columns("loss_output_0", "mean", last_step=10**9, mode="TRAIN")
    assert len(losses.values) == 8
    assert trial.has_ended
    facts = trial.model_facts
    assert facts is not None
    assert facts.modules[-1].line == "train.py:4"
    assert facts.optimizers[0].line == "train.py:5"
    assert facts.losses[0].line == "train.py:6"
    assert facts.program.script == str(script)


BUILT_AFTERWARDS = """
import keras
from tests.training_lib.adapters.keras.test_adapter import examples
class Own(keras.layers.Layer):
    def call(self, inputs):
        return inputs
normal, drop = keras.layers.BatchNormalization(), keras.layers.Dropout(0.2)
layers = [keras.layers.Dense(8), Own(), normal, drop, keras.layers.Flatten(), keras.layers.Dense(3)]
model = keras.Sequential([keras.Input((6,)), *layers])
model.compile(keras.optimizers.Adam(), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(*examples(), verbose=0)
model.save("model.keras")
clone = keras.models.clone_model(model)
keras.models.load_model("model.keras", custom_objects={"Own": Own}).predict(examples()[0], verbose=0)
"""


def test_a_model_that_is_built_while_keras_is_listened_to_is_saved_and_copied_as_ever(tmp_path: Path) -> None:
    """Keras reads the arguments of `__init__` and `call` when it makes, saves and copies layers."""
    environment = {**inherited(), "TRACKSIDE_RUN": str(tmp_path / "run"), "PYTHONPATH": str(Path(__file__).parents[4])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILT_AFTERWARDS],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert trackside.open_trial(str(tmp_path / "run")).has_ended
