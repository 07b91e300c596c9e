"""Rules in Amazon's sense see saved steps; ours see what is recorded at every step too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

from trackside.capture.statistics.statistics_log import StatisticsLog
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK, RuleConfiguration, RuleRequest
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.evaluation.saved_source import SavedSource
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.trial.trial import Trial

LOSS, GRADIENT = "MSELoss_output_0", "gradient/Net_fc.weight"
ALL_ZERO = 7  # the step whose gradient is


def a_run(recorded: Mapping[int, float], saved: Iterable[int], *, gradient: float = 1.0) -> Trial:
    """A finished run of these losses, some of which are saved, as are gradients; the others are recorded alone."""
    tensors, statistics = MemoryStore(), MemoryStore()
    write_collections(tensors)
    for step in saved:
        write_tensors(tensors, step, {LOSS: recorded[step], GRADIENT: np.full(3, gradient)})
    end_run(tensors)
    log = StatisticsLog(statistics, worker="worker_0", started_ms=1_700_000_000_000)
    for step, loss in recorded.items():
        abs_mean = 1e-12 if step % 2 else gradient
        row = {
            (GRADIENT, "abs_mean"): abs_mean,
            (LOSS, "mean"): loss,
            (GRADIENT, "zero_share"): float(step == ALL_ZERO),
        }
        log.record(row, step=step, mode="TRAIN", mode_step=step, wall_time=1.7e9 + step)
    log.flush()
    trial = Trial(tensors, statistics)
    trial.refresh()
    return trial


def judged(trial: Trial, rule_id: str, preset: str, **parameters: str) -> tuple[int, int]:
    """(steps judged, issues)."""
    rules = build_rules(RuleRequest((RuleConfiguration(rule_id, preset=preset, parameters=parameters),)))
    evaluator = Evaluator(trial, rules, (), ProgressFile(MemoryStore()), run="run", clock=lambda: 0.0)
    evaluator.poll()
    summary = evaluator.summary()
    return summary.judged[rule_id], len(summary.issues)


RESTING = dict.fromkeys(range(40), 1.0)


@pytest.mark.parametrize("preset", [AWS_DOCS, AWS_SDK])
@pytest.mark.parametrize(
    ("rule_id", "losses", "saved", "expected"),
    [
        pytest.param("overtraining", RESTING, range(0, 40, 10), (4, 0), id="four saved steps at rest are no five"),
        pytest.param("overtraining", RESTING, range(0, 40, 6), (6, 1), id="five are"),
        pytest.param(
            "vanishing-gradient", RESTING, [0, 20], (2, 0), id="a gradient that vanishes where none was saved"
        ),
        pytest.param("vanishing-gradient", RESTING, [], (0, 0), id="nothing saved: nothing judged"),
    ],
)
def test_steps_are_saved_steps(
    rule_id: str, preset: str, losses: Mapping[int, float], saved: Iterable[int], expected: tuple[int, int]
) -> None:
    assert judged(a_run(losses, saved), rule_id, preset) == expected


@pytest.mark.parametrize(
    ("preset", "issues"), [pytest.param("", 1, id="ours sees rows"), pytest.param(AWS_DOCS, 0, id="Amazon's does not")]
)
def test_a_gradient_of_zeros_at_a_step_of_which_nothing_was_saved(preset: str, issues: int) -> None:
    assert judged(a_run(RESTING, [0, 20]), "all-zero", preset)[1] == issues


def test_columns_hold_saved_steps_and_those_of_a_tensor_never_saved_none() -> None:
    source = SavedSource(a_run(RESTING, [3, 30]))
    (column,) = source.columns(LOSS, "mean", last_step=39, mode="TRAIN")
    assert column.steps.tolist() == [3, 30]
    (earlier,) = source.columns(LOSS, "mean", last_step=10, mode=None)
    assert earlier.steps.tolist() == [3]
    assert source.columns(LOSS, "mean", last_step=2, mode=None) == ()
    assert SavedSource(a_run(RESTING, [])).columns(LOSS, "mean", last_step=39, mode=None) == ()


def test_what_comes_later_is_seen_after_a_refresh() -> None:
    store = MemoryStore()
    write_collections(store)
    write_tensors(store, 0, {LOSS: 1.0})
    trial = Trial(store)
    trial.refresh()
    source = SavedSource(trial)
    assert source.columns(LOSS, "mean", last_step=9, mode=None)[0].steps.tolist() == [0]
    write_tensors(store, 5, {LOSS: 0.5})
    end_run(store)
    trial.refresh()
    assert source.columns(LOSS, "mean", last_step=9, mode=None)[0].steps.tolist() == [0, 5]
    assert float(source.value(LOSS, step=5, worker="worker_0").sum()) == 0.5
    assert source.tensor_names(collection="losses") == (LOSS,)
    assert source.facts_at(5) is None
