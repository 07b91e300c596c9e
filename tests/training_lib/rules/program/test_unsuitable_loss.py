"""unsuitable-loss: a loss function that is given what it does not expect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.training_lib.rules.columns import along, falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.observations import (
    BEYOND_REACH,
    BLANK_LABELS,
    COMPARED_WITH,
    DIVERGENCE_OF,
    LEAST_SHARE,
    LOWERS_LIKELIHOOD,
    MARGIN,
    SEVERAL_CLASSES,
    TAKES_SCORES_FOR_PROBABILITIES,
)
from trackside.contracts.verdict import Severity
from trackside.rules.program.unsuitable_loss import UnsuitableLoss
from trackside.testing.rule_case import RuleCase, assert_case

CE, MSE, NLL = "CrossEntropyLoss_output_0", "MSELoss_output_0", "NLLLoss_output_0"
ONE, TWO = (OptimizerFacts("SGD", "SGD"),), (OptimizerFacts("SGD", "SGD"), OptimizerFacts("Adam", "Adam"))


def case(
    name: str,
    loss: LossFacts,
    values: Mapping[int, float],
    *,
    fires: bool = False,
    optimizers: tuple[OptimizerFacts, ...] = ONE,
) -> RuleCase:
    facts = ModelFacts(losses=(loss,), optimizers=optimizers)
    return RuleCase(name, recorded={loss.name: {"mean": values}}, fires=(loss.name,) if fires else (), facts=facts)


def growing(
    name: str,
    values: list[float],
    *,
    gradient: float = 20.0,
    fires: bool = False,
    optimizers: tuple[OptimizerFacts, ...] = ONE,
) -> RuleCase:
    """A loss by hand, and a gradient whose norm goes from 1 to `gradient`."""
    found = case(name, LossFacts("loss_output_0"), along(values), fires=fires, optimizers=optimizers)
    recorded = {**found.recorded, "gradient/Net_0.weight": {"l2": falling(1.0, gradient)}}
    return replace(found, recorded=recorded)


NO_PROBABILITIES = LossFacts(CE, "CrossEntropyLoss", class_count=9, observed={TAKES_SCORES_FOR_PROBABILITIES: True})
BRIEF = falling(2.3, 0.1, 10)
SPEEDS_UP = [1 - 0.02 * step**2 for step in range(60)]


def at_margin(margin: float) -> LossFacts:
    return LossFacts("loss_output_0", observed={MARGIN: margin})


AT_ONE = along([1.2 - 0.19 * min(step, 20) / 20 + 0.01 * (-1) ** step for step in range(200)])
AT_FIFTH = [0.201 + 0.001 * (-1) ** step for step in range(200)]
BELOW_ONE = [0.95 + 0.01 * (-1) ** step for step in range(200)]
CASES = [
    case("maximised", LossFacts(CE, "CrossEntropyLoss", scale=-1.0, class_count=10), steady(2.3), fires=True),
    case("maximised by accumulation", LossFacts(MSE, "MSELoss", scale=-0.25), along(range(60)), fires=True),
    case("scores for NLLLoss", LossFacts(NLL, "NLLLoss", class_count=10), along(range(0, -60, -1)), fires=True),
    case("one class", LossFacts(CE, "CrossEntropyLoss", class_count=1), steady(0.0), fires=True),
    case("one class for NLLLoss", LossFacts(NLL, "NLLLoss", class_count=1), steady(-0.5), fires=True),
    case(
        "a column less a row",
        LossFacts(MSE, "MSELoss", input_shape=(32, 32), observed={COMPARED_WITH: 32}),
        BRIEF,
        fires=True,
    ),
    case("a column less a row, by hand", LossFacts("loss_output_0", observed={COMPARED_WITH: 32}), BRIEF, fires=True),
    growing("a squared error by hand with a minus", SPEEDS_UP, fires=True),
    case("like driven apart", at_margin(1.0), AT_ONE, fires=True),
    case("like driven apart, another margin", at_margin(0.2), along(AT_FIFTH), fires=True),
    case("a likelihood made small", LossFacts("loss_output_0", observed={LOWERS_LIKELIHOOD: True}), BRIEF, fires=True),
    case(
        "scores behind a ReLU",
        LossFacts(CE, "CrossEntropyLoss", class_count=9, observed={BEYOND_REACH: 1.0}),
        BRIEF,
        fires=True,
    ),
    case(
        "half of the targets below a ReLU", LossFacts(MSE, "MSELoss", observed={BEYOND_REACH: 0.5}), BRIEF, fires=True
    ),
    case(
        "targets of a loss by hand beyond reach",
        LossFacts("loss_output_0", observed={BEYOND_REACH: 0.4}),
        BRIEF,
        fires=True,
    ),
    case("scores for probabilities", NO_PROBABILITIES, BRIEF, fires=True),
    case(
        "a divergence of probabilities",
        LossFacts("loss_output_0", observed={DIVERGENCE_OF: "probabilities"}),
        BRIEF,
        fires=True,
    ),
    case(
        "cosines times a tenth",
        LossFacts(CE, "CrossEntropyLoss", class_count=64, observed={LEAST_SHARE: 0.98}),
        steady(4.06, 200),
        fires=True,
    ),
    case(
        "several classes a row", LossFacts(CE, "CrossEntropyLoss", observed={SEVERAL_CLASSES: 0.9}), BRIEF, fires=True
    ),
    case("a label that is the blank", LossFacts(CE, "CTCLoss", observed={BLANK_LABELS: 0.1}), BRIEF, fires=True),
    case("labels without the blank", LossFacts(CE, "CTCLoss"), BRIEF),
    case("several classes in a few rows", LossFacts(CE, "CrossEntropyLoss", observed={SEVERAL_CLASSES: 0.4}), BRIEF),
    case(
        "cosines over a temperature",
        LossFacts(CE, "CrossEntropyLoss", class_count=64, observed={LEAST_SHARE: 0.01}),
        steady(4.06, 200),
    ),
    case(
        "cosines of ten classes",
        LossFacts(CE, "CrossEntropyLoss", class_count=10, observed={LEAST_SHARE: 0.35}),
        steady(2.0, 200),
    ),
    case("a divergence of logarithms", LossFacts("loss_output_0"), BRIEF),
    case("probabilities", replace(NO_PROBABILITIES, observed={}), BRIEF),
    case("a few targets beyond reach", LossFacts(MSE, "MSELoss", observed={BEYOND_REACH: 0.04}), BRIEF),
    case("all targets within reach", LossFacts(MSE, "MSELoss", input_from="relu"), BRIEF),
    case("an adversary", LossFacts("loss_output_0", observed={LOWERS_LIKELIHOOD: True}), BRIEF, optimizers=TWO),
    case("like brought together", at_margin(1.0), falling(1.0, 0.1, 200)),
    case("a little below the margin", at_margin(1.0), along(BELOW_ONE)),
    case("still falling", at_margin(1.0), falling(1.01, 0.99, 200)),
    case("far above the margin", at_margin(1.0), along([4 + x for x in BELOW_ONE])),
    case("at the margin, and little seen of it", at_margin(1.0), along([1.01] * 60)),
    case("about one, and no margin", LossFacts("loss_output_0"), AT_ONE),
    case("each prediction against its own target, of two models", LossFacts("loss_output_0"), BRIEF, optimizers=TWO),
    growing("below zero, but it settles", [1 - 30 * (1 - 0.9**step) for step in range(60)]),
    growing("below zero, but not far", [-0.2 * value for value in SPEEDS_UP]),
    growing("it runs away, but nothing grows", SPEEDS_UP, gradient=1.0),
    growing("two models against each other", SPEEDS_UP, optimizers=TWO),
    case("minimised", LossFacts(CE, "CrossEntropyLoss", class_count=10), falling(2.3, 0.1)),
    case("a generator", LossFacts(CE, "CrossEntropyLoss", scale=-1.0, class_count=2), steady(0.7), optimizers=TWO),
    case("a likelihood by hand", LossFacts("loss_output_0", ""), along(range(0, -60, -1))),
    case("divided for accumulation", LossFacts(MSE, "MSELoss", scale=0.25), falling(3.0, 0.1)),
    case("a loss that may be negative", LossFacts("G_output_0", "GaussianNLLLoss"), along(range(0, -60, -1))),
]


@pytest.mark.parametrize(("module", "fires"), [("", False), ("body", True)], ids=["an-input", "a-weight"])
def test_an_input_may_be_optimised_to_raise_a_loss(module: str, fires: bool) -> None:
    run = case("maximised", LossFacts(CE, "CrossEntropyLoss", scale=-1.0, class_count=10), steady(2.3), fires=fires)
    assert isinstance(run.facts, ModelFacts)
    held = ParameterFacts("input_0", module, (8, 8), "float32", optimizer="SGD")
    assert_case(UnsuitableLoss(), replace(run, facts=replace(run.facts, parameters=(held,))))


test_cases = every_case(UnsuitableLoss(), CASES)


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        pytest.param(CASES[0], Cause.LOSS_SIGN, id="sign"),
        pytest.param(CASES[2], Cause.WRONG_LOSS, id="below-zero"),
        pytest.param(CASES[3], Cause.WRONG_LOSS, id="one-class"),
        pytest.param(CASES[5], Cause.WRONG_LOSS, id="broadcasting"),
        pytest.param(CASES[7], Cause.LOSS_SIGN, id="running-away"),
        pytest.param(CASES[8], Cause.LOSS_SIGN, id="at-the-margin"),
        pytest.param(CASES[10], Cause.LOSS_SIGN, id="likelihood"),
        pytest.param(CASES[11], Cause.WRONG_LOSS, id="scores-beyond-reach"),
        pytest.param(CASES[12], Cause.WRONG_LOSS, id="targets-beyond-reach"),
    ],
)
def test_what_it_suspects(case: RuleCase, cause: Cause) -> None:
    findings = assert_case(UnsuitableLoss(), case)
    assert UnsuitableLoss().suspicions(findings, case.window)[0].cause is cause


@pytest.mark.parametrize(
    ("loss", "observed"),
    [
        pytest.param(LossFacts("loss_output_0", observed={COMPARED_WITH: 32}), 1 / 32, id="counted"),
        pytest.param(
            LossFacts(MSE, "MSELoss", observed={COMPARED_WITH: 10}),
            0.1,
            id="the-number-of-the-class",
        ),
    ],
)
def test_the_share_of_a_broadcast_is_measured(loss: LossFacts, observed: float) -> None:
    (finding,) = assert_case(UnsuitableLoss(), case("a critic and its actor", loss, BRIEF, fires=True, optimizers=TWO))
    assert finding.observed == observed


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        pytest.param(CASES[0], Severity.CRITICAL, id="certain"),
        pytest.param(CASES[7], Severity.WARNING, id="by-its-numbers"),
        pytest.param(CASES[8], Severity.WARNING, id="at-the-margin"),
        pytest.param(CASES[10], Severity.WARNING, id="likelihood"),
        pytest.param(CASES[11], Severity.WARNING, id="scores-beyond-reach"),
    ],
)
def test_how_bad_it_is(case: RuleCase, severity: Severity) -> None:
    assert UnsuitableLoss().severity_of(assert_case(UnsuitableLoss(), case)) is severity


def test_a_dip_below_zero_is_no_finding() -> None:
    assert_case(
        UnsuitableLoss(), case("a dip", LossFacts(NLL, "NLLLoss", class_count=10), along([1.0] * 58 + [-1.0] * 2))
    )


def test_what_it_lacks() -> None:
    old = RuleCase("an old run", recorded={CE: {"mean": steady(-2.3)}}).window
    assert UnsuitableLoss().lacks(old)
    assert list(UnsuitableLoss().check(old)) == []
