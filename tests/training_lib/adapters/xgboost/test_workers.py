"""Workers of a distributed boosting: two processes, connected by XGBoost's own tracker, one run."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xgboost

from tests.training_lib.frameworks.captured_script import curve, opened
from tests.warm_python import WarmPython
from trackside.contracts.capture_request import CaptureRequest, CollectionRequest, Schedule, StatisticsRequest
from trackside.contracts.rule_request import RuleConfiguration
from trackside.environment import inherited
from trackside.evaluation.backtest import backtest

ROUNDS = 10
KINDS = ("metrics", "losses", "hyperparameters", "feature_importance", "trees", "labels", "predictions", "average_shap")
REQUEST = CaptureRequest(
    tuple(CollectionRequest(kind, Schedule(1)) for kind in KINDS), statistics=StatisticsRequest(budget=1.0)
)
LEFT_OUT = [f"trackside: the collection {kind}" for kind in ("predictions", "average_shap")]

WORKER = """
import json, sys
import numpy as np
import xgboost
from xgboost import collective

_, host, port, task, mode, crash = sys.argv
random = np.random.default_rng(0)
inputs = random.normal(size=(400, 6))
labels = (inputs[:, 0] + inputs[:, 4] ** 2 + random.normal(scale=0.3, size=400) > 0.7).astype(int)

class Crash(xgboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, log):
        if crash == task and epoch == 4:
            raise ZeroDivisionError
        return False

def rows(part):
    half = int(task)
    if mode == "column":
        found = inputs[part][:, half * 3 : half * 3 + 3]
        return xgboost.DMatrix(found, labels[part], data_split_mode=xgboost.core.DataSplitMode.COL)
    return xgboost.DMatrix(inputs[part][half::2], labels[part][half::2])

with collective.CommunicatorContext(
    dmlc_communicator="rabit", dmlc_tracker_uri=host, dmlc_tracker_port=int(port), dmlc_task_id=task
):
    training, validation = rows(slice(0, 300)), rows(slice(300, 400))
    log = {}
    settings = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1, "seed": 1, "tree_method": "hist"}
    model = xgboost.train(settings, training, 10, evals=[(training, "train"), (validation, "validation")],
                          evals_result=log, verbose_eval=False, callbacks=[Crash()])
    print('RESULT', json.dumps([collective.get_rank(), log, model.save_raw("json").hex()]), flush=True)
"""


Train = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def trained(warm_xgboost: WarmPython, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Trains in two processes. Returns what each printed, by rank; None for one that ended without a word."""
    script = tmp_path_factory.mktemp("workers") / "worker.py"
    script.write_text(WORKER)

    def train(run: Path | None, request: CaptureRequest = REQUEST, *, mode: str = "row", crash: str = "") -> list[Any]:
        tracker = xgboost.RabitTracker(n_workers=2, host_ip="127.0.0.1", sortby="task")
        tracker.start()
        arguments = tracker.worker_args()
        address = [str(arguments["dmlc_tracker_uri"]), str(arguments["dmlc_tracker_port"])]
        captured = {"TRACKSIDE_RUN": str(run), "TRACKSIDE_CAPTURE_REQUEST": request.to_json()} if run else {}
        environment = {**inherited(), "OMP_NUM_THREADS": "1", **captured}
        found = []
        with ExitStack() as stack:
            workers = [
                stack.enter_context(
                    warm_xgboost.start_captured(script, *address, str(number), mode, crash, env=environment)
                )
                for number in range(2)
            ]
            for worker in workers:
                done = worker.finish()
                assert crash or done.returncode == 0, done.stderr
                ours = [line.split(" is not saved")[0] for line in done.stderr.splitlines()]
                ours = [line for line in ours if line.startswith("trackside: ")]
                assert ours in ([], LEFT_OUT if mode == "column" else []), done.stderr
                # XGBoost logs to the same stream.
                shown = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
                found.append(json.loads(shown[0].removeprefix("RESULT ")) if shown else None)
        return found

    return train


@pytest.fixture(scope="module")
def bare(trained: Train) -> dict[str, list[Any]]:
    """The trainings that are not captured, by mode."""
    return {mode: trained(None, mode=mode) for mode in ("row", "column")}


@pytest.mark.parametrize("mode", ["row", "column"])
def test_each_worker_is_recorded_and_the_model_is_the_same(
    mode: str, trained: Train, bare: dict[str, list[Any]], tmp_path: Path
) -> None:
    captured = trained(tmp_path / "run", mode=mode)
    assert captured == bare[mode]
    trial = opened(tmp_path / "run")
    assert [rank for rank, *_ in captured] == [0, 1]
    assert set(trial.workers) == {"worker_0", "worker_1"}
    assert trial.steps() == tuple(range(ROUNDS))
    assert trial.has_ended
    for worker, (_, log, _) in zip(sorted(trial.workers), captured, strict=True):
        for name, metrics in log.items():
            for step, value in enumerate(metrics["logloss"]):
                assert trial.value(f"{name}-logloss", step=step, worker=worker) == pytest.approx(value)
    for mode_name, name in (("TRAIN", "train"), ("EVAL", "validation")):
        recorded = curve(trial, "logloss", mode_name)
        assert recorded[:ROUNDS] == pytest.approx(captured[0][1][name]["logloss"], rel=1e-6)
    rules = [RuleConfiguration(name) for name in ("loss-not-decreasing", "overfit")]
    assert not backtest(str(tmp_path / "run"), rules, clock=lambda: 0.0).issues


@pytest.mark.parametrize("mode", ["row", "column"])
def test_one_worker_that_saves_makes_the_other_wait_for_nothing(
    mode: str, trained: Train, bare: dict[str, list[Any]], tmp_path: Path
) -> None:
    captured = trained(tmp_path / "run", replace(REQUEST, include_workers="one"), mode=mode)
    assert captured == bare[mode]
    trial = opened(tmp_path / "run")
    assert trial.steps() == tuple(range(ROUNDS))
    assert trial.value("train-logloss", step=3, worker="worker_0") == pytest.approx(
        captured[0][1]["train"]["logloss"][3]
    )


def test_a_worker_that_fails_leaves_its_rounds(trained: Train, tmp_path: Path) -> None:
    assert trained(tmp_path / "run", crash="1")[1] is None
    trial = opened(tmp_path / "run")
    steps = [step for step in trial.steps() if step < 4]
    assert steps == [0, 1, 2, 3]
    for step in steps:
        assert trial.value("train-logloss", step=step, worker="worker_0").size == 1
