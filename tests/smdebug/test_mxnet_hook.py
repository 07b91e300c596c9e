"""smdebug's hook for MXNet, as the original's documentation uses it. `make mxnet` runs it.

The expected values are MXNet's own: a second training of the same seed prints them.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mxnet = pytest.importorskip("mxnet", reason="in the environment that `make mxnet` builds")

import smdebug.mxnet as smd  # noqa: E402 - after the check for mxnet
from mxnet import autograd, gluon, nd  # noqa: E402
from smdebug import not_offered  # noqa: E402
from smdebug.trials import create_trial  # noqa: E402

import trackside  # noqa: E402

STEPS = 6
NAMES = [
    (module, name)
    for module in ("smdebug.mxnet", "smdebug.mxnet.collection", "smdebug.mxnet.hook", "smdebug.mxnet.singleton_utils")
    for name in not_offered.names_of(module)
]


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    hook = smd.get_hook()
    if hook is not None:
        hook.close()
    smd.del_hook()


class Training:
    """A training of a small network, with all that it computes.

    Args:
        is_hybrid: The network is compiled.
    """

    def __init__(self, *, is_hybrid: bool = False) -> None:
        mxnet.random.seed(1)
        self.random = np.random.default_rng(0)
        self.rows = self.random.normal(size=(60, 4)).astype("float32")
        self.answers = (self.rows[:, 0] > 0).astype("float32")
        self.net = gluon.nn.HybridSequential(prefix="net_")
        with self.net.name_scope():
            self.net.add(gluon.nn.Dense(5, activation="relu", in_units=4), gluon.nn.Dense(2, in_units=5))
        self.net.initialize(mxnet.init.Xavier())
        if is_hybrid:
            self.net.hybridize()
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss(prefix="softmaxcrossentropyloss0_")
        self.trainer = gluon.Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.1})
        self.seen: list[dict[str, Any]] = []  # of each step

    def step(self) -> None:
        part = self.random.integers(0, 60, 10)
        inputs, labels = nd.array(self.rows[part]), nd.array(self.answers[part])
        with autograd.record():
            outputs = self.net(inputs)
            loss = self.loss(outputs, labels)
        loss.backward()
        self.trainer.step(10)
        self._note(inputs, outputs, loss)

    def evaluate(self) -> None:
        inputs, labels = nd.array(self.rows), nd.array(self.answers)
        outputs = self.net(inputs)
        self._note(inputs, outputs, self.loss(outputs, labels))

    def _note(self, inputs: Any, outputs: Any, loss: Any) -> None:
        values = {each.name: each.data() for each in self.net.collect_params().values()}
        values |= {f"gradient/{each.name}": each.grad() for each in self.net.collect_params().values()}
        values |= {"net_input_0": inputs, "net_output_0": outputs, f"{self.loss.name}_output_0": loss}
        self.seen.append({name: value.asnumpy().copy() for name, value in values.items()})


def saved(folder: Path) -> dict[str, dict[int, Any]]:
    trial = create_trial(str(folder))
    return {
        name: {step: trial.tensor(name).value(step) for step in trial.tensor(name).steps()}
        for name in trial.tensor_names()
    }


def check(found: dict[str, dict[int, Any]], seen: list[dict[str, Any]], names: set[str], steps: set[int]) -> None:
    """Compare saved tensors with those of the training."""
    assert {name for name in found if name in seen[0]} == names
    for name in names:
        assert set(found[name]) == steps, name
        for step, value in found[name].items():
            np.testing.assert_array_equal(value, seen[step][name], err_msg=f"{name} at step {step}")


WEIGHTS = {"net_dense0_weight", "net_dense1_weight"}
BIASES = {"net_dense0_bias", "net_dense1_bias"}
GRADIENTS = {f"gradient/{name}" for name in WEIGHTS | BIASES}
LOSS = {"softmaxcrossentropyloss0_output_0"}
OUTER = {"net_input_0", "net_output_0"}


@pytest.mark.parametrize(
    ("settings", "names", "others"),
    [
        pytest.param({}, LOSS, set(), id="losses alone by default"),
        pytest.param(
            {"include_collections": ["weights", "gradients"]}, LOSS | WEIGHTS | GRADIENTS, set(), id="parameters"
        ),
        pytest.param({"include_collections": ["biases"]}, LOSS | BIASES, set(), id="biases"),
        pytest.param(
            {"include_regex": ["dense0_output"]}, LOSS, {"net_dense0_output_0"}, id="a regex for an inner block"
        ),
        pytest.param(
            {"save_all": True},
            LOSS | WEIGHTS | BIASES | GRADIENTS | OUTER,
            {f"net_dense{k}_{side}_0" for k in (0, 1) for side in ("input", "output")}
            | {f"softmaxcrossentropyloss0_input_{k}" for k in (0, 1)}
            | {"net_dense0_relu_input_0", "net_dense0_relu_output_0"},
            id="everything",
        ),
    ],
)
def test_what_collections_save(settings: dict[str, Any], names: set[str], others: set[str], tmp_path: Path) -> None:
    hook = smd.Hook(str(tmp_path / "run"), save_config=smd.SaveConfig(save_interval=2), **settings)
    training = Training()
    hook.register_block(training.net)
    hook.register_block(training.loss)
    for _ in range(STEPS):
        training.step()
    hook.close()
    found = saved(tmp_path / "run")
    check(found, training.seen, names, {0, 2, 4})
    assert set(found) == names | others


def test_the_training_is_the_same_with_and_without() -> None:
    bare = Training()
    for _ in range(STEPS):
        bare.step()
    for is_hybrid in (False, True):
        other = Training(is_hybrid=is_hybrid)
        for _ in range(STEPS):
            other.step()
        for name, value in bare.seen[-1].items():
            np.testing.assert_allclose(other.seen[-1][name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_hybrid", [False, True], ids=["imperative", "hybridized"])
def test_a_training_is_not_changed(is_hybrid: bool, tmp_path: Path) -> None:
    bare = Training(is_hybrid=is_hybrid)
    for _ in range(STEPS):
        bare.step()
    hook = smd.Hook(str(tmp_path / "run"), save_config=smd.SaveConfig(save_interval=1), save_all=True)
    watched = Training(is_hybrid=is_hybrid)
    hook.register_block(watched.net)
    hook.register_block(watched.loss)
    for _ in range(STEPS):
        watched.step()
    hook.close()
    for name, value in bare.seen[-1].items():
        np.testing.assert_array_equal(watched.seen[-1][name], value)
    check(saved(tmp_path / "run"), watched.seen, LOSS | WEIGHTS | BIASES | GRADIENTS | OUTER, set(range(STEPS)))


def test_modes_have_schedules_of_their_own(tmp_path: Path) -> None:
    config = smd.SaveConfig(
        {smd.modes.TRAIN: smd.SaveConfigMode(save_interval=2), smd.modes.EVAL: smd.SaveConfigMode(save_interval=1)}
    )
    hook = smd.Hook(str(tmp_path / "run"), save_config=config, include_collections=["weights"])
    training = Training()
    hook.register_block(training.net)
    hook.register_block(training.loss)
    hook.set_mode(smd.modes.TRAIN)
    for _ in range(4):
        training.step()
    hook.set_mode(smd.modes.EVAL)
    for _ in range(2):
        training.evaluate()
    assert hook.mode is smd.modes.EVAL
    hook.close()
    trial = create_trial(str(tmp_path / "run"))
    (loss,) = LOSS
    assert trial.tensor(loss).steps(mode=smd.modes.TRAIN) == [0, 2]
    assert trial.tensor(loss).steps(mode=smd.modes.EVAL) == [0, 1]
    check(saved(tmp_path / "run"), training.seen, LOSS | WEIGHTS, {0, 2, 4, 5})


def test_a_collection_of_a_block_with_reductions(tmp_path: Path) -> None:
    training = Training()
    hook = smd.Hook(str(tmp_path / "run"), include_collections=["custom"])
    custom: Any = hook.get_collection("custom")
    custom.save_config = smd.SaveConfig(save_interval=3)
    custom.reduction_config = smd.ReductionConfig(reductions=["min"], abs_reductions=["max"], norms=["l2"])
    custom.add_block_tensors(training.net[0], inputs=True, outputs=True)
    hook.register_block(training.net)
    for _ in range(STEPS):
        training.step()
    hook.close()
    trial = create_trial(str(tmp_path / "run"))
    assert {*trial.tensor_names(collection="custom")} == {"net_dense0_input_0", "net_dense0_output_0"}
    tensor = trial.tensor("net_dense0_input_0")
    assert tensor.steps() == [0, 3]
    inputs = training.seen[3]["net_input_0"]
    assert tensor.reduction_value(3, "min") == pytest.approx(inputs.min())
    assert tensor.reduction_value(3, "max", abs=True) == pytest.approx(np.abs(inputs).max())
    assert tensor.reduction_value(3, "l2") == pytest.approx(np.linalg.norm(inputs), rel=1e-5)


def test_a_block_that_is_called_twice_numbers_its_outputs(tmp_path: Path) -> None:
    training = Training()
    hook = smd.Hook(str(tmp_path / "run"), save_config=smd.SaveConfig(save_interval=1))
    hook.register_block(training.net)
    hook.register_block(training.loss)
    for _ in range(2):
        outputs = training.net(nd.array(training.rows))
        for _ in range(2):
            training.loss(outputs, nd.array(training.answers))
    hook.close()
    steps = {name: set(by_step) for name, by_step in saved(tmp_path / "run").items()}
    assert steps == {f"softmaxcrossentropyloss0_output_{k}": {0, 1} for k in (0, 1)}


def test_values_of_the_script(tmp_path: Path) -> None:
    training = Training()
    hook = smd.Hook(str(tmp_path / "run"), save_config=smd.SaveConfig(save_interval=1))
    hook.register_block(training.net)
    for k in range(3):
        training.step()
        hook.save_tensor("mine", nd.array([1, 2, k]))
        hook.save_scalar("accuracy", k)
    hook.close()
    found = saved(tmp_path / "run")
    assert {name: sorted(by_step) for name, by_step in found.items()} == {
        "mine": [0, 1, 2],
        "scalar/accuracy": [0, 1, 2],
    }
    assert found["mine"][2].tolist() == [1, 2, 2]


def test_under_trackside_run_losses_are_in_the_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    training = Training()
    hook = smd.Hook(str(tmp_path / "elsewhere"), save_config=smd.SaveConfig(save_interval=100))
    hook.register_block(training.net)
    hook.register_block(training.loss)
    for _ in range(STEPS):
        training.step()
    hook.close()
    values = trackside.open_trial(str(tmp_path / "run")).tensor("loss_output_0").statistic("mean").values
    assert list(values) == pytest.approx([float(each[min(LOSS)].mean()) for each in training.seen], rel=1e-5)


@pytest.mark.parametrize(
    ("what", "level"), [(lambda training: "no block", logging.ERROR), (lambda training: training.net, logging.WARNING)]
)
def test_what_cannot_be_registered_is_logged(
    what: Any, level: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    training = Training()
    hook = smd.Hook(str(tmp_path / "run"))
    hook.register_block(training.net)
    hook.register_hook(what(training))
    assert [record.levelno for record in caplog.records] == [level]


def test_the_hook_of_a_process(tmp_path: Path) -> None:
    assert smd.get_hook() is None
    hook = smd.Hook(str(tmp_path / "run"))
    assert smd.get_hook() is hook
    smd.del_hook()
    assert smd.get_hook() is None


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda name: name)
def test_every_name_can_be_imported(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def test_another_instance_goes_on_where_the_checkpoints_were_made(
    tmp_path: Path, checkpoints: Path, states: Callable[[], list[dict[str, Any]]]
) -> None:
    """As the original's spot training: the folder of checkpoints comes to the new instance, and no tensors."""

    def trained(folder: str) -> Any:
        hook = smd.Hook(str(tmp_path / folder), save_config=smd.SaveConfig(save_interval=2))
        before = hook.step, hook.init_step, hook.training_run, hook.last_saved_step
        training = Training()
        hook.register_block(training.net)
        hook.register_block(training.loss)
        for step in range(6):
            training.step()
            if step == 3 and folder == "first":
                training.net.save_parameters(str(checkpoints / "net.params"))
        hook.close()
        smd.del_hook()
        return before

    assert trained("first") == (-1, -1, 0, None)
    assert [state["latest-mode-step"] for state in states()] == [{"TRAIN": 3, "GLOBAL": 3}]
    assert [state["latest-global-step-saved"] for state in states()] == [2]
    assert trained("second") == (3, 3, 1, 2)
    assert create_trial(str(tmp_path / "second")).steps() == [4, 6, 8]
