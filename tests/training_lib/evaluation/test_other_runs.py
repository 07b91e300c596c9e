"""Runs to compare with: opened by the evaluator, wherever they lie, and read on while they grow."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.rule_request import AWS_DOCS, RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import TENSORS, RunLocation
from trackside.contracts.verdict import Outcome
from trackside.evaluation.backtest import backtest
from trackside.evaluation.evaluator import evaluate
from trackside.evaluation.other_runs import OtherRuns, names_in
from trackside.rules.tensors.exploding_tensor import ExplodingTensor
from trackside.rules.tensors.similar_across_runs import SimilarAcrossRuns
from trackside.storage.local import LocalStore
from trackside.storage.memory import MemoryStore
from trackside.storage.store import Store
from trackside.testing.fake_trial import end_run, write_collections, write_tensors

LOSS = "MSELoss_output_0"


def a_run(store: Store, losses: Mapping[int, float], *, ended: bool = True) -> None:
    write_collections(store)
    for step, loss in losses.items():
        write_tensors(store, step, {LOSS: loss})
    if ended:
        end_run(store)


@pytest.mark.parametrize(
    ("theirs", "issues"),
    [
        pytest.param({0: 1.0, 1: 0.7}, 1, id="they differ"),
        pytest.param({0: 1.0, 1: 0.5}, 0, id="they are the same"),
        pytest.param({0: 1.0}, 0, id="as far as both go"),
    ],
)
@pytest.mark.parametrize("folder", [pytest.param(TENSORS, id="a run"), pytest.param("", id="a folder of tensors")])
def test_a_run_is_compared_with_another(tmp_path: Path, theirs: dict[int, float], issues: int, folder: str) -> None:
    a_run(LocalStore(tmp_path / "ours" / TENSORS), {0: 1.0, 1: 0.5})
    a_run(LocalStore(tmp_path / "theirs" / folder), theirs)
    rule = RuleConfiguration(
        "similar-across-runs", parameters={"other_trials": f" {tmp_path / 'theirs'} ,"}, preset=AWS_DOCS
    )
    found = backtest(str(tmp_path / "ours"), [rule], clock=lambda: 0.0)
    assert len(found.issues) == issues
    summary = evaluate(
        RunLocation(str(tmp_path / "ours")),
        RuleRequest((rule,)),
        (),
        poll_seconds=0,
        clock=lambda: 0.0,
        sleep=lambda seconds: None,
        should_stop=lambda: False,
    )
    assert len(summary.issues) == issues
    assert [issue.findings[0].subject for issue in summary.issues] == [LOSS] * issues


def test_a_run_that_is_not_there_is_said_once_and_could_not_be_evaluated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a_run(LocalStore(tmp_path / "ours" / TENSORS), {0: 1.0, 1: 0.5})
    rule = RuleConfiguration("similar-across-runs", parameters={"other_trials": str(tmp_path / "nowhere")})
    with caplog.at_level(logging.WARNING):
        (verdict,) = backtest(str(tmp_path / "ours"), [rule], clock=lambda: 0.0).verdicts
    assert verdict.outcome is Outcome.NOT_EVALUATED
    assert "nowhere" in verdict.message
    assert len([record for record in caplog.records if "nowhere" in record.getMessage()]) == 1


class Flaky:
    """Opens stores in memory; the first time it is asked, the storage is away."""

    def __init__(self) -> None:
        self.store, self.asked = MemoryStore(), 0

    def __call__(self, uri: str) -> Store:
        self.asked += 1
        if self.asked == 1:
            raise StorageUnavailableError(f"{uri} is away")
        return self.store


def test_it_is_tried_again_and_read_on_while_it_grows() -> None:
    stores, rule = Flaky(), SimilarAcrossRuns(other_trials="other")
    a_run(stores.store, {0: 1.0}, ended=False)
    others = OtherRuns([rule, ExplodingTensor()], stores)
    others.refresh()
    assert others.of(rule) == {}
    others.refresh()
    source = others.of(rule)["other"]
    assert float(source.value(LOSS, step=0, worker="worker_0").sum()) == 1.0
    write_tensors(stores.store, 1, {LOSS: 0.5})
    others.refresh()
    assert float(source.value(LOSS, step=1, worker="worker_0").sum()) == 0.5
    end_run(stores.store)
    others.refresh()
    asked = stores.asked
    others.refresh()
    assert stores.asked == asked, "a run that has ended is not opened again"


def test_only_rules_that_compare_have_others() -> None:
    assert names_in(ExplodingTensor()) == ()
    assert names_in(SimilarAcrossRuns(other_trials="a, s3://b/c ,")) == ("a", "s3://b/c")
    assert OtherRuns([ExplodingTensor()], Flaky()).of(ExplodingTensor()) == {}
