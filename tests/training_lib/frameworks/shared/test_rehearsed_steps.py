"""A rehearsal by `trackside check` ends the script after its steps, whatever framework trains. Issue 41."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.patience import HANGS_SECONDS
from tests.training_lib.frameworks.captured_script import opened
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.run.check import Outcome, ProcessReport
from trackside.contracts.run_layout import check_key, worker_name
from trackside.environment import RehearsalEnvironment, inherited

STEPS = 5
ALL_FILES = {"cleaned-up", "went-on"}
LOSSES = CaptureRequest((CollectionRequest("losses", Schedule(1)),), statistics=StatisticsRequest(budget=1.0))
ROWS = """
import numpy as np
random = np.random.default_rng(0)
rows = random.normal(size=(80, 4)).astype(np.float32)
labels = (rows[:, 0] > 0).astype(int)
"""
LIGHTGBM = """
import lightgbm
data = lightgbm.Dataset(rows, labels)
lightgbm.train({"objective": "binary", "verbose": -1}, data, COUNT, valid_sets=[data], valid_names=["training"])
"""
XGBOOST = """
import xgboost
data = xgboost.DMatrix(rows, labels)
xgboost.train({"objective": "binary:logistic"}, data, COUNT, evals=[(data, "train")], verbose_eval=False)
"""
CATBOOST = """
import catboost
catboost.CatBoostClassifier(iterations=COUNT, verbose=0, allow_writing_files=False).fit(rows, labels)
"""
NETWORK = """
from sklearn.neural_network import MLPClassifier
MLPClassifier(hidden_layer_sizes=4, max_iter=COUNT, tol=0, n_iter_no_change=COUNT).fit(rows, labels)
"""
BOOSTING = """
from sklearn.ensemble import GradientBoostingClassifier
GradientBoostingClassifier(n_estimators=COUNT, max_depth=1).fit(rows, labels)
"""
HISTOGRAMS = """
from sklearn.ensemble import HistGradientBoostingClassifier
rounds = COUNT * 10**6  # nothing ends them before the last one
HistGradientBoostingClassifier(max_iter=rounds, early_stopping=True, tol=0, n_iter_no_change=rounds).fit(rows, labels)
"""
KERAS = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
model = keras.Sequential([keras.layers.Dense(2, activation="softmax")])
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(rows, labels, epochs=-(-COUNT // 2), batch_size=40, verbose=0, validation_data=(rows, labels))
"""
OWN_LOOP = """
import trackside
weights = np.zeros(4)
with trackside.Run("own") as run:
    for _ in range(COUNT):
        errors = rows @ weights - rows[:, 0]
        run.loss(float((errors**2).mean()))
        weights -= 0.1 * rows.T @ errors / 80
        run.step()
"""
TRAININGS = {
    "keras": KERAS,
    "lightgbm": LIGHTGBM,
    "xgboost": XGBOOST,
    "catboost": CATBOOST,
    "sklearn-network": NETWORK,
    "sklearn-boosting": BOOSTING,
    "sklearn-histograms": HISTOGRAMS,
    "own-loop": OWN_LOOP,
}
ALL = [
    pytest.param(
        training,
        id=name,
        marks=[pytest.mark.skipif(name == "catboost" and not find_spec("catboost"), reason="no CatBoost")],
    )
    for name, training in TRAININGS.items()
]


def train(folder: Path, training: str, *, count: int, steps: int) -> tuple[int, set[str]]:
    """Run a script that leaves one file in its `finally` and one after its training. Return (status, its files)."""
    body = "\n    ".join(training.replace("COUNT", str(count)).splitlines())
    script = f"{ROWS}\ntry:\n    {body}\nfinally:\n    open('cleaned-up', 'w').close()\nopen('went-on', 'w').close()\n"
    (folder / "train.py").write_text(script)
    rehearsal = RehearsalEnvironment(steps).variables() if steps else {}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "train.py"],
        cwd=folder,
        env={
            **inherited(),
            "OMP_NUM_THREADS": "1",
            "TRACKSIDE_RUN": str(folder / "run"),
            "TRACKSIDE_CAPTURE_REQUEST": LOSSES.to_json(),
            **rehearsal,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_SECONDS,
    )
    assert "capture is switched off" not in done.stderr, done.stderr
    return done.returncode, {file.name for file in folder.iterdir()} & {"cleaned-up", "went-on"}


def report_of(folder: Path) -> ProcessReport | None:
    path = folder / "run" / check_key(worker_name(0))
    return ProcessReport.from_json(path.read_bytes()) if path.exists() else None


@pytest.mark.parametrize("training", ALL)
def test_a_long_training_is_ended_after_the_steps_of_its_rehearsal(tmp_path: Path, training: str) -> None:
    assert train(tmp_path, training, count=500, steps=STEPS) == (0, {"cleaned-up"})
    report = report_of(tmp_path)
    assert report is not None
    assert (report.steps, report.is_cut, report.is_done) == (STEPS, True, True)
    assert [answer.outcome for answer in report.answers] == [Outcome.NOT_TRIED]
    trial = opened(tmp_path / "run")
    assert trial.has_ended
    assert len(trial.steps(mode="TRAIN")) == STEPS


@pytest.mark.parametrize(
    ("training", "count", "steps", "expected"),
    [
        pytest.param(LIGHTGBM, 20, 0, (0, ALL_FILES, None), id="no-rehearsal"),
        pytest.param(OWN_LOOP, 20, 0, (0, ALL_FILES, None), id="no-rehearsal-of-an-own-loop"),
        pytest.param(LIGHTGBM, 3, STEPS, (0, ALL_FILES, (3, False)), id="shorter-than-its-rehearsal"),
        pytest.param(OWN_LOOP, 3, STEPS, (0, ALL_FILES, (3, False)), id="an-own-loop-that-is-shorter"),
        pytest.param(f"{LIGHTGBM}\n1 / 0", 3, STEPS, (1, {"cleaned-up"}, None), id="fails-before-its-end"),
    ],
)
def test_other_trainings_end_by_themselves(
    tmp_path: Path, training: str, count: int, steps: int, expected: tuple[int, set[str], tuple[int, bool] | None]
) -> None:
    status, files = train(tmp_path, training, count=count, steps=steps)
    report = report_of(tmp_path)
    assert (status, files, None if report is None else (report.steps, report.is_cut)) == expected
