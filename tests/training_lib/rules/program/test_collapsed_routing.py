"""collapsed-routing: experts that the router never chooses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.training_lib.rules.columns import along, falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.observations import HAS_GRADIENT
from trackside.contracts.verdict import Severity
from trackside.rules.program.collapsed_routing import CollapsedRouting
from trackside.rules.program.parameters_not_trained import ParametersNotTrained
from trackside.testing.rule_case import RuleCase, replay

STEPS = 330


def held(module: str, *shape: int, name: str = "weight") -> ParameterFacts:
    return ParameterFacts(
        f"Net_{module}.{name}", module, shape, "float32", optimizer="SGD", observed={HAS_GRADIENT: True}
    )


def facts_of(*parameters: ParameterFacts) -> ModelFacts:
    names = ("moe", "moe.gate", "moe.experts", *(f"moe.experts.{number}" for number in range(4)))
    modules = tuple(ModuleFacts(name, "Part", line="model.py:8") for name in names)
    return ModelFacts(modules=modules, parameters=parameters, optimizers=(OptimizerFacts("SGD", "SGD"),))


ROUTER, EXPERTS = held("moe.gate", 4, 8), [held(f"moe.experts.{number}", 16, 8) for number in range(4)]
MODULES, ROWS = facts_of(ROUTER, *EXPERTS), facts_of(ROUTER, held("moe.experts", 4, 16, 8, name="up"))
GRADIENTS = [expert.gradient for expert in EXPERTS]
UP = "gradient/Net_moe.experts.up"

LOSS, FALLS = steady(1, STEPS), falling(1, 0.2, STEPS)
USED = {"is_present": steady(1, STEPS), "l2": steady(0.5, STEPS)}
UNUSED = {"is_present": steady(0, STEPS)}
ZEROS = {"is_present": steady(1, STEPS), "l2": steady(0, STEPS)}  # zero_grad(set_to_none=False)
AT_FIRST = {"is_present": along([1] * 60 + [0] * 270), "l2": steady(0.5, 60)}
NOW_AND_THEN = {"is_present": along([1, *[0] * 49] * 7), "l2": along([0.5] * 7, every=50)}
THINNED = {"is_present": steady(0, 21, every=16)}
TOO_FEW = {"is_present": steady(0, 5, every=60)}


def recorded(*each: Mapping[str, Any], loss: Mapping[int, float] = LOSS) -> dict[str, Any]:
    return {"Loss_output_0": {"mean": loss}, **dict(zip(GRADIENTS, each, strict=True))}


def rows(values: Mapping[int, float]) -> dict[str, Any]:
    return {"Loss_output_0": {"mean": steady(1, STEPS)}, UP: {"zero_share": values}}


CASES = [
    RuleCase("three of four", recorded=recorded(USED, UNUSED, UNUSED, UNUSED), facts=MODULES, fires=(GRADIENTS[1],)),
    RuleCase("zeros", recorded=recorded(USED, ZEROS, USED, ZEROS), facts=MODULES, fires=(GRADIENTS[1],)),
    RuleCase("since step 60", recorded=recorded(AT_FIRST, USED, USED, USED), facts=MODULES, fires=(GRADIENTS[0],)),
    RuleCase("measured seldom", recorded=recorded(USED, THINNED, USED, USED), facts=MODULES, fires=(GRADIENTS[1],)),
    RuleCase("rows", recorded=rows(steady(0.75, 8, every=40)), facts=ROWS, fires=(UP,)),
    RuleCase("rows and a ReLU", recorded=rows(steady(0.77, 8, every=40)), facts=ROWS, fires=(UP,)),
    RuleCase("all work", recorded=recorded(USED, USED, USED, USED), facts=MODULES),
    RuleCase("now and then", recorded=recorded(USED, NOW_AND_THEN, NOW_AND_THEN, NOW_AND_THEN), facts=MODULES),
    RuleCase("none works", recorded=recorded(UNUSED, UNUSED, UNUSED, UNUSED), facts=MODULES),
    RuleCase("hardly measured", recorded=recorded(USED, TOO_FEW, TOO_FEW, TOO_FEW), facts=MODULES),
    RuleCase("no router", recorded=recorded(USED, UNUSED, UNUSED, UNUSED), facts=facts_of(*EXPERTS)),
    RuleCase("too early", recorded=recorded(USED, UNUSED, UNUSED, UNUSED), facts=MODULES, step=150),
    RuleCase("rows, one measurement without", recorded=rows(along([0.75] * 7 + [0.0], every=40)), facts=ROWS),
    RuleCase("rows, zeros that are no experts", recorded=rows(steady(0.6, 8, every=40)), facts=ROWS),
    RuleCase("rows, all zeros", recorded=rows(steady(1.0, 8, every=40)), facts=ROWS),
    RuleCase("rows, hardly measured", recorded=rows(steady(0.75, 3, every=100)), facts=ROWS),
    RuleCase("no facts", recorded=recorded(USED, UNUSED, UNUSED, UNUSED)),
]


IDLE = (USED, UNUSED, UNUSED, UNUSED)
HARMLESS = RuleCase(
    "three of four, and the loss falls", recorded=recorded(*IDLE, loss=FALLS), facts=MODULES, fires=(GRADIENTS[1],)
)
UNSEEN = RuleCase(
    "three of four, and no loss", recorded=dict(zip(GRADIENTS, IDLE, strict=True)), facts=MODULES, fires=(GRADIENTS[1],)
)

test_cases = every_case(CollapsedRouting(), [*CASES, HARMLESS, UNSEEN])


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        (CASES[0], Severity.WARNING),
        (CASES[1], Severity.WARNING),
        (CASES[2], Severity.INFO),
        (HARMLESS, Severity.INFO),
        (UNSEEN, Severity.INFO),
        (CASES[4], Severity.INFO),  # others may be idle each time
    ],
    ids=str,
)
def test_severity(case: RuleCase, severity: Severity) -> None:
    rule = CollapsedRouting()
    assert rule.severity_of(replay(rule, case.trial)) is severity


@pytest.mark.parametrize(
    ("facts", "applies"), [(MODULES, True), (ROWS, True), (facts_of(*EXPERTS), False)], ids=["modules", "rows", "none"]
)
def test_it_is_for_models_with_a_router(facts: ModelFacts, *, applies: bool) -> None:
    assert (CollapsedRouting().nothing_to_judge(facts) == "") is applies


@pytest.mark.parametrize(
    ("each", "is_named"),
    [
        pytest.param((USED, UNUSED, UNUSED, UNUSED), False, id="a-matter-of-the-router"),
        pytest.param((UNUSED, UNUSED, UNUSED, UNUSED), True, id="nothing-reaches-the-layer"),
    ],
)
def test_experts_without_work_are_not_called_frozen(each: tuple[Mapping[str, Any], ...], *, is_named: bool) -> None:
    case = RuleCase("", recorded=recorded(*each), facts=MODULES)
    assert bool(replay(ParametersNotTrained(), case.trial)) is is_named
