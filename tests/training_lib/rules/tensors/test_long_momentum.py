"""long-momentum: an average over more steps than the ended run had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.training_lib.rules.columns import falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts
from trackside.rules.tensors.long_momentum import LongMomentum
from trackside.testing.rule_case import RuleCase, assert_case

CE = "CrossEntropyLoss_output_0"


def case(
    name: str,
    group: Mapping[str, float],
    *,
    loss: Mapping[int, float] | None = None,
    steps: int = 150,
    fires: bool = False,
    **further: Any,
) -> RuleCase:
    facts = ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam", groups=(group,)),), losses=(LossFacts(CE, ""),))
    recorded = {CE: {"mean": loss or falling(2.3, 1.1, steps)}}
    return RuleCase(name, recorded=recorded, facts=facts, fires=("Adam",) if fires else (), **further)


CASES = [
    case("a thousand steps, of 150", {"betas_0": 0.999, "betas_1": 0.999}, fires=True),
    case("momentum of SGD", {"momentum": 0.998}, fires=True),
    case("where nothing is learned", {"momentum": 0.999}, loss=steady(2.3, 150), fires=True),
    case("a hundred steps, of 40", {"momentum": 0.99}, steps=40),
    case("the usual", {"betas_0": 0.9, "betas_1": 0.999}),
    case("a thousand steps, of 600", {"betas_0": 0.999}, steps=600),
    case("a loss that is nearly gone", {"betas_0": 0.999}, loss=falling(2.3, 0.1, 150)),
    case("a trial of the script", {"betas_0": 0.999}, steps=10),
    case("the run goes on", {"betas_0": 0.999}, step=100),
    case("no momentum", {"lr": 0.1}),
]

test_cases = every_case(LongMomentum(), CASES)


def test_message_and_cause() -> None:
    findings = assert_case(LongMomentum(), CASES[0])
    assert LongMomentum().sentence(findings) == (
        "The optimizer averages the gradients of about 1,000 steps (momentum 0.999), and the run had 150."
    )
    (cause,) = LongMomentum().suspicions(findings, CASES[0].window)
    assert (cause.cause, cause.because) == (Cause.MOMENTUM_TOO_HIGH, "momentum is 0.999")
