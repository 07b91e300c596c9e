"""A run of each framework is read by the real smdebug 1.0.34 as by ours, and its run of XGBoost by ours.

Where a framework is not installed its run is skipped: `.ci/keras_backends examples`, `make frameworks` and `make mxnet`
have the others.
docs/frameworks.md has the table.
"""

from __future__ import annotations

import base64
import importlib.util
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from docs.framework_tables import INTEROP
from tests.training_lib.frameworks.captured_script import opened, printed
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run_layout import TENSORS
from trackside.evaluation.backtest import backtest
from trackside.trial.trial import Trial

Peer = Callable[[str, dict[str, Any]], dict[str, Any]]

COLLECTIONS = (
    "losses", "metrics", "weights", "biases", "gradients", "hyperparameters", "feature_importance", "labels", "outputs",
)  # fmt: skip
MORE = ("all", "trees", "predictions", "average_shap", "full_shap")
REQUEST = CaptureRequest(
    tuple(CollectionRequest(name, Schedule(2)) for name in COLLECTIONS), statistics=StatisticsRequest(budget=1.0)
)

DATA = """
import numpy as np
random = np.random.default_rng(0)
rows = random.normal(size=(64, 4)).astype("float32")
answers = (rows[:, 0] + rows[:, 1] > 0).astype("int64")
"""
KERAS = """
import keras
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, name="scores")])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
model.fit(rows, answers, batch_size=16, verbose=0, shuffle=False, validation_data=(rows[:16], answers[:16]))
"""
KERNEL = {
    "scores/weights/scores/kernel:0",
    "gradient/scores/weights/scores/kernel:0",
    "loss_output_0",
    "scores/outputs",
}


class Written(NamedTuple):
    """A script, the packages that it needs, some tensors of its run, and the backend of Keras."""

    script: str
    needs: tuple[str, ...]
    tensors: set[str]
    backend: str = ""


RUNS = {
    "PyTorch": Written(
        "import torch\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(4, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for k in range(4):\n"
        "    part = slice(16 * k, 16 * k + 16)\n"
        "    loss = torch.nn.CrossEntropyLoss()(model(torch.from_numpy(rows[part])), torch.from_numpy(answers[part]))\n"
        "    optimizer.zero_grad(); loss.backward(); optimizer.step()\n",
        ("torch",),
        {"CrossEntropyLoss_output_0", "Linear_weight", "gradient/Linear_weight"},
    ),
    "XGBoost 3": Written(
        "import xgboost\ndata = xgboost.DMatrix(rows, answers)\n"
        "xgboost.train({'objective': 'binary:logistic', 'nthread': 1}, data, 4, evals=[(data, 'train')],"
        " verbose_eval=False)\n",
        ("xgboost",),
        {"train-logloss", "logloss_output_0", "feature_importance/gain/f0"},
    ),
    "LightGBM": Written(
        "import lightgbm\ndata = lightgbm.Dataset(rows, answers)\n"
        "lightgbm.train({'objective': 'binary', 'verbose': -1, 'num_threads': 1, 'min_data_in_leaf': 2}, data, 4,"
        " valid_sets=[data], valid_names=['train'])\n",
        ("lightgbm",),
        {"train-binary_logloss", "binary_logloss_output_0"},
    ),
    "CatBoost": Written(
        "import catboost\n"
        "catboost.CatBoostClassifier(iterations=4, verbose=False, allow_writing_files=False, thread_count=1)"
        ".fit(rows, answers)\n",
        ("catboost",),
        {"Logloss_output_0"},
    ),
    "scikit-learn": Written(
        "from sklearn.neural_network import MLPClassifier\n"
        "MLPClassifier(max_iter=4, random_state=0).fit(rows, answers)\n",
        ("sklearn",),
        set(),
    ),
    "Keras on PyTorch": Written(KERAS, ("keras", "torch"), KERNEL, "torch"),
    "Keras on TensorFlow": Written(KERAS, ("keras", "tensorflow"), KERNEL, "tensorflow"),
    "Keras on JAX": Written(KERAS, ("keras", "jax"), KERNEL, "jax"),
    "MXNet": Written(
        "import mxnet as mx\nfrom mxnet import autograd, gluon, nd\nmx.random.seed(0)\n"
        "net = gluon.nn.Dense(2, prefix='net_')\nnet.initialize()\n"
        "trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})\n"
        "for k in range(4):\n"
        "    part = slice(16 * k, 16 * k + 16)\n"
        "    with autograd.record():\n"
        "        loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(nd.array(rows[part])), nd.array(answers[part]))\n"
        "    loss.backward()\n    trainer.step(16)\n",
        ("mxnet",),
        {"loss_output_0", "net_weight", "gradient/net_weight"},
    ),
    "MXNet with smdebug's hook": Written(
        "import mxnet as mx, smdebug.mxnet as smd\nfrom mxnet import autograd, gluon, nd\nmx.random.seed(0)\n"
        "net = gluon.nn.Dense(2, prefix='net_')\nnet.initialize()\n"
        "hook = smd.Hook('elsewhere', save_config=smd.SaveConfig(save_interval=2), save_all=True)\n"
        "hook.register_block(net)\n"
        "trainer = gluon.Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})\n"
        "for k in range(4):\n"
        "    part = slice(16 * k, 16 * k + 16)\n"
        "    with autograd.record():\n"
        "        loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(nd.array(rows[part])), nd.array(answers[part]))\n"
        "    loss.backward()\n    trainer.step(16)\n"
        "hook.close()\n",
        ("mxnet",),
        {"net_output_0", "net_input_0", "net_weight", "gradient/net_weight"},
    ),
    "JAX": Written(
        "import os, jax, jax.numpy as jnp, trackside\n"
        "step = jax.jit(jax.value_and_grad(lambda p, x: jnp.mean((x @ p['weight']) ** 2)))\n"
        "parameters = {'weight': jnp.ones((4, 1))}\n"
        "with trackside.JaxRun(os.environ['TRACKSIDE_RUN'], save={'losses': 1, 'weights': 2, 'gradients': 2}) as run:\n"
        "    for k in range(4):\n"
        "        loss, gradients = step(parameters, rows)\n"
        "        run.parameters(parameters, gradients, learning_rate=0.1)\n"
        "        run.loss(loss)\n        run.step()\n"
        "        parameters = jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)\n",
        ("jax",),
        {"loss_output_0", "weight", "gradient/weight"},
    ),
    "any program": Written(
        "import os, trackside\n"
        "with trackside.Run(os.environ['TRACKSIDE_RUN'], save={'losses': 1, 'weights': 2, 'gradients': 2}) as run:\n"
        "    for k in range(4):\n"
        "        run.parameters({'weight': rows[:4] * k}, {'weight': rows[4:8]}, learning_rate=0.1)\n"
        "        run.loss(1.0 / (k + 1))\n        run.step()\n",
        (),
        {"loss_output_0", "weight", "gradient/weight"},
    ),
}


