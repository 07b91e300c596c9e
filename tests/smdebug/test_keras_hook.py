"""smdebug's hook for Keras: names, collections, steps and modes as the original's, and the same training without it.

The suite plays it on torch; `.ci/keras_backends` on TensorFlow, where loops with `GradientTape` are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import smdebug.tensorflow as smd
from smdebug import not_offered
from smdebug.core.access_layer import has_training_ended
from smdebug.exceptions import SMDebugTypeError
from smdebug.tensorflow.keras import KerasHook
from smdebug.trials import create_trial

BACKEND = keras.backend.backend()
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.skipif(BACKEND == "jax", reason="tensors stay inside jit: docs/frameworks.md"),
]
SLOTS = ("momentum", "velocity")
MEMBERS = {
    "losses": {"loss"},
    "metrics": {"accuracy", "batch"},
    "weights": {"dense/weights/dense/kernel:0", "scores/weights/scores/kernel:0"},
    "biases": {"dense/weights/dense/bias:0", "scores/weights/scores/bias:0"},
    "gradients": {f"gradients/{layer}/{leaf}Grad" for layer in ("dense", "scores") for leaf in ("kernel", "bias")},
    "layers": {f"{layer}/{side}" for layer in ("dense", "drop", "scores") for side in ("inputs", "outputs")},
    "inputs": {"inputs"},
    "outputs": {"labels", "predictions"},
}
OF_DENSE = {name for members in MEMBERS.values() for name in members if name.startswith("dense/")}


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Any:
    yield
    hook = smd.get_hook()
    if hook is not None:
        hook.close()
    smd.del_hook()


def network() -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(8, activation="relu", name="dense"),
            keras.layers.Dropout(0.2, seed=1, name="drop"),
            keras.layers.Dense(3, activation="softmax", name="scores"),
        ],
        name="net",
    )
    loss = keras.losses.SparseCategoricalCrossentropy()
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, metrics=["accuracy"])
    return model


def rows() -> tuple[np.ndarray, np.ndarray]:
    inputs = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    return inputs, inputs[:, :3].argmax(axis=1)


def fit(hook: Any, **arguments: Any) -> keras.Model:
    model = network()
    model.fit(*rows(), batch_size=4, shuffle=False, verbose=0, callbacks=[hook] if hook else [], **arguments)
    return model


def shown(folder: Path) -> dict[str, list[int]]:
    trial = create_trial(str(folder))
    return {name: trial.tensor(name).steps() for name in trial.tensor_names()}


def test_everything_of_fit_has_the_names_and_collections_of_the_original(tmp_path: Path) -> None:
    hook = KerasHook(str(tmp_path / "run"), save_all=True, save_config=smd.SaveConfig(save_interval=4))
    assert smd.get_hook() is smd.get_hook("keras") is hook
    fit(hook)
    hook.close()
    trial = create_trial(str(tmp_path / "run"))
    for name, members in MEMBERS.items():
        assert set(trial.tensor_names(collection=name)) == members, name
    variables = set(trial.tensor_names(collection="optimizer_variables"))
    assert "Adam/learning_rate:0" in variables
    assert {name.rpartition("_")[2] for name in variables} >= {f"{slot}:0" for slot in SLOTS}
    assert trial.steps() == [0, 4, 8, 9]  # the last one by the end of the epoch
    assert trial.tensor("dense/weights/dense/kernel:0").value(0).shape == (6, 8)
    assert trial.tensor("dense/inputs").value(0).shape == (4, 6)
    assert has_training_ended(str(tmp_path / "run"))


def test_by_default_losses_and_metrics_are_saved(tmp_path: Path) -> None:
    hook = KerasHook(str(tmp_path / "run"))
    fit(hook, epochs=2)
    hook.close()
    assert shown(tmp_path / "run") == {name: [0, 9, 19] for name in ("accuracy", "batch", "loss")}


def test_modes_are_those_of_the_loops(tmp_path: Path) -> None:
    hook = KerasHook(str(tmp_path / "run"), save_config=smd.SaveConfig(save_interval=1))
    model = fit(hook, validation_data=(rows()[0][:8], rows()[1][:8]), validation_batch_size=4)
    model.evaluate(*rows(), batch_size=20, verbose=0, callbacks=[hook])
    model.predict(rows()[0], batch_size=20, verbose=0, callbacks=[hook])
    hook.close()
    trial = create_trial(str(tmp_path / "run"))
    assert len(trial.steps(mode=smd.modes.TRAIN)) == 10
    assert len(trial.steps(mode=smd.modes.EVAL)) == 4
    assert trial.tensor("val_loss").steps() == [11]  # with the step that ended last
    assert trial.tensor("loss").value(0) > 0


@pytest.mark.parametrize(
    ("collection", "regex", "names"),
    [
        pytest.param("own", "^dense", OF_DENSE, id="a collection of the script's"),
        pytest.param("layers", "^scores", {"scores/inputs", "scores/outputs"}, id="layers that are chosen"),
        pytest.param("layers", "", MEMBERS["layers"], id="all layers"),
        pytest.param("gradients", "", MEMBERS["gradients"], id="gradients"),
        pytest.param("optimizer_variables", "", None, id="optimizer"),
    ],
)
def test_a_collection_holds_what_is_asked_for(
    collection: str, regex: str, names: set[str] | None, tmp_path: Path
) -> None:
    hook = KerasHook(str(tmp_path / "run"), include_collections=[collection])
    if regex:
        hook.get_collection(collection).include(regex)
    fit(hook)
    hook.close()
    found = set(create_trial(str(tmp_path / "run")).tensor_names(collection=collection))
    assert found == names if names is not None else len(found) == 10


def test_a_layer_or_a_variable_can_be_added(tmp_path: Path) -> None:
    hook = KerasHook(str(tmp_path / "run"), include_collections=["own"])
    model = network()
    hook.register_model(model)
    own: Any = hook.get_collection("own")
    own.add_keras_layer(model.get_layer("drop"), inputs=True)
    own.add(model.get_layer("scores").bias)
    with pytest.raises(SMDebugTypeError, match=r"hook\.save_tensor"):
        own.add([np.zeros(3)])
    assert hook.wrap_optimizer(model.optimizer) is model.optimizer
    model.fit(*rows(), batch_size=4, verbose=0, callbacks=[hook])
    hook.close()
    found = create_trial(str(tmp_path / "run")).tensor_names(collection="own")
    assert set(found) == {"drop/inputs", "drop/outputs", "scores/weights/scores/bias:0"}


def test_values_of_the_script_are_saved_with_the_step_that_is_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = KerasHook(str(tmp_path / "run"), include_collections=["own"])
    hook.save_scalar("before", 3, timestamp=1e9)
    hook.save_tensor("given", keras.ops.ones((2, 3)), "own")
    hook.save_tensor("wrong", {"a": 1}, "own")
    fit(hook)
    hook.close()
    steps = shown(tmp_path / "run")
    assert steps["scalar/before"] == steps["given"] == [0]
    assert "wrong" not in steps
    assert "a dict is no tensor" in caplog.text
    assert create_trial(str(tmp_path / "run")).tensor("given").value(0).shape == (2, 3)


def test_a_file_configures_it(tmp_path: Path) -> None:
    document = {
        "LocalPath": str(tmp_path / "run"),
        "HookParameters": {"save_interval": "5"},
        "CollectionConfigurations": [{"CollectionName": "weights"}, {"CollectionName": "losses"}],
    }
    (tmp_path / "hook.json").write_text(json.dumps(document))
    hook = smd.get_hook("keras", str(tmp_path / "hook.json"), create_if_not_exists=True)
    fit(hook)
    hook.close()
    steps = shown(tmp_path / "run")
    assert {name for name in steps if "weights" in name} == MEMBERS["weights"]
    assert steps["loss"] == [0, 5, 9]


def test_the_model_is_the_same_as_without(tmp_path: Path) -> None:
    hook = KerasHook(str(tmp_path / "run"), save_all=True, save_config=smd.SaveConfig(save_interval=2))
    with_hook = fit(hook)
    for mine, bare in zip(with_hook.get_weights(), fit(None).get_weights(), strict=True):
        np.testing.assert_allclose(mine, bare, atol=0 if BACKEND == "torch" else 1e-6)


def test_nothing_is_written_by_a_dry_run_or_before_a_step(tmp_path: Path) -> None:
    hook = KerasHook(str(tmp_path / "run"), dry_run=True)
    fit(hook)
    hook.close()
    KerasHook(str(tmp_path / "never")).close()
    assert not (tmp_path / "run" / "events").exists()
    assert not (tmp_path / "never").exists()


def test_a_second_hook_of_a_folder_goes_on_in_its_place(tmp_path: Path) -> None:
    first = KerasHook(str(tmp_path / "run"), save_config=smd.SaveConfig(save_interval=5))
    fit(first)
    second = KerasHook(str(tmp_path / "run"), save_config=smd.SaveConfig(save_interval=5))
    assert first.is_closed
    fit(second)
    second.close()
    assert shown(tmp_path / "run")["loss"][-1] == 19


def test_the_state_for_scripts(tmp_path: Path) -> None:
    hook = KerasHook(str(tmp_path / "run"), include_collections=["layers"])
    seen: list[Any] = []

    class Reader(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append((hook.step, hook.mode, hook.should_save_layer("dense"), hook.mode_steps[smd.modes.TRAIN]))

    assert (hook.step, hook.is_closed) == (-1, False)
    model = network()
    model.fit(*rows(), batch_size=20, verbose=0, callbacks=[hook, Reader()])
    assert seen == [(0, smd.modes.TRAIN, True, 0), (1, smd.modes.TRAIN, False, 1)]
    assert hook.step == 1
    hook.close()
    assert hook.is_closed


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda: smd.SessionHook("/tmp/run"), id="session"),
        pytest.param(lambda: smd.EstimatorHook("/tmp/run"), id="estimator"),
        pytest.param(lambda: smd.get_hook("session", create_if_not_exists=True), id="get session"),
        pytest.param(lambda: smd.get_hook("estimator"), id="get estimator"),
    ],
)
def test_sessions_and_estimators_are_refused_with_what_works(use: Callable[[], object]) -> None:
    with pytest.raises(
        not_offered.NotOfferedError, match=r"TensorFlow 1 .*GradientTape.*smdebug\.tensorflow\.KerasHook"
    ):
        use()


@pytest.mark.skipif(BACKEND != "tensorflow", reason="it is TensorFlow's")
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "tf.function"])
def test_a_loop_with_a_tape(is_compiled: bool, tmp_path: Path) -> None:
    tensorflow = sys.modules["tensorflow"]
    hook = KerasHook(str(tmp_path / "run"), save_all=True, save_config=smd.SaveConfig(save_interval=2))
    model, loss_of = network(), keras.losses.SparseCategoricalCrossentropy()
    optimizer = hook.wrap_optimizer(keras.optimizers.Adam())

    def loss(inputs: Any, labels: Any) -> Any:
        return loss_of(labels, model(inputs, training=True))

    forward = tensorflow.function(loss) if is_compiled else loss
    for step in range(5):
        with hook.wrap_tape(tensorflow.GradientTape()) as tape:
            value = forward(*rows())
        slopes = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(slopes, model.trainable_variables, strict=True))
        hook.save_tensor("step", np.array([step]), "metrics")
    hook.close()
    trial = create_trial(str(tmp_path / "run"))
    assert trial.steps() == [0, 2, 4]
    assert [trial.tensor("step").value(step) for step in trial.steps()] == [[0], [2], [4]]
    assert trial.tensor_names(collection="losses") == ["loss"]
    assert set(trial.tensor_names(collection="weights")) == {"weights/dense/kernel:0", "weights/scores/kernel:0"}
    assert set(trial.tensor_names(collection="biases")) == {"weights/dense/bias:0", "weights/scores/bias:0"}
    assert set(trial.tensor_names(collection="gradients")) == MEMBERS["gradients"]


@pytest.mark.parametrize("moment", ["epoch", "batch"])
def test_another_instance_goes_on_where_the_checkpoints_were_made(
    moment: str, tmp_path: Path, checkpoints: Path, states: Callable[[], list[dict[str, Any]]]
) -> None:
    """As the original's spot training: the folder of checkpoints comes to the new instance, and no tensors."""

    class Saves(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            if moment == "epoch" and epoch == 0:
                (checkpoints / "weights").write_bytes(b"first")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if moment == "batch" and batch == 3 and not (checkpoints / "weights").exists():
                (checkpoints / "weights").write_bytes(b"first")

    def trained(folder: str) -> Any:
        hook = KerasHook(str(tmp_path / folder), save_config=smd.SaveConfig(save_interval=2))
        before = hook.step, hook.init_step, hook.training_run, hook.last_saved_step
        inputs, labels = rows()
        network().fit(inputs, labels, batch_size=10, epochs=2, verbose=0, callbacks=[hook, Saves()])
        hook.close()
        smd.del_hook()
        return before

    assert trained("first") == (-1, -1, 0, None)
    assert [state["latest-mode-step"] for state in states()] == [{"TRAIN": 3, "GLOBAL": 3}]
    assert [state["latest-global-step-saved"] for state in states()] == [3]
    assert trained("second") == (3, 3, 1, 3)
    assert create_trial(str(tmp_path / "second")).steps()[0] == 4
