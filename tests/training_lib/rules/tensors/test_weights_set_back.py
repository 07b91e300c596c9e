"""weights-set-back: the weights return to where they began, again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.training_lib.rules.columns import along
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.run.recorded_names import UPDATE_SIZE
from trackside.rules.tensors.weights_set_back import WeightsSetBack, jumps_of
from trackside.testing.rule_case import RuleCase, assert_case

NAMES = A, B, C, _, _ = tuple(f"Net_{letter}.weight" for letter in "abcde")
STEPS = 120
FACTS = ModelFacts(
    parameters=tuple(ParameterFacts(name, name[4], (8, 8), "float32") for name in NAMES),
    optimizers=(OptimizerFacts("SGD", "SGD"),),
)


def sizes(*jumps: int, height: float = 0.3) -> list[float]:
    """Return updates that fall slowly, with jumps at some steps."""
    return [height if step in jumps else 0.01 + 0.01 * 0.98**step for step in range(STEPS)]


def grown(*backs: int, to: float = 0.0) -> list[float]:
    """Return norms that grow by a hundredth of the first at each step, and fall back at some steps."""
    found, way = [], 0.0
    for step in range(STEPS):
        way = to * way if step in backs else way + 0.01
        found.append(4.0 * (1 + way))
    return found


def as_at_first(*backs: int) -> list[float]:
    """Return norms that grow as those of `grown`, and are the very first one again at some steps."""
    found = grown()
    for back in backs:
        found[back:] = found[: STEPS - back]
    return found


def losses(*backs: int, to: float = 1.0, learned: float = 0.3) -> list[float]:
    """Return losses that fall to a share of the first, and rise to another at some steps."""
    found, since, top = [], 0, 1.0
    for step in range(STEPS):
        since, top = (step, to) if step in backs else (since, top)
        found.append(2.3 * (learned + (top - learned) * 0.96 ** (step - since)))
    return found


def case(
    name: str,
    updates: Sequence[float],
    *norms: Sequence[float],
    loss: Sequence[float] | None = None,
    fires: bool = False,
) -> RuleCase:
    recorded = {tensor: {"l2": along(column)} for tensor, column in zip(NAMES, norms, strict=False)}
    recorded[UPDATE_SIZE] = {"mean": along(updates)}
    if loss is not None:
        recorded["CrossEntropyLoss_output_0"] = {"mean": along(loss)}
    return RuleCase(name, recorded=recorded, facts=FACTS, fires=(UPDATE_SIZE,) if fires else ())


CASES = [
    case("twice", sizes(40, 80), *[grown(40, 80)] * 3, fires=True),
    case("to near the first", sizes(40, 80), *[grown(40, 80, to=0.3)] * 3, fires=True),
    case("three times, of one weight", sizes(30, 60, 90), grown(30, 60, 90), fires=True),
    case("one weight of three began anew otherwise", sizes(40, 80), grown(40, 80), grown(40, 80), grown(), fires=True),
    case("all updates after it are large", sizes(40, 80, height=0.08), *[grown(40, 80)] * 3, fires=True),
    case(
        "two of five weights, as from a part of a checkpoint",
        sizes(40, 80, height=0.08),
        *[grown()] * 3,
        *[as_at_first(40, 80)] * 2,
        fires=True,
    ),
    case("a small jump half of the way back", sizes(40, 80, height=0.08), *[grown(40, 80, to=0.45)] * 3),
    case(
        "a small jump, and one weight of five is as before",
        sizes(40, 80, height=0.08),
        *[grown()] * 4,
        as_at_first(40, 80),
    ),
    case("never", sizes(), *[grown()] * 3),
    case("once, as after a search for a rate", sizes(40), *[grown(40)] * 3),
    case("once, and all is lost", sizes(40), *[grown(40)] * 3, loss=losses(40), fires=True),
    case("once, and the loss goes on falling", sizes(40), *[grown(40)] * 3, loss=losses()),
    case("once, and most of it is left", sizes(40), *[grown(40)] * 3, loss=losses(40, to=0.8)),
    case("once, before anything was learned", sizes(40), *[grown(40)] * 3, loss=losses(40, learned=0.9)),
    case("once, to near the first", sizes(40), *[grown(40, to=0.3)] * 3, loss=losses(40)),
    case("the newest layer begins anew", sizes(40, 80), grown(), grown(), grown(40, 80)),
    case("jumps onwards", sizes(40, 80), *[grown()] * 3),
    case("a little back, as by averaging", sizes(40, 80, height=0.05), *[grown(40, 80, to=0.8)] * 3),
    case("smooth, and back", sizes(), *[grown(40, 80)] * 3),
    case("weights that never moved", sizes(40, 80), *[[4.0] * STEPS] * 3),
    case("no norms", sizes(40, 80)),
]

test_cases = every_case(WeightsSetBack(), CASES)


@pytest.mark.parametrize(
    ("updates", "jumps"),
    [
        pytest.param(sizes(20, 50), [20, 50], id="two"),
        pytest.param(sizes(20, 21), [], id="two-in-a-row"),
        pytest.param(sizes(5), [], id="at-the-start"),
        pytest.param(sizes(STEPS - 1), [], id="only-just"),
        pytest.param(sizes(*range(40, STEPS)), [], id="a-higher-rate"),
        pytest.param([0.01] * 12, [], id="too-few"),
        pytest.param([*sizes(50), np.inf], [], id="not-finite"),
        pytest.param([0.0] * STEPS, [], id="nothing-moves"),
    ],
)
def test_a_jump_stands_alone(updates: list[float], jumps: list[int]) -> None:
    assert jumps_of(np.array(updates), times=8).tolist() == jumps


def test_its_cause_is_observed() -> None:
    findings = assert_case(WeightsSetBack(), CASES[0])
    assert (findings[0].since_step, findings[0].statistics["last_at"]) == (40, 80)
    assert [each.cause for each in WeightsSetBack().suspicions(findings, CASES[0].window)] == [Cause.WEIGHTS_SET_BACK]


def test_what_it_lacks() -> None:
    brief = RuleCase("a few steps", recorded={UPDATE_SIZE: {"mean": along([0.01] * 9)}}).window
    assert WeightsSetBack().lacks(brief)
    assert not WeightsSetBack().lacks(CASES[0].window)
