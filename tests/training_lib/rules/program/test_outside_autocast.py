"""outside-autocast: layers in full precision in a training that uses autocast."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.model_facts import LossFacts, ModelFacts, ModuleFacts, ParameterFacts
from trackside.contracts.observations import AUTOCAST
from trackside.contracts.verdict import Severity
from trackside.rules.program.outside_autocast import OutsideAutocast
from trackside.testing.rule_case import RuleCase, assert_case

CE = "CrossEntropyLoss_output_0"


def case(name: str, fires: tuple[str, ...] = (), **layers: tuple[str, int]) -> RuleCase:
    """A run with layers: name -> what became of it under autocast, and the number of its weights."""
    modules = tuple(
        ModuleFacts(layer, "Linear", "linear", observed={AUTOCAST: autocast}) for layer, (autocast, _) in layers.items()
    )
    parameters = tuple(
        ParameterFacts(f"Net_{layer}.weight", layer, (size,), "float32") for layer, (_, size) in layers.items()
    )
    facts = (ModelFacts(0, modules, parameters, losses=(LossFacts(CE, "CrossEntropyLoss"),)),)
    return RuleCase(name, recorded={CE: {"mean": steady(1.0, 60)}}, fires=fires, facts=facts)


CASES = [
    case("one went round autocast", ("b",), a=("half", 900), b=("bypassed", 1)),
    case("all went round it", ("a", "b"), a=("bypassed", 9), b=("bypassed", 9)),
    case("a third is outside", ("b",), a=("half", 20), b=("outside", 10)),
    case("a warning goes before a remark", ("c",), a=("half", 20), b=("outside", 10), c=("bypassed", 10)),
    case("all in half precision", a=("half", 20), b=("half", 10)),
    case("a small head outside", a=("half", 990), b=("outside", 9)),
    case("no autocast at all", a=("outside", 10), b=("outside", 10)),
    case("a part that switches it off", a=("half", 10), b=("", 90)),
    case("facts of an older hook", a=("", 10)),
]

test_cases = every_case(OutsideAutocast(), CASES)


@pytest.mark.parametrize(
    ("case", "severity", "message"),
    [
        pytest.param(CASES[0], Severity.WARNING, "b computes in float32 although autocast is on.", id="a-layer"),
        pytest.param(
            CASES[1],
            Severity.WARNING,
            "2 layers, a first, compute in float32 although autocast is on.",
            id="layers",
        ),
        pytest.param(
            CASES[2],
            Severity.INFO,
            "b computes in float32 outside of autocast, with 33 % of the weights of layers.",
            id="outside",
        ),
    ],
)
def test_messages(case: RuleCase, severity: Severity, message: str) -> None:
    findings = assert_case(OutsideAutocast(), case)
    assert OutsideAutocast().severity_of(findings) is severity
    assert OutsideAutocast().sentence(findings) == message
