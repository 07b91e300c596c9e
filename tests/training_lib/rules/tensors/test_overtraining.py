"""overtraining: a long rest after something was learned, and nothing before that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Severity
from trackside.rules.tensors.overtraining import Overtraining, newest_improvement
from trackside.testing.fake_trial import WALL_TIME, fake_trial
from trackside.testing.rule_case import RuleCase, assert_case, assert_finding
from trackside.trial.window import Window

LOSS = "CrossEntropyLoss_output_0"
RULE = Overtraining(patience_train=200, patience_validation=4)
Curve = Callable[[int], float]


def window(trained: Curve, *, steps: int = 800, evaluated: Curve | None = None, every: int = 40) -> Window:
    """Training losses at each step, and validation losses after so many; the noise of batches is a hundredth."""
    noise = np.random.default_rng(0).normal(0, 0.01, steps)
    losses = {2 * step: trained(step) + float(noise[step]) for step in range(steps)}
    validated = {2 * step + 1: evaluated(step) for step in range(every, steps, every)} if evaluated else {}
    trial = fake_trial({LOSS: {**losses, **validated}}, modes=dict.fromkeys(validated, "EVAL"))
    return trial.window(2 * (steps - 1), now=WALL_TIME)


def rests(step: int) -> float:
    return float(0.3 + 2 * 0.5 ** (step / 20))


def falls(step: int) -> float:
    return 2.5 - 2 * step / 800


def drops_again(step: int) -> float:
    return rests(step) - (0.15 if step > 700 else 0.0)


FIRES = [
    pytest.param(window(rests), id="it rests, and nothing is validated"),
    pytest.param(window(rests, evaluated=rests), id="both rest"),
    pytest.param(window(rests, evaluated=lambda step: 0.5 + step / 8000), id="validation gets worse"),
    pytest.param(window(rests, evaluated=lambda step: 0.4), id="validation never changes"),
    pytest.param(window(lambda step: rests(step) + step / 4000), id="it rises again slowly"),
    pytest.param(window(lambda step: 0.4 + 0.3 * 0.5 ** (step / 3)), id="all was learned in the first steps"),
]
SILENT = [
    pytest.param(window(falls), id="it falls"),
    pytest.param(window(rests, evaluated=falls), id="validation falls"),
    pytest.param(window(falls, evaluated=rests), id="validation rests, training falls"),
    pytest.param(window(rests, steps=150), id="no long rest yet"),
    pytest.param(window(lambda step: 2.0), id="nothing was learned: another rule's"),
    pytest.param(window(lambda step: 2.0 + (0.3 if step == 0 else 0.0)), id="the first batch was harder"),
]
MORE_SILENT = [
    pytest.param(window(drops_again), id="the rate was lowered, and it fell on"),
    pytest.param(window(lambda step: rests(step) - 1), id="below zero"),
    pytest.param(window(rests, evaluated=rests, every=300), id="two evaluations tell nothing"),
    pytest.param(window(lambda step: 1 / (1 + step / 50)), id="slower and slower, but still"),
]


@pytest.mark.parametrize("window", FIRES)
def test_fires(window: Window) -> None:
    (finding,) = RULE.check(window)
    assert_finding(finding, step=window.step)
    assert RULE.severity_of([finding]) is Severity.INFO
    assert [suspicion.cause for suspicion in RULE.suspicions([finding], window)] == [Cause.CONVERGED]
    assert f"since step {finding.since_step}" in RULE.sentence([finding])
    assert "could have been saved" in RULE.sentence([finding])


@pytest.mark.parametrize("window", [*SILENT, *MORE_SILENT])
def test_stays_silent(window: Window) -> None:
    assert list(RULE.check(window)) == []


def test_as_many_silent_as_firing_rows() -> None:
    assert len(SILENT) >= len(FIRES)


def test_with_too_few_steps_it_says_what_it_lacks() -> None:
    case = RuleCase("short", {LOSS: dict.fromkeys(range(20), 1.0)})
    assert_case(RULE, case)
    assert "200 steps" in RULE.lacks(case.window)
    assert not RULE.lacks(window(rests))


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30), st.floats(0, 1), st.floats(0.1, 10))
def test_an_improvement_is_below_all_before_whatever_the_scale(losses: list[float], delta: float, scale: float) -> None:
    values = np.array(losses)
    place = newest_improvement(values, delta=delta)
    assert place == 0 or losses[place] < min(losses[:place])
    assert newest_improvement(values * 2.0 ** round(scale), delta=delta) == place


@pytest.mark.parametrize(
    ("through", "fires"), [pytest.param(800, False, id="ended-with-its-phase"), pytest.param(2000, True, id="goes-on")]
)
def test_a_loss_that_is_computed_no_more_is_not_at_rest(through: int, fires: bool) -> None:
    """Issue 41: after a change to another loss, the first one was told to have got as far as it will get."""
    first = {step: rests(step) for step in range(through)}
    second = {step: 3.0 - step / 1000 for step in range(800, 2000)}
    case = RuleCase("", recorded={LOSS: {"mean": first}, "MSELoss_output_0": {"mean": second}})
    assert bool(list(RULE.check(case.window))) is fires


def test_its_cause_is_what_it_finds() -> None:
    """Issue 41: a run at rest was told of weight decay and of frozen parameters that it had not."""
    (finding,) = RULE.check(window(rests))
    assert RULE.observes([finding])
