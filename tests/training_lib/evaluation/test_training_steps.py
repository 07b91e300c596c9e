"""Verdicts name steps as users count them: training steps, without the evaluations between them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.run_layout import RunLocation
from trackside.contracts.verdict import Outcome, Verdict
from trackside.evaluation.backtest import backtest
from trackside.runs.judgement import judge
from trackside.runs.live_run import training_losses
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import open_trial

LOSS = "CrossEntropyLoss_output_0"
BROKEN = 24  # training steps before the loss is no number any more


def write_run(folder: Path, *, evaluates: bool) -> str:
    """Write a run of 40 training steps; with three evaluation batches after each ten of them, if it evaluates."""
    run = RunLocation(str(folder))
    tensors = LocalStore(run.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {LOSS: 2.0})
    log = StatisticsLog(LocalStore(run.statistics), worker="worker_0", started_ms=0)
    step = evaluated = 0
    for number in range(40):
        loss = math.nan if number >= BROKEN else 2.0 - 0.01 * number
        numbers = {(LOSS, "mean"): loss, (LOSS, "nonfinite_count"): float(math.isnan(loss))}
        log.record(numbers, step=step, mode="TRAIN", mode_step=number, wall_time=float(step))
        step += 1
        for _ in range(3 if evaluates and number % 10 == 9 else 0):
            log.record({(LOSS, "mean"): 1.0}, step=step, mode="EVAL", mode_step=evaluated, wall_time=float(step))
            step, evaluated = step + 1, evaluated + 1
    log.flush()
    end_run(tensors)
    return run.uri


def the_issue(run: str) -> Verdict:
    found = backtest(run, [RuleConfiguration("exploding-tensor")], clock=lambda: 0.0)
    return next(verdict for verdict in found.verdicts if verdict.outcome is Outcome.ISSUE_FOUND)


def test_an_issue_names_the_training_step(tmp_path: Path) -> None:
    issue = the_issue(write_run(tmp_path / "a", evaluates=True))
    assert (issue.since_step, issue.shown_since) == (BROKEN + 6, BROKEN)
    assert f"since step {BROKEN}" in issue.message
    assert f"step {issue.since_step}" not in issue.message
    assert Verdict.from_json(issue.to_json()) == issue


def test_without_evaluations_there_is_one_count(tmp_path: Path) -> None:
    issue = the_issue(write_run(tmp_path / "a", evaluates=False))
    assert issue.since_step == issue.shown_since == BROKEN
    assert "training_steps" not in json.loads(issue.to_json())


@pytest.mark.parametrize(
    ("step", "number"),
    [
        pytest.param(0, 0, id="first"),
        pytest.param(9, 9, id="before an evaluation"),
        pytest.param(11, 9, id="in an evaluation"),
        pytest.param(13, 10, id="after it"),
        pytest.param(17, 14, id="ten later"),
        pytest.param(51, 39, id="in the last evaluation"),
    ],
)
def test_each_step_has_a_number(step: int, number: int, tmp_path: Path) -> None:
    trial = open_trial(write_run(tmp_path / "a", evaluates=True))
    assert trial.parts.steps.training_steps([step]) == [number]


def test_curves_count_alike(tmp_path: Path) -> None:
    (loss,) = training_losses(open_trial(write_run(tmp_path / "a", evaluates=True)), now=0.0)
    assert loss.steps.tolist() == list(range(40))


@pytest.mark.parametrize(
    "rules", [("stalled-training",), ("exploding-tensor", "wrong-mode")], ids=["clean", "with-an-issue"]
)
def test_a_judgement_names_the_last_training_step(rules: tuple[str, ...], tmp_path: Path) -> None:
    judged = judge(write_run(tmp_path / "a", evaluates=True), rules=rules)
    assert judged.judged_through == 51
    assert judged.headline().endswith("through step 39"), judged.headline()
