"""`trackside.JaxRun`, in JAX with flax and optax. `make frameworks` runs it."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.patience import HANGS_SECONDS
from trackside import open_trial
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.verdict import Outcome, Verdict
from trackside.environment import inherited
from trackside.testing.adapter_contract import AdapterContract, Training

jax = pytest.importorskip("jax", reason="in the environment that `make frameworks` builds")

from trackside.adapters.jax.run import JaxRun, OnDevice, leaves  # noqa: E402 - it imports jax

ROOT = Path(__file__).parents[4]


def loss_of(weights: Any, inputs: Any, targets: Any) -> Any:
    return jax.numpy.mean((inputs @ weights["fc"]["weight"].T - targets) ** 2)


def update(weights: Any, inputs: Any, targets: Any, rate: float) -> Any:
    loss, gradients = jax.value_and_grad(loss_of)(weights, inputs, targets)
    updates = jax.tree_util.tree_map(lambda gradient: -rate * gradient, gradients)
    return loss, gradients, updates, jax.tree_util.tree_map(jax.numpy.add, weights, updates)


step = jax.jit(update)


class TestJaxRun(AdapterContract):
    """A loop with a compiled step, which gives its buffers away."""

    def train(self, training: Training, run: str, request: CaptureRequest) -> NDArray[np.float64]:
        watched = JaxRun(run, save=request) if run else None
        weights = {"fc": {"weight": jax.numpy.asarray(training.weight, jax.numpy.float32)}}
        for number, (inputs, targets) in enumerate(zip(training.inputs, training.targets, strict=True)):
            loss, gradients, updates, new = step(weights, inputs, targets, training.learning_rate)
            if watched is not None:
                watched.loss(loss, "MSELoss")
                watched.parameters(weights, gradients, updates=updates, learning_rate=training.learning_rate)
                watched.step()
            weights["fc"]["weight"].delete()  # as donated buffers are
            weights = new
            if number in training.evaluated_after and watched is not None:
                watched.set_mode("EVAL")
                watched.loss(loss_of(weights, inputs, targets), "MSELoss")
                watched.step()
                watched.set_mode("TRAIN")
        if watched is not None:
            watched.close()
        return np.asarray(weights["fc"]["weight"], np.float64)


def test_gradients_are_due_at_few_steps_and_losses_at_every_one(tmp_path: Path) -> None:
    weights = {"w": jax.numpy.ones((4, 4))}
    due = []
    with JaxRun(str(tmp_path), save={"gradients": 50}) as run:
        for number in range(200):
            due.append(run.is_due)
            run.parameters(weights, weights)
            run.loss(jax.numpy.float32(number))
            run.step()
    assert due[0]
    assert due[50]
    trial = open_trial(str(tmp_path))
    assert trial.steps() == (0, 50, 100, 150)
    (column,) = trial.columns("loss_output_0", "mean", last_step=10**9, mode="TRAIN")
    assert column.values.tolist() == list(range(200))


def test_a_loss_is_not_waited_for() -> None:
    value = OnDevice(jax.numpy.arange(3.0).sum())
    assert value.get().tolist() == [3.0]
    assert value.is_here()
    assert OnDevice(2.5).is_here()


def test_names_are_paths_and_values_are_copies() -> None:
    from flax import nnx

    state = nnx.split(nnx.Linear(3, 2, rngs=nnx.Rngs(0)))[1]
    assert set(leaves(state)) == {"kernel", "bias"}
    tree = {"a": [np.ones(2), np.zeros(3)]}
    found = leaves(tree)
    assert set(found) == {"a.0", "a.1"}
    assert not np.shares_memory(found["a.0"], tree["a"][0])
    assert leaves(None) == {}


def test_a_call_inside_of_a_compiled_function_is_logged_and_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = JaxRun(str(tmp_path / "run"))

    def doubled(value: Any) -> Any:
        run.loss(value)
        run.parameters({"w": value}, {"w": value})
        return 2 * value

    with caplog.at_level(logging.WARNING):
        assert jax.jit(doubled)(3.0) == 6.0
    run.close()
    assert len([r for r in caplog.records if "inside of a function that JAX compiles" in r.getMessage()]) == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("fault", "rules"), [("none", set()), ("vanishing", {"vanishing-gradient", "loss-not-decreasing"})]
)
def test_the_example_on_real_data(fault: str, rules: set[str], tmp_path: Path) -> None:
    pytest.importorskip("flax")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "trackside",
            "run",
            "--",
            sys.executable,
            ROOT / "examples/jax/train.py",
            "--fault",
            fault,
        ],
        cwd=tmp_path,
        env=inherited(),
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert "% of the test" in done.stdout, done.stdout + done.stderr
    (verdicts,) = (tmp_path / ".trackside" / "runs").glob("*/rule-output/verdicts.jsonl")
    found = [Verdict.from_json(line) for line in verdicts.read_text("utf-8").splitlines()]
    issues = {one.rule_id for one in found if one.outcome is Outcome.ISSUE_FOUND}
    assert issues <= rules
    assert bool(issues) is bool(rules)
