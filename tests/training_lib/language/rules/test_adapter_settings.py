"""adapter-settings: adapters that are not trained as they are used, or with an odd scale; silent on references."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.observations import ADAPTERS, AdapterFacts
from trackside.language.rules.adapter_settings import AdapterSettings
from trackside.testing.rule_case import RuleCase, assert_case

USUAL = AdapterFacts("default", 4, 8, 2.0, is_active=True, is_trained=True)
OTHER = AdapterFacts("second", 4, 8, 2.0)
IDLE = replace(USUAL, is_trained=False)


def case(name: str, *adapters: AdapterFacts, fires: str = "") -> RuleCase:
    facts = ModelFacts(program=ProgramFacts(observed={ADAPTERS: adapters} if adapters else {}))
    recorded = {"Loss_output_0": {"mean": steady(1)}}
    return RuleCase(name, recorded=recorded, facts=facts, fires=(fires,) if fires else ())


CASES = [
    case("switched off", replace(USUAL, is_off=True), fires="default"),
    case("merged", replace(USUAL, is_merged=True), fires="default"),
    case("trained, and not called", IDLE, replace(OTHER, is_trained=True), fires="second"),
    case("loaded for inference, and trained", replace(USUAL, is_for_inference=True), OTHER, fires="default"),
    case("frozen", replace(IDLE, is_for_inference=True), fires="default"),
    case("no scale", replace(USUAL, scaling=0.0), fires="default"),
    case("a scale for another rank", replace(USUAL, rank=64, scaling=256.0), fires="default"),
    case("as usual", USUAL),
    case("a reference beside it", USUAL, replace(OTHER, name="ref")),
    case("on top of a frozen one", replace(IDLE, is_for_inference=True), replace(USUAL, name="second")),
    case("a large scale", replace(USUAL, scaling=32.0)),
    case("a small scale", replace(USUAL, scaling=0.0625)),
    case("a large scale of one that is not trained", USUAL, replace(OTHER, scaling=500.0)),
    case("no adapter"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(AdapterSettings(), case)
    assert not findings or AdapterSettings().sentence(findings).endswith(".")
    assert bool(AdapterSettings().lacks(case.window)) is (case.name == "no adapter")


@pytest.mark.parametrize(
    ("adapter", "cause"),
    [(IDLE, Cause.FROZEN_PARAMETERS), (replace(USUAL, is_merged=True), Cause.ADAPTER_SETTINGS)],
)
def test_a_frozen_one_is_named_so(adapter: AdapterFacts, cause: Cause) -> None:
    found = case("one", adapter, fires="default")
    assert AdapterSettings().suspicions(list(AdapterSettings().check(found.window)), found.window)[0].cause is cause
