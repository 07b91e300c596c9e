"""preference-collapse: both answers become unlikely, or pairs are of one answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training_lib.language.rules.courses import kept, logged, noisy
from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import CHOSEN_LOGP, MARGIN, ORDERED_SHARE, REJECTED_LOGP
from trackside.evidence.suspects import suspected
from trackside.language.rules.preference_collapse import PreferenceCollapse
from trackside.testing.rule_case import RuleCase, assert_case

RISING = noisy(0, 4)


def case(
    name: str,
    margin: list[float],
    chosen: list[float],
    rejected: list[float],
    *fires: Any,
    ordered: list[float] | None = None,
) -> RuleCase:
    shares = {} if ordered is None else {ORDERED_SHARE: ordered}
    recorded = logged({MARGIN: margin, CHOSEN_LOGP: chosen, REJECTED_LOGP: rejected, **shares})
    return RuleCase(name, recorded=recorded, fires=tuple(number.recorded for number in fires))


CASES = [
    case("both fall far", RISING, noisy(-20, -80, noise=1), noisy(-25, -120, noise=1), CHOSEN_LOGP),
    case("both fall by more than half", RISING, noisy(-200, -320, noise=3), noisy(-210, -400, noise=3), CHOSEN_LOGP),
    case("pairs of one answer", kept(0.0), noisy(-20, -20), noisy(-20, -20), MARGIN),
    case("the reference follows", kept(0.0), noisy(-20, -15, noise=1), noisy(-25, -60, noise=1), MARGIN),
    case("turned around", noisy(0, -3), noisy(-20, -30), noisy(-25, -22), ORDERED_SHARE, ordered=noisy(0.5, 0.02)),
    case("in the right order", RISING, noisy(-20, -15), noisy(-25, -40), ordered=noisy(0.5, 1.0)),
    case("as by chance", noisy(0, 0), noisy(-20, -20), noisy(-25, -25), ordered=noisy(0.5, 0.5)),
    case("the chosen ones become likelier", RISING, noisy(-20, -15, noise=1), noisy(-25, -60, noise=1)),
    case("the chosen ones lose a little", RISING, noisy(-20, -24, noise=1), noisy(-25, -60, noise=1)),
    case("noise", noisy(0, 0), noisy(-20, -20, noise=5), noisy(-20, -20, noise=5)),
    case("the margin falls", noisy(0, -3), noisy(-20, -80, noise=1), noisy(-25, -60, noise=1)),
    case("too few logs", RISING[:12], noisy(-20, -80, 12), noisy(-25, -120, 12)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases(case: RuleCase) -> None:
    findings = assert_case(PreferenceCollapse(), case)
    assert not findings or PreferenceCollapse().sentence(findings).endswith(".")


@pytest.mark.parametrize(
    ("chosen", "rejected", "cause"),
    [(-20.0, -20.0, Cause.UNINFORMATIVE_REWARD), (-20.0, -25.0, Cause.REFERENCE_FOLLOWS)],
)
def test_a_margin_of_zero_has_two_causes(chosen: float, rejected: float, cause: Cause) -> None:
    found = case("zero", kept(0.0), kept(chosen), kept(rejected), MARGIN)
    findings = assert_case(PreferenceCollapse(), found)
    assert [each.cause for each in suspected(PreferenceCollapse.suspects, findings, found.window)] == [cause]
