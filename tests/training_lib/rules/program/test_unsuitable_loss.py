"""unsuitable-loss: a loss function that is given what it does not expect."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.training_lib.rules.columns import along, falling, steady
from trackside.contracts.cause import Cause
from trackside.records.model_facts import LossFacts, ModelFacts, OptimizerFacts
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


CASES = [
    case("maximised", LossFacts(CE, "CrossEntropyLoss", scale=-1.0, class_count=10), steady(2.3), fires=True),
    case("maximised by accumulation", LossFacts(MSE, "MSELoss", scale=-0.25), along(range(60)), fires=True),
    case("scores for NLLLoss", LossFacts(NLL, "NLLLoss", class_count=10), along(range(0, -60, -1)), fires=True),
    case("one class", LossFacts(CE, "CrossEntropyLoss", class_count=1), steady(0.0), fires=True),
    case("one class for NLLLoss", LossFacts(NLL, "NLLLoss", class_count=1), steady(-0.5), fires=True),
    case("minimised", LossFacts(CE, "CrossEntropyLoss", class_count=10), falling(2.3, 0.1)),
    case("a generator", LossFacts(CE, "CrossEntropyLoss", scale=-1.0, class_count=2), steady(0.7), optimizers=TWO),
    case("a likelihood by hand", LossFacts("loss_output_0", ""), along(range(0, -60, -1))),
    case("divided for accumulation", LossFacts(MSE, "MSELoss", scale=0.25), falling(3.0, 0.1)),
    case("a loss that may be negative", LossFacts("G_output_0", "GaussianNLLLoss"), along(range(0, -60, -1))),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    assert_case(UnsuitableLoss(), case)


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        pytest.param(CASES[0], Cause.LOSS_SIGN, id="sign"),
        pytest.param(CASES[2], Cause.WRONG_LOSS, id="below-zero"),
        pytest.param(CASES[3], Cause.WRONG_LOSS, id="one-class"),
    ],
)
def test_what_it_suspects(case: RuleCase, cause: Cause) -> None:
    findings = assert_case(UnsuitableLoss(), case)
    assert UnsuitableLoss().suspicions(findings, case.window)[0].cause is cause


def test_a_dip_below_zero_is_no_finding() -> None:
    assert_case(
        UnsuitableLoss(), case("a dip", LossFacts(NLL, "NLLLoss", class_count=10), along([1.0] * 58 + [-1.0] * 2))
    )


def test_what_it_lacks() -> None:
    old = RuleCase("an old run", recorded={CE: {"mean": steady(-2.3)}}).window
    assert UnsuitableLoss().lacks(old)
    assert list(UnsuitableLoss().check(old)) == []
