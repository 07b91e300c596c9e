"""`trackside.Run`: the adapter of no framework."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import trackside
from trackside.contracts.capture_request import CaptureRequest
from trackside.contracts.errors import ConfigurationError
from trackside.frameworks.plain.run import Run
from trackside.testing.adapter_contract import REQUEST, AdapterContract, Training, training


class TestPlainAdapter(AdapterContract):
    """A loop of NumPy."""

    tolerance = 1e-12

    def train(self, training: Training, run: str, request: CaptureRequest) -> NDArray[np.float64]:
        watched = Run(run, save=request) if run else None
        weight = training.weight
        for step, (inputs, targets) in enumerate(zip(training.inputs, training.targets, strict=True)):
            error = inputs @ weight.T - targets
            gradient = 2 * error.T @ inputs / error.size
            update = -training.learning_rate * gradient
            if watched is not None:
                watched.loss(np.mean(error**2), "MSELoss")
                watched.parameters(
                    {"fc.weight": weight},
                    {"fc.weight": gradient},
                    updates={"fc.weight": update},
                    learning_rate=training.learning_rate,
                )
                watched.step()
            weight = weight + update
            if step in training.evaluated_after and watched is not None:
                watched.set_mode("EVAL")
                watched.loss(np.mean((inputs @ weight.T - targets) ** 2), "MSELoss")
                watched.step()
                watched.set_mode("TRAIN")
        if watched is not None:
            watched.close()
        return weight


def test_values_of_the_program(tmp_path: Path) -> None:
    with trackside.Run(str(tmp_path), save={"losses": 1}) as run:
        for step in range(3):
            run.scalar("temperature", step / 2)
            run.tensor("mine", [float(step)] * 2, collection="own")
            run.loss(step, "mse")
            run.step()
    trial = trackside.open_trial(str(tmp_path))
    assert [trial.value("scalar/temperature", step=s, worker="worker_0").item() for s in range(3)] == [0, 0.5, 1]
    assert [trial.value("mine", step=s, worker="worker_0").tolist() for s in range(3)] == [[0, 0], [1, 1], [2, 2]]
    assert trial.tensor_names(collection="losses") == ("mse_loss_output_0",)
    assert trial.tensor_names(collection="own") == ("mine",)


def test_names_say_what_is_a_weight(tmp_path: Path) -> None:
    with trackside.Run(str(tmp_path), save={"weights": 1, "gradients": 1, "biases": 1}) as run:
        run.parameters({"w1": np.ones(3), "b1_bias": np.ones(1)}, {"w1": np.zeros(3), "b1_bias": np.ones(1)})
        run.step()
    trial = trackside.open_trial(str(tmp_path))
    assert trial.tensor_names(collection="weights") == ("w1.weight",)
    assert trial.tensor_names(collection="biases") == ("b1_bias",)
    assert trial.tensor_names(collection="gradients") == ("gradient/b1_bias", "gradient/w1.weight")


def test_updates_are_compared_with_weights(tmp_path: Path) -> None:
    with trackside.Run(str(tmp_path)) as run:
        run.parameters({"w": np.full(4, 2.0)}, {"w": np.ones(4)}, updates={"w": np.full(4, 0.5)}, learning_rate=0.5)
        run.step()
        run.parameters({"w": np.full(4, 2.0)}, {"w": np.ones(4)})
        run.step()
    trial = trackside.open_trial(str(tmp_path))
    (column,) = trial.columns("w.weight", "update_ratio", last_step=9, mode="TRAIN")
    assert (column.steps.tolist(), column.values.tolist()) == ([0], [0.25])
    (rates,) = trial.columns("hyperparameters/optimizer/group_0/lr", "mean", last_step=9, mode="TRAIN")
    assert (rates.steps.tolist(), rates.values.tolist()) == ([0], [0.5])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param(lambda run: run.loss("much"), "could not convert", id="no number"),
        pytest.param(lambda run: run.tensor("odd", [[1], [2, 3]]), "odd cannot be saved, as a list", id="no array"),
        pytest.param(lambda run: run.tensor("odd", object()), "odd cannot be saved, as a object", id="an object"),
        pytest.param(lambda run: run.parameters({"w": "x"}, {"w": "x"}), "could not convert", id="no gradient"),
    ],
)
def test_a_wrong_value_is_logged_and_the_program_goes_on(
    call: Any, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), trackside.Run(str(tmp_path)) as run:
        call(run)
        call(run)
        run.step()
    assert len([record for record in caplog.records if said in record.getMessage()]) == 1


def test_a_wrong_argument_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"run: is missing|whole number"):
        trackside.Run(save={"losses": 0})
    with trackside.Run(str(tmp_path)) as run, pytest.raises(ValueError, match="SLEEP"):
        run.set_mode("sleep")
    assert not list(tmp_path.iterdir())


def test_the_run_of_the_environment_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "told"))
    monkeypatch.setenv("TRACKSIDE_CAPTURE_REQUEST", json.dumps({"collections": [{"name": "weights"}]}))
    with trackside.Run(str(tmp_path / "own"), save={"gradients": 1}) as run:
        run.parameters({"w": np.ones(2)}, {"w": np.ones(2)})
        run.step()
    assert not (tmp_path / "own").exists()
    trial = trackside.open_trial(str(tmp_path / "told"))
    assert trial.parts.steps.collections_at(0) >= {"weights", "gradients"}


def test_it_takes_the_place_of_an_adapter_that_attached_itself(tmp_path: Path) -> None:
    script = tmp_path / "both.py"
    script.write_text(
        "import torch, trackside\n"
        "model = torch.nn.Linear(1, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "with trackside.Run() as run:\n"
        "    for step in range(3):\n"
        "        loss = model(torch.ones(1, 1)).sum()\n"
        "        loss.backward()\n"
        "        run.loss(loss.item(), 'mine')\n"
        "        optimizer.step()\n"
        "        run.step()\n"
    )
    folder = tmp_path / "run"
    environment = {"TRACKSIDE_RUN": str(folder), "PATH": "", "TRACKSIDE_CAPTURE_REQUEST": REQUEST.to_json()}
    subprocess.run([sys.executable, str(script)], env=environment, check=True, cwd=tmp_path)
    trial = trackside.open_trial(str(folder))
    assert trial.steps() == (0, 1, 2)
    assert trial.tensor_names(collection="losses") == ("mine_loss_output_0",)


def test_a_forked_child_records_nothing(tmp_path: Path) -> None:
    script = tmp_path / "fork.py"
    script.write_text(
        "import os, trackside\n"
        "run = trackside.Run('run', save={'losses': 1})\n"
        "run.loss(1.0); run.step()\n"
        "child = os.fork()\n"
        "run.loss(2.0); run.step()\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n"
        "run.close()\n"
    )
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path)
    trial = trackside.open_trial(str(tmp_path / "run"))
    assert trial.steps() == (0, 1)


def test_a_training_ends_by_itself_with_its_process(tmp_path: Path) -> None:
    script = tmp_path / "end.py"
    script.write_text("import trackside\nrun = trackside.Run('run', save={'losses': 1})\nrun.loss(1.0)\nrun.step()\n")
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path)
    assert trackside.open_trial(str(tmp_path / "run")).has_ended


def test_the_contract_computes_a_training_that_learns() -> None:
    losses = [expected.loss for expected in training(20).expected()]
    assert losses[-1] < losses[0] / 2


def train(folder: str, *, steps: int, closes: bool) -> None:
    """Train as a cell of a notebook does; one that does not close is interrupted, and keeps no name for its run."""
    run = trackside.Run(folder, save={"losses": 1})
    for step in range(steps):
        run.loss(1 / (1 + step))
        run.step()
    if closes:
        run.close()


@pytest.mark.parametrize("closes", [pytest.param(True, id="closed"), pytest.param(False, id="interrupted")])
def test_a_cell_that_is_run_again_is_a_new_run(tmp_path: Path, closes: bool, caplog: pytest.LogCaptureFixture) -> None:
    # Issue 41: an interrupted training lost its steps to the next one, and after a closed one nothing was captured.
    for steps in (2, 3, 5):
        train(str(tmp_path / "run"), steps=steps, closes=closes)
    train(str(tmp_path / "run"), steps=0, closes=True)  # ends the third
    found = {place.name: trackside.open_trial(str(place)) for place in tmp_path.iterdir()}
    losses = {name: len(one.tensor("loss_output_0").statistic("mean").values) for name, one in found.items()}
    assert losses == {"run": 2, "run-2": 3, "run-3": 5}
    assert all(one.has_ended for one in found.values())
    assert "this one lies in" in caplog.text
    assert "switched off" not in caplog.text


def test_a_run_without_a_value_leaves_its_address_to_the_next(tmp_path: Path) -> None:
    train(str(tmp_path / "run"), steps=0, closes=False)
    train(str(tmp_path / "run"), steps=2, closes=True)
    assert [place.name for place in tmp_path.iterdir()] == ["run"]


def test_where_the_environment_names_the_run_a_second_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKSIDE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("TRACKSIDE_ENDED_BY", "trackside-run")
    for _ in range(2):
        train(str(tmp_path / "other"), steps=3, closes=True)
    assert [place.name for place in tmp_path.iterdir()] == ["run"]
    assert len(trackside.open_trial(str(tmp_path / "run")).tensor("loss_output_0").statistic("mean").values) == 6
