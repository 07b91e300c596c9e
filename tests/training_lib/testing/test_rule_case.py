"""The harness for rules fails when a rule misbehaves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from trackside.contracts.verdict import Finding, Severity
from trackside.rules.rule import Rule, parameter
from trackside.testing.rule_case import RuleCase, assert_case, assert_finding, recorded_trial, replay
from trackside.trial.window import Window

WEIGHT = "Net_fc.weight"


@dataclass(frozen=True)
class TooLarge(Rule):
    """A weight is too large."""

    rule_id = "too-large"
    watches = ("weights",)
    save_interval = 1
    severity = Severity.INFO
    since = "0"
    what_to_do = ("Make it smaller.",)
    patience = 2

    limit: float = parameter(1.0, "the largest weight that is fine")

    def check(self, window: Window) -> Iterable[Finding]:
        for name in window.tensors("weights"):
            for column in window.statistic(name, "max"):
                if column.steps[-1] == window.step and column.values[-1] > self.limit:
                    yield Finding(
                        name, window.step, 0, "largest weight", column.values[-1], ">", self.limit, column.worker
                    )


SILENT = RuleCase("small", {WEIGHT: {0: [0.5]}})
FIRING = RuleCase("large", {WEIGHT: {0: [0.5, 2.0]}}, fires=(WEIGHT,))


@pytest.mark.parametrize("case", [SILENT, FIRING], ids=str)
def test_a_case_that_holds_passes(case: RuleCase) -> None:
    assert len(assert_case(TooLarge(), case)) == len(case.fires)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(replace(SILENT, fires=(WEIGHT,)), id="silent where it must fire"),
        pytest.param(replace(FIRING, fires=()), id="fires where it must be silent"),
        pytest.param(replace(FIRING, fires=("Net_other.weight",)), id="names another tensor"),
    ],
)
def test_a_case_that_does_not_hold_fails(case: RuleCase) -> None:
    with pytest.raises(AssertionError, match=case.name):
        assert_case(TooLarge(), case)


def test_a_rule_that_remembers_fails() -> None:
    answers = iter([3.0, 4.0])

    class Moody(TooLarge):
        def check(self, window: Window) -> Iterable[Finding]:
            return [replace(finding, observed=next(answers)) for finding in super().check(window)]

    with pytest.raises(AssertionError, match="at the second call"):
        assert_case(Moody(), FIRING)


SOUND = Finding(WEIGHT, 10, 0, "largest weight", 2.0, ">", 1.0, series=((0, 0.5), (10, 2.0)))


@pytest.mark.parametrize(
    "finding",
    [
        pytest.param(replace(SOUND, step=20), id="another step"),
        pytest.param(replace(SOUND, since_step=11), id="begins after it was seen"),
        pytest.param(replace(SOUND, observed=0.5), id="a comparison that does not hold"),
        pytest.param(replace(SOUND, observed=math.nan), id="NaN compares with nothing"),
        pytest.param(replace(SOUND, series=((0, 0.5),)), id="evidence that ends too early"),
        pytest.param(replace(SOUND, series=tuple((s, 1.0) for s in range(-10, 11))), id="too much evidence"),
        pytest.param(replace(SOUND, measure=""), id="no measure"),
    ],
)
def test_a_finding_that_cannot_be_fails(finding: Finding) -> None:
    assert_finding(SOUND, step=10)
    with pytest.raises(AssertionError):
        assert_finding(finding, step=10)


def test_values_by_worker_and_collections_of_ones_own() -> None:
    trial = recorded_trial(
        {WEIGHT: {0: {"worker_0": [1.0], "worker_1": [2.0]}}, "hidden_0": {0: 1.0}}, collections={"mine": ("hidden",)}
    )
    window = trial.window(0, now=0)
    assert [(c.worker, c.values.tolist()) for c in window.statistic(WEIGHT, "mean")] == [
        ("worker_0", [1.0]),
        ("worker_1", [2.0]),
    ]
    assert window.tensors("mine") == ("hidden_0",)


def test_a_case_may_be_judged_at_an_earlier_step() -> None:
    case = RuleCase("later", {WEIGHT: {0: [0.5], 1: [2.0]}})
    assert_case(TooLarge(), replace(case, fires=(WEIGHT,)))
    assert_case(TooLarge(), replace(case, step=0))


@pytest.mark.parametrize(
    ("largest", "step"),
    [
        pytest.param([2, 2, 2], 1, id="at once"),
        pytest.param([2, 0, 2, 2], 3, id="the streak broke"),
        pytest.param([2, 0, 2, 0], None, id="never two in a row"),
    ],
)
def test_replay_asks_for_patience_at_judged_steps_only(largest: list[float], step: int | None) -> None:
    weights = {2 * index: np.array([float(value)]) for index, value in enumerate(largest)}
    losses = dict.fromkeys(range(2 * len(largest)), 1.0)  # steps at which no weight was saved are not judged
    findings = replay(TooLarge(), recorded_trial({WEIGHT: weights, "MSELoss_output_0": losses}))
    assert [finding.step for finding in findings] == ([] if step is None else [2 * step])
