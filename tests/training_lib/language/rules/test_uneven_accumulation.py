"""uneven-accumulation: means of means, sums of means; silent where tokens count alike."""

from __future__ import annotations

import math

import pytest

from tests.training_lib.rules.columns import steady
from trackside.contracts.run.recorded_names import CLIPPING, STEP_WEIGHT, TOKEN_WEIGHTS
from trackside.language.rules.uneven_accumulation import UnevenAccumulation
from trackside.testing.rule_case import RuleCase, assert_case


def case(name: str, *fires: str, ratio: float, total: float, clipped: bool = True, looks: int = 6) -> RuleCase:
    recorded = {TOKEN_WEIGHTS: {"mean": steady(ratio, looks)}, STEP_WEIGHT: {"mean": steady(total, looks)}}
    if clipped:
        recorded[CLIPPING] = {"max_norm": steady(1.0, looks)}
    return RuleCase(name, recorded=recorded, fires=fires)


CASES = [
    case("means of short and long rows", TOKEN_WEIGHTS, ratio=6.0, total=1.0),
    case("added up, and unlike", TOKEN_WEIGHTS, ratio=6.0, total=8.0),
    case("means of rows of one length, added up", STEP_WEIGHT, ratio=1.05, total=8.0),
    case("added up, of two", STEP_WEIGHT, ratio=1.0, total=2.0),
    case("divided by all tokens", ratio=1.0, total=1.0),
    case("rows of about one length", ratio=1.6, total=1.0),
    case("added up, and no size matters", ratio=1.0, total=8.0, clipped=False),
    case("a weight of the loss", ratio=1.0, total=2.5),
    case("no tokens in a batch", ratio=math.inf, total=math.nan),
    case("too few looks", ratio=6.0, total=1.0, looks=2),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(UnevenAccumulation(), case)
    assert not findings or UnevenAccumulation().sentence(findings).endswith(".")
