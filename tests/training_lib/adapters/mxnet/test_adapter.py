"""MXNet's Gluon, against its own values, and the same training without us. `make mxnet` runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.training_lib.frameworks.captured_script import curve, opened, printed
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.rule_request import RuleConfiguration
from trackside.evaluation.backtest import backtest

pytest.importorskip("mxnet", reason="in the environment that `make mxnet` builds")

REQUEST = CaptureRequest(
    (CollectionRequest("weights", Schedule(4)), CollectionRequest("gradients", Schedule(4))),
    statistics=StatisticsRequest(budget=1.0),
)
SCRIPT = """
import json
import mxnet as mx, numpy as np
from mxnet import autograd, gluon, nd

mx.random.seed(0)
random = np.random.default_rng(0)
rows = random.normal(size=(600, 10)).astype("float32")
answers = (rows[:, 0] + rows[:, 1] > 0).astype("float32")
net = gluon.nn.HybridSequential(prefix="net_")
with net.name_scope():
    for _ in range({depth}):
        net.add(gluon.nn.Dense(16, activation="{activation}"))
    net.add(gluon.nn.Dense(2))
net.initialize(mx.init.Xavier())
{more}
loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
trainer = gluon.Trainer(net.collect_params(), "sgd", {{"learning_rate": {rate}, "momentum": 0.9}})
losses, gradients = [], []
for number in range({steps}):
    part = random.integers(0, 600, 50)
    with autograd.record():
        loss = loss_of(net(nd.array(rows[part])), nd.array(answers[part]))
    {backward}
    trainer.step(50)
    losses.append(float(loss.mean().asscalar()))
    gradients.append((net[0].weight.grad().asnumpy() / 50).tolist())
values = [each.data().asnumpy().tobytes().hex() for each in net.collect_params().values()]
print(json.dumps([losses, gradients, values]))
"""


def script(*, depth: int = 2, activation: str = "relu", rate: float = 0.05, steps: int = 12, **more: str) -> str:
    chosen = {"more": "", "backward": "loss.backward()", **more}
    return SCRIPT.format(depth=depth, activation=activation, rate=rate, steps=steps, **chosen)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="imperative"),
        pytest.param({"more": "net.hybridize()"}, id="hybridized"),
        pytest.param({"more": "net.hybridize(static_alloc=True, static_shape=True)"}, id="static"),
        pytest.param({"backward": "autograd.backward([loss])"}, id="list-of-losses"),
    ],
)
def test_saves_what_mxnet_computes_and_changes_nothing(more: dict[str, str], tmp_path: Path) -> None:
    text = script(**more)
    bare, _ = printed(text)
    captured, logged = printed(text, tmp_path / "run", REQUEST)
    assert captured == bare
    assert "trackside" not in logged
    losses, gradients, _ = json.loads(captured)
    trial = opened(tmp_path / "run")
    assert trial.has_ended
    assert trial.steps() == (0, 4, 8)
    assert curve(trial, "loss", "TRAIN") == pytest.approx(losses, rel=1e-6)
    for step in trial.steps():
        found = trial.value("gradient/net_dense0_weight", step=step, worker=trial.workers[0])
        assert np.allclose(found, gradients[step], rtol=1e-6)
    weights = [trial.value("net_dense0_weight", step=s, worker=trial.workers[0]) for s in trial.steps()]
    assert not np.array_equal(weights[0], weights[1])


def test_evaluations_and_gradients_of_other_functions_are_no_steps(tmp_path: Path) -> None:
    more = (
        "x = nd.ones(3); x.attach_grad()\n"
        "with autograd.record(): y = x * x\n"
        "y.backward(nd.ones(3))\n"
        "net(nd.array(rows))"
    )
    printed(script(more=more), tmp_path / "run", REQUEST)
    assert len(curve(opened(tmp_path / "run"), "loss", "TRAIN")) == 12


@pytest.mark.parametrize(
    ("settings", "rule", "is_found"),
    [
        pytest.param({"depth": 12, "activation": "sigmoid"}, "vanishing-gradient", True, id="sigmoids"),
        pytest.param({}, "vanishing-gradient", False, id="relus"),
        pytest.param({"rate": 1e-9}, "loss-not-decreasing", True, id="rate-0"),
        pytest.param({}, "loss-not-decreasing", False, id="learns"),
    ],
)
def test_rules_judge_it(settings: dict[str, object], rule: str, is_found: bool, tmp_path: Path) -> None:
    printed(script(steps=600, **settings), tmp_path / "run", REQUEST)  # type: ignore[arg-type] # of several types
    found = backtest(str(tmp_path / "run"), [RuleConfiguration(rule)], clock=lambda: 0.0)
    assert bool(found.issues) == is_found


@pytest.mark.parametrize("run", ["ftp://host/run", "{file}/run"])
def test_a_run_that_cannot_be_stored_costs_the_training_nothing(run: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    captured, logged = printed(script(), run.format(file=tmp_path / "file"), REQUEST)  # type: ignore[arg-type]
    assert captured == printed(script())[0]
    assert "trackside: " in logged
