"""looping-answers: answers begin to repeat themselves; silent where they always did, or hardly do."""

from __future__ import annotations

import pytest

from tests.training_lib.language.rules.courses import kept, logged, noisy
from trackside.contracts.run.language_numbers import REPEATED_SHARE
from trackside.language.rules.looping_answers import LoopingAnswers
from trackside.testing.rule_case import RuleCase, assert_case


def case(name: str, values: list[float], *, fires: bool = False) -> RuleCase:
    wanted = (REPEATED_SHARE.recorded,) if fires else ()
    return RuleCase(name, recorded=logged({REPEATED_SHARE: values}), fires=wanted)


CASES = [
    case("from none to most", noisy(0.0, 0.9, noise=0.02), fires=True),
    case("from some to most", noisy(0.2, 0.8, noise=0.02), fires=True),
    case("always so", kept(0.8)),
    case("a little more", noisy(0.05, 0.3, noise=0.02)),
    case("less and less", noisy(0.8, 0.1, noise=0.02)),
    case("too few logs", noisy(0.0, 0.9, 12)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(LoopingAnswers(), case)
    assert not findings or LoopingAnswers().sentence(findings).endswith(".")
