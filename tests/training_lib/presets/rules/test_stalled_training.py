"""stalled-training, as documented: nothing new for half an hour."""

from __future__ import annotations

import pytest

from trackside.contracts.rule_request import AWS_DOCS, RuleConfiguration, RuleRequest
from trackside.evaluation.evaluator import Evaluator
from trackside.evaluation.results.progress import ProgressFile
from trackside.presets.rules.stalled_training import DocumentedStalledTraining
from trackside.rules.catalogue import build_rules
from trackside.storage.memory import MemoryStore
from trackside.testing.fake_trial import fake_trial, write_collections, write_tensors
from trackside.testing.rule_case import assert_finding
from trackside.trial.trial import Trial

LOSS = "MSELoss_output_0"


@pytest.mark.parametrize(
    ("waited", "threshold", "fires"),
    [
        pytest.param(1801.0, 1800, True, id="a second too long"),
        pytest.param(1e6, 1800, True, id="days"),
        pytest.param(61.0, 60, True, id="over a threshold of the user's own"),
        pytest.param(1800.0, 1800, False, id="the threshold itself"),
        pytest.param(0.0, 1800, False, id="a step has just come"),
        pytest.param(-5.0, 1800, False, id="a clock that was set back"),
    ],
)
def test_how_long_a_step_may_be_waited_for(waited: float, threshold: int, fires: bool) -> None:
    window = fake_trial({LOSS: {7: 1.0}}).window(7, now=1e9 + waited, newest_step_at=1e9)
    findings = list(DocumentedStalledTraining(threshold=threshold).check(window))
    assert len(findings) == fires
    for finding in findings:
        assert_finding(finding, step=7)


@pytest.mark.parametrize(
    ("has_ended", "fires"), [pytest.param(False, True, id="it goes on"), pytest.param(True, False, id="it has ended")]
)
def test_it_is_asked_while_nothing_comes(has_ended: bool, fires: bool) -> None:
    store, now = MemoryStore(), [1e9]
    write_collections(store)
    for step in (0, 1):
        write_tensors(store, step, {LOSS: 1.0})
    if has_ended:
        store.put("training_job_end.ts", b"")
    rules = build_rules(RuleRequest((RuleConfiguration("stalled-training", preset=AWS_DOCS),)))
    evaluator = Evaluator(Trial(store), rules, (), ProgressFile(MemoryStore()), run="run", clock=lambda: now[0])
    evaluator.poll()
    assert not evaluator.summary().issues
    now[0] += 1801
    evaluator.poll()
    assert bool(evaluator.summary().issues) is fires
