"""gradients-not-cleared: each step adds its gradients to those of all steps before."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts
from trackside.contracts.run.recorded_names import GRADIENTS_KEPT
from trackside.contracts.verdict import Severity
from trackside.rules.program.gradients_not_cleared import GradientsNotCleared, kept_share
from trackside.testing.rule_case import RuleCase, assert_case, replay


def kept(values: Mapping[int, object]) -> dict[str, dict[str, Mapping[int, object]]]:
    return {GRADIENTS_KEPT: {"mean": values}}


def of_two(first: float, second: float) -> dict[int, object]:
    return {step: {"worker_0": first, "worker_1": second} for step in range(30)}


CASES = [
    RuleCase("never cleared", recorded=kept(steady(1)), fires=(GRADIENTS_KEPT,)),
    RuleCase("never cleared, just long enough", recorded=kept(steady(1, 10)), fires=(GRADIENTS_KEPT,)),
    RuleCase("no longer cleared", recorded=kept(along([0] * 20 + [1] * 20)), fires=(GRADIENTS_KEPT,)),
    RuleCase("once cleared by accident", recorded=kept(along([1] * 20 + [0] + [1] * 20)), fires=(GRADIENTS_KEPT,)),
    RuleCase("cleared at the newest step alone", recorded=kept(along([1] * 19 + [0])), fires=(GRADIENTS_KEPT,)),
    RuleCase("never cleared on one of two workers", recorded=kept(of_two(0, 1)), fires=(GRADIENTS_KEPT,)),
    RuleCase("always cleared", recorded=kept(steady(0))),
    RuleCase("too early to tell", recorded=kept(steady(1, 9))),
    RuleCase("cleared every other step", recorded=kept(along([0, 1] * 20)), fires=(GRADIENTS_KEPT,)),
    RuleCase("cleared at every fourth step", recorded=kept(along([0, 1, 1, 1] * 12)), fires=(GRADIENTS_KEPT,)),
    RuleCase("cleared at every fourth step, seven times", recorded=kept(along([0, 1, 1, 1] * 7 + [0]))),
    RuleCase("cleared now and then", recorded=kept(along([0, 1, 1, 0, 1, 0, 0, 1, 1, 1] * 6))),
    RuleCase("cleared at every step after a bad start", recorded=kept(along([0, 1] * 20 + [0] * 5))),
    RuleCase("cleared again", recorded=kept(along([1] * 20 + [0] * 20))),
    RuleCase("not cleared once", recorded=kept(along([0] * 20 + [1] + [0] * 20))),
    RuleCase("nothing recorded of it", recorded={"Loss_output_0": {"mean": steady(1)}}),
]

test_cases = every_case(GradientsNotCleared(), CASES)


def test_it_says_since_when_and_where() -> None:
    loss = LossFacts("MSELoss_output_0", "MSELoss", backward_line="train.py:12")
    case = RuleCase(
        "late", recorded=kept(along([0] * 20 + [1] * 20)), fires=(GRADIENTS_KEPT,), facts=ModelFacts(losses=(loss,))
    )
    (finding,) = assert_case(GradientsNotCleared(), case)
    assert (finding.since_step, finding.observed, finding.place) == (20, 1.0, "train.py:12")
    (suspicion,) = GradientsNotCleared().suspicions([finding], case.window)
    assert suspicion.cause is Cause.MISSING_ZERO_GRAD


def test_a_fixed_distance_is_a_warning() -> None:
    case = RuleCase("every third", recorded=kept(along([0, 1, 1] * 12)), fires=(GRADIENTS_KEPT,))
    rule = GradientsNotCleared()
    found = assert_case(rule, case)
    assert rule.severity_of(found) is Severity.WARNING
    assert (found[0].observed, found[0].threshold) == (3.0, 1.0)
    assert rule.severity_of(assert_case(rule, CASES[0])) is Severity.CRITICAL


def test_it_is_told_at_step_ten() -> None:
    (finding,) = replay(GradientsNotCleared(), CASES[0].trial)
    assert finding.step == 10


@pytest.mark.parametrize(("count", "lacks"), [(9, True), (10, False)])
def test_what_it_lacks(count: int, lacks: bool) -> None:
    assert bool(GradientsNotCleared().lacks(RuleCase("a run", recorded=kept(steady(0, count))).window)) is lacks


@given(values=st.lists(st.sampled_from([0.0, 1.0]), max_size=30), steps=st.integers(2, 12))
def test_the_share_is_that_of_the_newest(values: list[float], steps: int) -> None:
    share = kept_share(np.array(values), steps=steps)
    assert (share is None) == (len(values) < steps)
    if share is not None:
        assert share * steps == pytest.approx(sum(values[-steps:]))
