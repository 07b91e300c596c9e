"""steps-without-gradients: the optimizer steps, and no new gradients were computed for the step."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.observations import HAS_GRADIENT, LOOKS_UNTRAINED, NEVER_HAD_GRADIENT
from trackside.contracts.run.recorded_names import BACKWARD_PASSES, WITHOUT_GRADIENTS
from trackside.rules.program.steps_without_gradients import StepsWithoutGradients
from trackside.testing.rule_case import RuleCase, Statistics, assert_case, replay


def passes(values: Mapping[int, object], empty: Mapping[int, object] | None = None) -> Statistics:
    found: dict[str, dict[str, Mapping[int, object]]] = {BACKWARD_PASSES: {"mean": values}}
    return found | ({WITHOUT_GRADIENTS: {"mean": empty}} if empty else {})


def of_two(first: float, second: float) -> dict[int, object]:
    return {step: {"worker_0": first, "worker_1": second} for step in range(30)}


def several(*empty: bool, steps: int = 120, step: int | None = None, fires: tuple[str, ...] = ()) -> RuleCase:
    """Return a run with optimizers, some of which never had a gradient."""
    optimizers = [OptimizerFacts(f"Adam{i}", "Adam", observed={NEVER_HAD_GRADIENT: e}) for i, e in enumerate(empty)]
    name = f"{sum(empty)} of {len(empty)} optimizers never had a gradient, {steps} steps"
    facts = ModelFacts(optimizers=tuple(optimizers))
    return RuleCase(name, recorded=passes(steady(1, steps)), facts=facts, fires=fires, step=step)


CASES = [
    RuleCase("two steps for each pass", recorded=passes(along([1, 0] * 20)), fires=(BACKWARD_PASSES,)),
    RuleCase("four steps for each pass", recorded=passes(along([1, 0, 0, 0] * 10)), fires=(BACKWARD_PASSES,)),
    RuleCase("no pass any more", recorded=passes(along([1] * 30 + [0] * 10)), fires=(BACKWARD_PASSES,)),
    RuleCase("on one of two workers", recorded=passes(of_two(1, 0)), fires=(BACKWARD_PASSES,)),
    RuleCase("cleared after each pass", recorded=passes(steady(1), steady(1)), fires=(WITHOUT_GRADIENTS,)),
    RuleCase(
        "cleared too early at every third step",
        recorded=passes(steady(1), steady(1, 20, every=3)),
        fires=(WITHOUT_GRADIENTS,),
    ),
    RuleCase("one pass a step", recorded=passes(steady(1))),
    RuleCase("eight passes a step", recorded=passes(steady(8))),
    RuleCase("too early to tell", recorded=passes(steady(0, 19))),
    RuleCase("a step without a pass now and then", recorded=passes(along([1] * 9 + [0] + [1] * 50))),
    RuleCase("gradients after a bad start", recorded=passes(along([0] * 20 + [1] * 20), steady(1, 20))),
    RuleCase("nothing recorded of it", recorded={"Loss_output_0": {"mean": steady(1)}}),
    several(False, True, fires=("Adam1",)),
    several(True, False, True, fires=("Adam0", "Adam2")),
    several(False, True, steps=60, fires=("Adam1",)),
    several(False, True, step=60),
    several(False, False),
    several(True),
]

test_cases = every_case(StepsWithoutGradients(), CASES)


def test_it_says_since_when_where_and_why() -> None:
    loss = LossFacts("MSELoss_output_0", "MSELoss", backward_line="train.py:12")
    case = RuleCase(
        "late", recorded=passes(along([1] * 30 + [0] * 10)), fires=(BACKWARD_PASSES,), facts=ModelFacts(losses=(loss,))
    )
    (finding,) = assert_case(StepsWithoutGradients(), case)
    assert (finding.since_step, finding.observed, finding.place) == (30, 0.5, "train.py:12")
    assert StepsWithoutGradients().suspicions([finding], case.window)[0].cause is Cause.STEP_ORDER


def held(optimizer: str, *, gets: bool, is_frozen: bool = False) -> ParameterFacts:
    name = f"Net_{optimizer or 'left'}{is_frozen}.weight"
    return ParameterFacts(
        name,
        "Net",
        (8, 8),
        "float32",
        optimizer=optimizer,
        observed={HAS_GRADIENT: gets, LOOKS_UNTRAINED: True},
        requires_grad=not is_frozen,
    )


@pytest.mark.parametrize(
    ("parameters", "recorded", "cause"),
    [
        pytest.param((held("", gets=True),), passes(steady(1), steady(1)), "PARAMETERS_NOT_IN_OPTIMIZER", id="copies"),
        pytest.param((held("SGD", gets=True),), passes(steady(1), steady(1)), "STEP_ORDER", id="held"),
        pytest.param(
            (held("", gets=True), held("SGD", gets=True)), passes(steady(1), steady(1)), "STEP_ORDER", id="both"
        ),
        pytest.param(
            (held("SGD", gets=True, is_frozen=True),),
            passes(along([1] * 9 + [0] * 30)),
            "FROZEN_PARAMETERS",
            id="frozen",
        ),
        pytest.param(
            (held("SGD", gets=True), held("SGD", gets=False, is_frozen=True)),
            passes(along([1] * 9 + [0] * 30)),
            "STEP_ORDER",
            id="one-of-two-is-frozen",
        ),
        pytest.param(
            (held("SGD", gets=True),),
            passes(steady(1, 40), steady(1, 24, start=16)),
            "PARAMETERS_NOT_IN_OPTIMIZER",
            id="replaced",
        ),
        pytest.param(
            (held("SGD", gets=True),), passes(steady(1), steady(1, 20, every=2)), "STEP_ORDER", id="now-and-then"
        ),
        pytest.param((held("", gets=False),), passes(steady(1), steady(1)), "STEP_ORDER", id="without-gradients"),
        pytest.param((held("", gets=True),), passes(along([1, 0] * 20)), "STEP_ORDER", id="two-steps-a-pass"),
    ],
)
def test_what_the_optimizers_hold_is_named(
    parameters: tuple[ParameterFacts, ...], recorded: Statistics, cause: str
) -> None:
    case = RuleCase("a run", recorded=recorded, facts=ModelFacts(parameters=parameters))
    findings = list(StepsWithoutGradients().check(case.window))
    assert StepsWithoutGradients().suspicions(findings, case.window)[0].cause is Cause[cause]


@pytest.mark.parametrize(("count", "cause"), [(0, Cause.FROZEN_PARAMETERS), (3, Cause.STEP_ORDER)])
def test_an_optimizer_that_holds_nothing_is_named(count: int, cause: Cause) -> None:
    optimizer = OptimizerFacts("AdamW", "AdamW", groups=({"lr": 1e-3},), parameter_count=count)
    case = RuleCase("a run", recorded=passes(steady(1), steady(1)), facts=ModelFacts(optimizers=(optimizer,)))
    findings = list(StepsWithoutGradients().check(case.window))
    assert StepsWithoutGradients().suspicions(findings, case.window)[0].cause is cause


def test_the_first_verdict_comes_at_step_twenty() -> None:
    (finding,) = replay(StepsWithoutGradients(), CASES[0].trial)
    assert finding.step == 20


@pytest.mark.parametrize(("count", "lacks"), [(19, True), (20, False)])
def test_what_it_lacks(count: int, lacks: bool) -> None:
    assert bool(StepsWithoutGradients().lacks(RuleCase("a run", recorded=passes(steady(1, count))).window)) is lacks
