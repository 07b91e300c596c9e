"""Steps that are no plain call of an optimizer of PyTorch: left out by a scaler, made by Keras, or by hand."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.optimizer import Optimizer

from tests.training_lib.rescue.trainings import AT, STEPS, Training, rescued
from trackside.contracts.run.rescue import RescueRecord, RescueState
from trackside.environment import inherited
from trackside.rescue.members import Members

_KERAS = """
import json, math, sys
import keras
import numpy as np
import torch

kind, folder = sys.argv[1:]
keras.utils.set_random_seed(0)
net = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
net.compile(keras.optimizers.Adam(0.01), "mse")
passes = 0

def broken(module, _inputs, output):
    global passes
    passes += module.training
    return output * math.nan if kind == "broken" and passes == 200 else output

net.layers[0].register_forward_hook(broken)
rows = np.random.default_rng(0).normal(size=(1600, 8)).astype("float32")
targets = rows @ np.arange(8, dtype="float32")[:, None]
net.fit(rows, targets, batch_size=16, epochs=3, verbose=0)
weights = [float(v) for each in net.weights for v in np.asarray(each.value.detach()).ravel()]
with open(f"{folder}/end.json", "w") as file:
    json.dump({"weights": weights, "loss": net.evaluate(rows, targets, verbose=0)}, file)
"""


def _scaled(training: Training, *, tears: bool, breaks: bool = False) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for step in range(STEPS):
        if tears and step == AT:
            training.net[3].weight.data[0, 3] = math.inf
        rows = torch.randn(32, 8) * (math.nan if breaks and step == AT else 1)
        loss = (training.net(rows) - training.target(rows).detach()).square().mean()
        training.optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(training.optimizer)
        scaler.update()
        training.losses.append(loss.item())


def test_a_scaler_that_would_leave_out_all_steps_does_not_end_a_training(tmp_path: Path) -> None:
    with rescued(tmp_path) as record:
        training = Training(draws=False)
        _scaled(training, tears=True)
        found = record()
    assert found is not None
    assert found.is_rescued, found
    assert math.isfinite(training.last_loss)


def test_one_step_that_a_scaler_leaves_out_is_no_fault(tmp_path: Path) -> None:
    with rescued(tmp_path) as record:
        _scaled(Training(draws=False), tears=False, breaks=True)
        assert record() is None


def test_steps_by_hand_are_refused(tmp_path: Path) -> None:
    with rescued(tmp_path) as record:
        net = nn.Linear(8, 1)
        for _ in range(STEPS):
            net.zero_grad()
            net(torch.randn(32, 8)).square().mean().backward()
            with torch.no_grad():
                for each in net.parameters():
                    each.sub_(0.01 * each.grad if each.grad is not None else 0)
        found = record()
    assert found is not None
    assert (found.state, found.reason) == (
        RescueState.REFUSED,
        "its steps are made by no optimizer of PyTorch or Keras",
    )


class _Wrapper(Optimizer):
    """Another name of an optimizer, such as accelerate and Lightning hand their users."""

    def __init__(self, inner: Optimizer) -> None:
        self.state, self.param_groups, self.defaults = inner.state, inner.param_groups, inner.defaults


def test_another_name_of_an_optimizer_is_not_kept_twice() -> None:
    training, second = Training(), Training(seed=1)
    wrapper = _Wrapper(training.optimizer)
    beside = torch.optim.SGD(training.net.parameters(), lr=0.1)  # of the same weights, with a state of its own
    members = Members()
    members.stepped(training.optimizer)
    members.look()
    assert set(members.optimizers()) == {training.optimizer, beside}
    assert not {wrapper, second.optimizer} & set(members.optimizers())


@pytest.mark.parametrize("kind", ["broken", "sound"])
def test_keras_on_pytorch(kind: str, tmp_path: Path) -> None:
    ends = []
    for is_rescued in (False, True):
        folder = tmp_path / str(is_rescued)
        folder.mkdir()
        variables = {"TRACKSIDE_RUN": str(folder / "run"), "TRACKSIDE_RESCUE": "1"} if is_rescued else {}
        subprocess.run(
            [sys.executable, "-c", _KERAS, kind, str(folder)],
            env={**inherited(), **variables, "KERAS_BACKEND": "torch"},
            check=True,
        )
        ends.append(json.loads((folder / "end.json").read_text()))
    path = tmp_path / "True" / "run" / "rescue" / "worker_0.json"
    if kind == "sound":
        assert ends[0] == ends[1]
        assert not path.exists()
    else:
        assert not math.isfinite(ends[0]["loss"])
        assert math.isfinite(ends[1]["loss"])
        assert RescueRecord.from_json(path.read_bytes()).is_rescued
