"""dead-relu: units that answer zero to every input, and so cannot learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.columns import along, falling, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts, OptimizerFacts, ParameterFacts
from trackside.contracts.observations import HAS_EQUAL_ROWS
from trackside.contracts.verdict import Severity
from trackside.rules.tensors.dead_relu import DeadRelu
from trackside.situation.dead_units import dying
from trackside.testing.rule_case import RuleCase, assert_case

LOSS, HIDDEN, HEAD = "CrossEntropyLoss_output_0", "gradient/Net_hidden.bias", "gradient/Net_head.bias"
WEIGHT, READER = "gradient/Net_hidden.weight", "gradient/Net_head.weight"
TWO = ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam"), OptimizerFacts("Adam_1", "Adam")))


def facts(*, activation: str = "relu", batch: int = 64, role: str = "linear") -> ModelFacts:
    return ModelFacts(
        modules=(
            ModuleFacts("hidden", "M", role, line="model.py:4"),
            ModuleFacts("act", "A", "activation", activation),
        ),
        parameters=(ParameterFacts("Net_hidden.bias", "hidden", (32,), "float32", optimizer="SGD"),),
        losses=(LossFacts(LOSS, "CrossEntropyLoss", input_shape=(batch, 10), class_count=10),),
    )


def chain(*, normalised: bool = False) -> ModelFacts:
    """A hidden layer that the head reads, and the activation between them."""
    of = facts()
    names = [name.removeprefix("gradient/") for name in (WEIGHT, HIDDEN, READER, HEAD)]
    parameters = [ParameterFacts(name, name[4:].split(".")[0], (32,), "float32", optimizer="SGD") for name in names]
    norms = (ModuleFacts("norm", "LayerNorm", "normalization"),) if normalised else ()
    return replace(of, parameters=tuple(parameters), modules=(*of.modules, *norms, ModuleFacts("head", "L", "linear")))


def case(
    name: str,
    hidden: Mapping[int, float],
    *,
    head: float = 0.0,
    weight: float | None = None,
    loss: Mapping[int, float] | None = None,
    cut: bool = False,
    reader: Mapping[int, float] | None = None,
    fires: bool = False,
    of: ModelFacts | None = None,
) -> RuleCase:
    recorded: dict[str, Any] = {
        HIDDEN: {"zero_share": hidden},
        WEIGHT: {"zero_share": hidden if weight is None else steady(weight, 11, every=10)},
        HEAD: {"zero_share": steady(head, 11, every=10)},
        LOSS: {"mean": loss or steady(2.3, 101)},
    }
    if reader is not None:
        recorded[READER] = {"zero_share": reader}
    for name_, norm in {HIDDEN: 0.0, WEIGHT: 0.0, HEAD: 1.0}.items() if cut else ():
        recorded[name_]["l2"] = steady(norm, 101)
    return RuleCase(name, recorded=recorded, fires=(HIDDEN,) if fires else (), facts=of or facts())


def tenth(share: float, count: int = 11) -> dict[int, float]:
    return steady(share, count, every=10)


DIED = along([0.1] * 4 + [0.95] * 7, every=10)
CASES = [
    case("most of a layer", tenth(0.9), fires=True),
    case("a whole layer", tenth(1.0), cut=True, fires=True),
    case("it died after a while", DIED, fires=True),
    case("a whole layer, although it learns", tenth(1.0), loss=falling(2.3, 0.1, 101), fires=True),
    case("a whole layer, and most of the loss is left", tenth(1.0), loss=falling(2.3, 1.7, 101), cut=True, fires=True),
    RuleCase("without facts", recorded=case("", tenth(0.9)).recorded, fires=(HIDDEN,)),
    case("the next layer reads zeros", tenth(0.9), reader=tenth(0.88), of=chain(), fires=True),
    case("half of the next layer is dead too", tenth(0.9), head=0.5, reader=tenth(0.95), of=chain(), fires=True),
    case("a normalisation behind it", tenth(0.9), reader=tenth(0.0), of=chain(normalised=True), fires=True),
    case("as many as are usual", tenth(0.3)),
    case("a wide layer that learns", tenth(0.95), loss=falling(2.3, 0.1, 101)),
    replace(case("a wide layer that begins to learn", tenth(0.99), loss=falling(2.3, 0.5, 101)), step=30),
    case("no unit is dead for long", along([0.95, 0.2] * 5 + [0.95], every=10)),
    case("nothing to learn: all gradients are zero", tenth(1.0), head=1.0),
    case("a bias that cancels out", tenth(1.0), weight=0.0),
    case("a head that had no turn: nobody reads zeros", tenth(0.9), reader=tenth(0.0), of=chain()),
    case("actions that nobody took", tenth(0.9), head=0.85, reader=tenth(0.86), of=chain()),
    case("all behind it had no turn either", tenth(1.0), head=0.95, reader=tenth(1.0), of=chain()),
    case("tanh", tenth(0.9), of=facts(activation="tanh")),
    case("an embedding", tenth(0.99), of=facts(role="embedding")),
    case("a batch of four", tenth(0.9), of=facts(batch=4)),
]

test_cases = every_case(DeadRelu(), CASES)


@pytest.mark.parametrize(
    ("case", "severity"),
    [
        pytest.param(CASES[0], Severity.WARNING, id="most"),
        pytest.param(CASES[1], Severity.CRITICAL, id="all"),
        pytest.param(CASES[3], Severity.INFO, id="all-but-it-learns"),
        pytest.param(CASES[4], Severity.WARNING, id="all-but-it-learns-a-little"),
        pytest.param(case("", tenth(1.0), cut=True, fires=True, of=TWO), Severity.WARNING, id="two-optimizers"),
        pytest.param(case("", tenth(1.0), fires=True), Severity.WARNING, id="other-gradients-are-not-known"),
    ],
)
def test_how_bad_it_is(case: RuleCase, severity: Severity) -> None:
    assert DeadRelu().severity_of(assert_case(DeadRelu(), case)) is severity


def test_units_that_started_alike_are_told_so() -> None:
    alike = case(
        "",
        tenth(0.9),
        of=replace(facts(), parameters=(ParameterFacts("W", "w", (2, 2), "float32", observed={HAS_EQUAL_ROWS: True}),)),
        fires=True,
    )
    findings = assert_case(DeadRelu(), alike)
    assert DeadRelu().suspicions(findings, alike.window)[0].cause is Cause.SYMMETRIC_INITIALIZATION


@pytest.mark.parametrize(
    ("case", "second", "since"),
    [
        pytest.param(CASES[0], Cause.BAD_INITIALIZATION, 0, id="from-the-first-step"),
        pytest.param(CASES[2], Cause.LEARNING_RATE_TOO_HIGH, 40, id="later"),
    ],
)
def test_what_it_suspects(case: RuleCase, second: Cause, since: int) -> None:
    findings = assert_case(DeadRelu(), case)
    causes = [suspicion.cause for suspicion in DeadRelu().suspicions(findings, case.window)]
    assert causes[:2] == [Cause.DEAD_UNITS, second]
    assert (findings[0].since_step, findings[0].place) == (since, "model.py:4")


def test_what_it_lacks() -> None:
    assert DeadRelu().lacks(case("too early", tenth(1.0, 3), head=0.0).window) == ""  # the head was measured
    assert DeadRelu().lacks(RuleCase("nothing", recorded={LOSS: {"mean": steady(1.0)}}).window)


shares = st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, 1), max_size=6)


@given(shares=shares, threshold=st.floats(0, 100))
def test_the_deadest_first_and_never_all(shares: dict[str, float], threshold: float) -> None:
    found = dying(shares, threshold_layer=threshold)
    assert len(found) < max(1, len(shares))
    assert [shares[name] for name in found] == sorted((shares[name] for name in found), reverse=True)
    assert all(shares[name] > threshold / 100 for name in found)
