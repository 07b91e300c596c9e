"""overfit, as documented: the validation loss against the training loss, evaluation by evaluation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.presets.rules.overfit import DocumentedOverfit, excesses
from trackside.testing.fake_trial import WALL_TIME, fake_trial
from trackside.testing.rule_case import assert_finding

LOSS, OWN = "MSELoss_output_0", "Net_own"
STRICT = DocumentedOverfit(patience=2)


def judged(rule: DocumentedOverfit, name: str, trained: dict[int, float], evaluated: dict[int, float]) -> list[int]:
    """The steps at which the rule fires."""
    trial = fake_trial({name: {**trained, **evaluated}}, modes=dict.fromkeys(evaluated, "EVAL"))
    fired = []
    for step in trial.steps():
        for finding in rule.check(trial.window(step, now=WALL_TIME)):
            assert_finding(finding, step=step)
            fired.append(step)
    return fired


FALLING = {0: 1.0, 1: 0.9, 10: 0.8, 20: 0.4, 30: 0.4}
FIRES = [
    pytest.param(DocumentedOverfit(), LOSS, FALLING, {5: 1.2}, [5], id="a quarter above"),
    pytest.param(DocumentedOverfit(), LOSS, FALLING, {5: 0.9, 15: 0.8, 25: 0.9}, [25], id="after a while"),
    pytest.param(STRICT, LOSS, FALLING, {5: 1.2, 15: 1.2}, [15], id="twice in a row"),
    pytest.param(DocumentedOverfit(tensor_regex="own"), OWN, FALLING, {5: 1.2}, [5], id="a loss by its name"),
    pytest.param(DocumentedOverfit(start_step=10), LOSS, FALLING, {5: 1.2, 15: 1.2}, [15], id="from a step on"),
    pytest.param(DocumentedOverfit(), LOSS, {0: -2.0}, {5: -1.0}, [5], id="losses below zero"),
    pytest.param(DocumentedOverfit(), LOSS, FALLING, {5: 1.0, 6: 1.5}, [6], id="by the mean of an evaluation"),
]
SILENT = [
    pytest.param(DocumentedOverfit(), LOSS, FALLING, {5: 1.0}, [], id="a twentieth above"),
    pytest.param(DocumentedOverfit(), LOSS, FALLING, {5: 0.5, 15: 0.5, 25: 0.2}, [], id="below"),
    pytest.param(STRICT, LOSS, FALLING, {5: 1.2, 15: 0.8, 25: 0.9}, [], id="never twice in a row"),
    pytest.param(DocumentedOverfit(tensor_regex="own"), LOSS, FALLING, {5: 1.2}, [], id="another name"),
    pytest.param(DocumentedOverfit(start_step=10), LOSS, FALLING, {5: 1.2}, [], id="before that step"),
    pytest.param(DocumentedOverfit(), LOSS, {}, {5: 1.0}, [], id="no training losses"),
    pytest.param(DocumentedOverfit(), LOSS, {0: 0.0}, {5: 1.0}, [], id="a training loss of zero"),
]


@pytest.mark.parametrize(("rule", "name", "trained", "evaluated", "steps"), [*FIRES, *SILENT])
def test_rows(
    rule: DocumentedOverfit, name: str, trained: dict[int, float], evaluated: dict[int, float], steps: list[int]
) -> None:
    assert judged(rule, name, trained, evaluated) == steps


def test_as_many_silent_as_firing_rows() -> None:
    assert len(FIRES) == len(SILENT)


def test_the_patience_is_the_rules_own_and_counts_evaluations() -> None:
    assert DocumentedOverfit(patience=7).findings_in_a_row == 1


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=20), st.data())
def test_a_model_that_does_as_well_on_both_has_no_excess(losses: list[float], data: st.DataObject) -> None:
    steps = np.array(sorted(data.draw(st.sets(st.integers(0, 200), min_size=len(losses), max_size=len(losses)))))
    constant = np.full(len(losses), losses[0])
    firsts, ratios = excesses(steps + 1, constant, steps, constant)
    assert len(firsts) == len(ratios) >= 1
    assert ratios == pytest.approx(np.zeros(len(ratios)), abs=1e-9)
