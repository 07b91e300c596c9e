"""stale-statistics: layers use statistics in eval mode that no training mode ever updated."""

from __future__ import annotations

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import ModelFacts, ModuleFacts, ParameterFacts, ProgramFacts
from trackside.contracts.observations import (
    STALE_CASTS,
    STALE_COPY_EVALUATIONS,
    STALE_COPY_LINE,
    STALE_STATE,
    STILL_COPY_EVALUATIONS,
    STILL_TARGET_STEPS,
)
from trackside.rules.program.stale_statistics import StaleStatistics
from trackside.testing.rule_case import RuleCase

LOSS = {"Loss_output_0": {"mean": steady(1, 30)}}


def layer(state: str, *, name: str = "norm", is_training: bool = False, from_step: int = 0) -> ModelFacts:
    module = ModuleFacts(name, "Layer", is_training=is_training, observed={STALE_STATE: state})
    return ModelFacts(from_step=from_step, modules=(module,))


def with_weight(facts: ModelFacts, **values: object) -> ModelFacts:
    weight = ParameterFacts("Net_fc.weight", "fc", (8, 6), "float32", **values)  # type: ignore[arg-type]
    return ModelFacts(modules=facts.modules, parameters=(weight,))


def still(evaluations: int) -> ModelFacts:
    return ModelFacts(program=ProgramFacts(observed={STILL_COPY_EVALUATIONS: evaluations}))


def target(steps: int) -> ModelFacts:
    return ModelFacts(program=ProgramFacts(observed={STILL_TARGET_STEPS: steps}))


def casts(calls: int) -> ModelFacts:
    return ModelFacts(modules=(ModuleFacts("fc", "Linear", observed={STALE_CASTS: calls}),))


SPECTRAL = layer("spectral norm", name="fc")
PARAMETRIZED = layer("spectral norm", name="fc.parametrizations.weight.0")
CASES = [
    RuleCase("batch norm", recorded=LOSS, facts=layer("running statistics"), fires=("norm",)),
    RuleCase("spectral norm", recorded=LOSS, facts=with_weight(SPECTRAL, optimizer="SGD"), fires=("fc",)),
    RuleCase(
        "a parametrization",
        recorded=LOSS,
        facts=with_weight(PARAMETRIZED, optimizer="SGD"),
        fires=("fc.parametrizations.weight.0",),
    ),
    RuleCase(
        "an average of weights",
        recorded=LOSS,
        facts=ModelFacts(program=ProgramFacts(observed={STALE_COPY_EVALUATIONS: 1, STALE_COPY_LINE: "train.py:93"})),
        fires=("copy of the model",),
    ),
    RuleCase("an average that nothing updates", recorded=LOSS, facts=still(3), fires=("copy of the model",)),
    RuleCase("a copy that was evaluated twice", recorded=LOSS, facts=still(2)),
    RuleCase("a target in 20,000 steps", recorded=LOSS, facts=target(20_000), fires=("target network",)),
    RuleCase("a target in a run that goes on", recorded=LOSS, facts=target(5000), step=10),
    RuleCase("a target in a run that has ended", recorded=LOSS, facts=target(200), fires=("target network",)),
    RuleCase("old casts of weights", recorded=LOSS, facts=casts(3), fires=("fc",)),
    RuleCase("new casts of weights", recorded=LOSS, facts=casts(0)),
    RuleCase("no average that is stale", recorded=LOSS, facts=ModelFacts(program=ProgramFacts())),
    RuleCase("nothing stale", recorded=LOSS, facts=layer("")),
    RuleCase("in training mode again", recorded=LOSS, facts=layer("running statistics", is_training=True)),
    RuleCase("too early to tell", recorded=LOSS, facts=layer("running statistics", from_step=10)),
    RuleCase("a frozen weight", recorded=LOSS, facts=with_weight(SPECTRAL, requires_grad=False)),
    RuleCase("no facts", recorded=LOSS),
]

test_cases = every_case(StaleStatistics(), CASES)
