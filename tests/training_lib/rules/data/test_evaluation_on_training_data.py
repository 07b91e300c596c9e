"""evaluation-on-training-data: shares of evaluated rows that were trained on, over a run."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.run.recorded_names import EVALUATED_ROWS_OVERLAP as OVERLAP
from trackside.contracts.run.recorded_names import EVALUATED_ROWS_TRAINED_ON as SHARE
from trackside.rules.data.evaluation_on_training_data import EvaluationOnTrainingData
from trackside.testing.rule_case import RuleCase, Statistics, assert_case


def noted(values: Mapping[int, object]) -> Statistics:
    return {SHARE: {"mean": values}}


def of_windows(*shares: float) -> Statistics:
    return {**noted(steady(0, len(shares))), OVERLAP: {"mean": along(shares)}}


CASES = [
    RuleCase("all rows", recorded=noted(steady(1, 2)), fires=(SHARE,)),
    RuleCase("nearly all rows", recorded=noted(along([0.95, 0.92])), fires=(SHARE,)),
    RuleCase("from the third on", recorded=noted(along([0.1, 0.0, 1.0, 1.0])), fires=(SHARE,)),
    RuleCase("on one worker", recorded=noted({s: {"worker_0": 1.0, "worker_1": 0.2} for s in (9, 19)}), fires=(SHARE,)),
    RuleCase("held back", recorded=noted(steady(0, 9))),
    RuleCase("half of them", recorded=noted(steady(0.5, 9))),
    RuleCase("one evaluation so far", recorded=noted(along([1.0, 0.0])), step=0),
    RuleCase("the only one of a run that has ended", recorded=noted(steady(1, 1)), fires=(SHARE,)),
    RuleCase("the only one, held back", recorded=noted(steady(0, 1))),
    RuleCase("held back now", recorded=noted(along([1.0, 1.0, 0.0]))),
    RuleCase("windows of one series", recorded=of_windows(1.0, 1.0, 0.98), fires=(OVERLAP,)),
    RuleCase("windows that overlap by half", recorded=of_windows(0.79, 0.81), fires=(OVERLAP,)),
    RuleCase("windows of later steps", recorded=of_windows(0.0, 0.02, 0.0)),
    RuleCase("windows of other subjects, and of the same", recorded=of_windows(0.5, 0.5)),
    RuleCase("windows once", recorded=of_windows(1.0, 0.1, 1.0)),
    RuleCase("windows that are held back now", recorded=of_windows(1.0, 1.0, 0.0)),
    RuleCase("nothing recorded of it", recorded={"Loss_output_0": {"mean": steady(1)}}),
]

test_cases = every_case(EvaluationOnTrainingData(), CASES)


def test_the_share_is_the_evidence_and_the_first_such_evaluation_the_beginning() -> None:
    case = CASES[2]
    findings = list(assert_case(EvaluationOnTrainingData(), case))
    (suspicion,) = EvaluationOnTrainingData().suspicions(findings, case.window)
    assert (suspicion.cause, suspicion.because) == (
        Cause.DATA_LEAKAGE,
        "100% of the rows of each evaluation had been trained on",
    )
    assert findings[0].since_step == 2


def test_what_is_said_of_windows() -> None:
    case = next(case for case in CASES if case.name == "windows of one series")
    findings = list(assert_case(EvaluationOnTrainingData(), case))
    (suspicion,) = EvaluationOnTrainingData().suspicions(findings, case.window)
    assert (suspicion.cause, suspicion.because) == (
        Cause.DATA_LEAKAGE,
        "windows of one series are on both sides: 98% lie in others",
    )


@pytest.mark.parametrize(("count", "lacks"), [(1, True), (2, False)])
def test_what_it_lacks(count: int, lacks: bool) -> None:
    case = RuleCase("a run", recorded=noted(steady(0, 3)), step=count - 1)
    assert bool(EvaluationOnTrainingData().lacks(case.window)) is lacks
