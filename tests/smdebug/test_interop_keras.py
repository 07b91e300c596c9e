"""A run of Keras is read by the real smdebug 1.0.34: names in its form, collections, modes, values."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import smdebug.trials
from smdebug import modes

from tests.smdebug.test_interop_capture import plain
from trackside.contracts.run_layout import TENSORS
from trackside.environment import inherited

QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("loss_output_0", "steps", {}),
    ("loss_output_0", "value", {"step_num": 1}),
    ("dense/weights/dense/kernel:0", "steps", {}),
    ("dense/weights/dense/kernel:0", "value", {"step_num": 2}),
    ("dense/biases/dense/bias:0", "value", {"step_num": 2}),
    ("gradient/dense/weights/dense/kernel:0", "value", {"step_num": 2}),
    ("dense/outputs", "shape", {"step_num": 0}),
    ("labels", "value", {"step_num": 0}),
    ("accuracy", "value", {"step_num": 1}),
    ("val_accuracy", "value", {"step_num": 3}),
]
MEMBERS = {
    "losses": {"loss_output_0"},
    "weights": {"dense/weights/dense/kernel:0"},
    "biases": {"dense/biases/dense/bias:0"},
    "gradients": {"gradient/dense/weights/dense/kernel:0", "gradient/dense/biases/dense/bias:0"},
    "labels": {"labels"},
    "predictions": {"predictions"},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keras") / "run"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.smdebug.keras_run", str(folder)],
        cwd=Path(__file__).parents[2],
        env=dict(inherited()),
        check=True,
        timeout=300,
    )
    return folder / TENSORS


def test_the_real_package_reads_it_as_ours_does(
    run: Path, peer: Callable[[str, dict[str, Any]], dict[str, Any]]
) -> None:
    theirs = peer("answers", {"folder": str(run), "questions": QUESTIONS})
    trial = smdebug.trials.create_trial(str(run))
    for (name, method, arguments), answer in zip(QUESTIONS, theirs["answers"], strict=True):
        assert plain(getattr(trial.tensor(name), method)(**arguments)) == answer, (name, method)
    for name, members in MEMBERS.items():
        assert set(theirs["documents"][name]["tensor_names"]) == members, name


def test_its_modes_are_those_of_the_loops(run: Path) -> None:
    trial = smdebug.trials.create_trial(str(run))
    assert trial.steps(mode=modes.TRAIN) == [0, 1, 2]
    assert trial.steps(mode=modes.EVAL) == [0]
    assert trial.steps(mode=modes.PREDICT) == [0]
    kernel = trial.tensor("dense/weights/dense/kernel:0")
    assert kernel.steps(mode=modes.TRAIN) == [0, 1, 2]
    assert np.asarray(kernel.value(0, mode=modes.TRAIN)).shape == (4, 3)
