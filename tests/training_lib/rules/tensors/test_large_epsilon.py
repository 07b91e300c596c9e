"""large-epsilon: an epsilon that outweighs the gradients, with tiny steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.training_lib.rules.columns import falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts
from trackside.rules.tensors.large_epsilon import LargeEpsilon
from trackside.testing.rule_case import RuleCase, assert_case

A, B = "Net_a.weight", "Net_b.weight"
CE = "CrossEntropyLoss_output_0"
STEPS = 150


def facts(*, eps: float = 1.0, key: str = "eps") -> ModelFacts:
    return ModelFacts(
        parameters=tuple(ParameterFacts(n, n[4], (50, 50), "float32", optimizer="Adam", group=0) for n in (A, B)),
        optimizers=(OptimizerFacts("Adam", "Adam", groups=({"lr": 1e-3, key: eps},)),),
        losses=(LossFacts(CE, "CrossEntropyLoss"),),
    )


def case(
    name: str,
    *,
    gradients: tuple[float, float] = (0.5, 0.8),
    update: float = 1e-4,
    loss: Mapping[int, float] | None = None,
    of: ModelFacts | None = None,
    fires: bool = False,
    **further: Any,
) -> RuleCase:
    recorded: dict[str, dict[str, Mapping[int, float]]] = {CE: {"mean": loss or falling(2.3, 2.0, STEPS)}}
    for weight, gradient in zip((A, B), gradients, strict=True):
        recorded[weight] = {"update_ratio": steady(update, STEPS), "l2": steady(4.0, STEPS)}
        recorded[f"gradient/{weight}"] = {"l2": steady(gradient, STEPS)}
    fired = (f"gradient/{A}",) if fires else ()
    return RuleCase(name, recorded=recorded, facts=of or facts(), fires=fired, **further)


CASES = [
    case("a hundred times the gradients", fires=True),
    case("where the loss hardly moves", loss=steady(2.3, STEPS), fires=True),
    case("at a tenth", of=facts(eps=0.1), gradients=(0.05, 0.08), fires=True),
    case("a rate that makes up for it", update=1e-3),
    case("a loss that is nearly gone", loss=falling(2.3, 0.2, STEPS)),
    case("a gradient as large as it", gradients=(0.5, 30.0)),
    case("the default, beside no gradients", of=facts(eps=1e-8), gradients=(1e-9, 1e-9)),
    case("an optimizer without one", of=facts(key="momentum")),
    case("one weight without an optimizer's epsilon", of=replace(facts(), optimizers=())),
    case("too early", step=60),
]

test_cases = every_case(LargeEpsilon(), CASES)


def test_message_and_cause() -> None:
    findings = assert_case(LargeEpsilon(), CASES[0])
    assert LargeEpsilon().sentence(findings) == (
        "The optimizer's epsilon is at least 62.5 times the size of the gradients, and a step changes the weights by "
        "0.0001 of their size."
    )
    (cause,) = LargeEpsilon().suspicions(findings, CASES[0].window)
    assert (cause.cause, cause.because) == (
        Cause.LEARNING_RATE_TOO_LOW,
        "eps is 62.5 times the gradients and more",
    )
