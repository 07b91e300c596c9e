"""learning-rate-collapsed: the schedule has all but switched the learning off, and the training goes on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import along, falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts
from trackside.rules.program.learning_rate_collapsed import LearningRateCollapsed
from trackside.situation.rates import collapsed_at
from trackside.testing.rule_case import RuleCase, assert_case

RATE, SECOND = "hyperparameters/SGD/group_0/lr", "hyperparameters/SGD/group_1/lr"


def case(name: str, values: dict[int, float], *, fires: tuple[str, ...] = (RATE,)) -> RuleCase:
    return RuleCase(name, recorded={RATE: {"mean": values}}, fires=fires)


STEPPED = along([0.1 * 0.1 ** (step // 10) for step in range(200)])
COSINE = along(0.05 * (1 + np.cos(np.pi * np.arange(201) / 200)))
ONE_CYCLE = along([*np.linspace(4e-3, 0.1, 60), *(4e-7 + 0.05 * (1 + np.cos(np.pi * np.arange(140) / 139)))])

CASES = [
    case("stepped per batch", STEPPED),
    case("switched off", along([0.1] * 20 + [0.0] * 100)),
    case("exponential per batch", along([0.1 * 0.8**step for step in range(300)])),
    case("after a warm-up", along([*np.linspace(0, 0.1, 20), *[1e-9] * 150])),
    RuleCase(
        "one of two groups",
        recorded={RATE: {"mean": steady(0.1, 200)}, SECOND: {"mean": along([0.1] * 20 + [0.0] * 180)}},
        fires=(SECOND,),
    ),
    case("constant", steady(0.1, 200), fires=()),
    case("cosine to zero", COSINE, fires=()),
    case("one cycle", ONE_CYCLE, fires=()),
    case("tiny but steady", steady(1e-9, 200), fires=()),
    case("restarts", along([0.1 if step % 40 < 20 else 1e-6 for step in range(190)]), fires=()),
]

test_cases = every_case(LearningRateCollapsed(), CASES)


def test_it_says_since_when_from_what_and_where() -> None:
    facts = ModelFacts(optimizers=(OptimizerFacts("SGD", "SGD", line="train.py:9"),))
    case = RuleCase("off", recorded={RATE: {"mean": along([0.1] * 20 + [0.0] * 100)}}, fires=(RATE,), facts=facts)
    (finding,) = assert_case(LearningRateCollapsed(), case)
    assert (finding.since_step, finding.statistics["peak"], finding.place) == (20, 0.1, "train.py:9")
    suspicions = LearningRateCollapsed().suspicions([finding], case.window)
    assert suspicions[0].cause is Cause.LEARNING_RATE_SCHEDULE


def test_zero_from_the_start_is_no_schedule() -> None:
    assert_case(LearningRateCollapsed(), case("zero", steady(0.0, 200), fires=()))


@pytest.mark.parametrize(
    ("recorded", "lacks"), [({RATE: {"mean": steady(0.1)}}, False), ({}, True)], ids=["some", "none"]
)
def test_what_it_lacks(recorded: dict[str, dict[str, dict[int, float]]], lacks: bool) -> None:
    assert (
        bool(LearningRateCollapsed().lacks(RuleCase("a run", {"Loss_output_0": {0: 1.0}}, recorded=recorded).window))
        is lacks
    )


@given(
    rates=st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=80),
    tail=st.integers(0, 200),
    scale=st.floats(1e-6, 1e6),
)
def test_where_it_collapsed_has_no_unit_and_is_the_first_step_of_the_tail(
    rates: list[float], tail: int, scale: float
) -> None:
    values = np.array([*rates, *[0.0] * tail])
    since = collapsed_at(values)
    assert collapsed_at(values * scale) == since or any(abs(r / max(rates) - 1e-3) < 1e-9 for r in rates)
    if since is not None:
        assert tail >= 1
        assert (values[since:] < 1e-3 * values.max()).all()
        assert values[since - 1] >= 1e-3 * values.max()
    assert (collapsed_at(np.array([*rates, *[0.0] * (20 + len(rates))])) or 0) > 0


def test_falling_for_ever_is_seen_early() -> None:
    assert collapsed_at(np.array(list(falling(1.0, 1e-9, 100).values()))) is not None