def _cases() -> list[Any]:
    cases = []
    for name, written in RUNS.items():
        missing = [each for each in written.needs if importlib.util.find_spec(each) is None]
        mark = pytest.mark.skipif(bool(missing), reason=f"not installed here: {', '.join(missing)}")
        cases.append(pytest.param(written, id=name, marks=[mark]))
    return cases


def test_the_page_lists_these_runs() -> None:
    assert set(INTEROP) == set(RUNS)


@pytest.mark.parametrize("written", _cases())
def test_the_original_reads_a_run_of_each_framework(
    written: Written, tmp_path: Path, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if written.backend:
        monkeypatch.setitem(os.environ, "KERAS_BACKEND", written.backend)  # noqa: TID251 - Keras has no other way in
    run = tmp_path / "run"
    printed(DATA + written.script, run, REQUEST)
    trial = opened(run)
    names = _compared(trial, run / TENSORS, peer)
    assert written.tensors <= names, names


@pytest.mark.skipif(importlib.util.find_spec("xgboost") is None, reason="once is enough")
def test_ours_reads_a_run_that_the_original_wrote_of_xgboost(tmp_path: Path, peer: Peer) -> None:
    """By smdebug 1.0.34 with XGBoost 1.7.6: `stand_ins.py xgboost_training.py`, with all collections."""
    with zipfile.ZipFile(Path(__file__).with_name("xgboost_run_of_the_original.zip")) as file:
        file.extractall(tmp_path / TENSORS)
    names = _compared(opened(tmp_path), tmp_path / TENSORS, peer)
    assert {"train-logloss", "feature_importance/gain/a", "trees/Feature", "predictions", "full_shap/c"} <= names
    for depth, is_found in (("2", True), ("3", False)):  # the script's is 3
        rule = RuleConfiguration("tree-depth", parameters={"depth": depth})
        assert bool(backtest(str(tmp_path), [rule], clock=lambda: 0.0).issues) is is_found


def _compared(trial: Trial, tensors: Path, peer: Peer) -> set[str]:
    """Hold all steps, and the values of the last one, against what the original reads. Return the names."""
    worker = trial.workers[0]
    names = {name for collection in (*COLLECTIONS, *MORE) for name in trial.tensor_names(collection=collection)}
    steps = {name: list(trial.tensor(name).steps) for name in sorted(names)}
    steps = {name: saved for name, saved in steps.items() if saved}
    assert steps
    questions: list[tuple[str, str, dict[str, Any]]] = [(name, "steps", {}) for name in steps]
    questions += [(name, "value", {"step_num": saved[-1]}) for name, saved in steps.items()]
    answers = peer("answers", {"folder": str(tensors), "questions": questions})["answers"]
    assert answers[: len(steps)] == list(steps.values())
    for (name, saved), theirs in zip(steps.items(), answers[len(steps) :], strict=True):
        ours = np.asarray(trial.value(name, step=saved[-1], worker=worker))
        assert list(ours.shape) == theirs["shape"], name
        if "texts" in theirs:
            assert [str(each) for each in ours.reshape(-1)] == theirs["texts"], name
        else:
            assert str(ours.dtype) == theirs["dtype"], name
            assert ours.tobytes() == base64.b64decode(theirs["data"]), name
    return set(steps)
