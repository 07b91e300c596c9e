"""length-preference: one side is always the longer one; silent where lengths differ either way, or hardly."""

from __future__ import annotations

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.run.recorded_names import CHOSEN_LENGTH, LONGER_CHOSEN, REJECTED_LENGTH, SHORTER_CHOSEN
from trackside.language.rules.length_preference import LengthPreference
from trackside.testing.rule_case import RuleCase, assert_case


def case(
    name: str, *fires: str, lengths: tuple[float, float], longer: float, shorter: float, looks: int = 12
) -> RuleCase:
    values = {CHOSEN_LENGTH: lengths[0], REJECTED_LENGTH: lengths[1], LONGER_CHOSEN: longer, SHORTER_CHOSEN: shorter}
    return RuleCase(name, recorded={key: {"mean": steady(value, looks)} for key, value in values.items()}, fires=fires)


CASES = [
    case("always the longer one", LONGER_CHOSEN, lengths=(200, 90), longer=1.0, shorter=0.0),
    case("nearly always the longer one", LONGER_CHOSEN, lengths=(200, 90), longer=0.97, shorter=0.03),
    case("always the shorter one", SHORTER_CHOSEN, lengths=(20, 90), longer=0.0, shorter=1.0),
    case("mostly the longer one", lengths=(150, 120), longer=0.7, shorter=0.3),
    case("by a few tokens", lengths=(21, 20), longer=1.0, shorter=0.0),
    case("all of one length", lengths=(16, 16), longer=0.0, shorter=0.0),
    case("too few looks", lengths=(200, 90), longer=1.0, shorter=0.0, looks=3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(LengthPreference(), case)
    assert not findings or LengthPreference().sentence(findings).endswith(".")
