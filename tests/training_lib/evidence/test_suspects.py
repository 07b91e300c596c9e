"""Causes that a rule declares: what counts, in which order, and with which clause."""

from __future__ import annotations

import pytest

from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Finding
from trackside.evidence.suspects import FirstOf, Suspect, Suspects, only, suspected
from trackside.testing.rule_case import RuleCase

WINDOW = RuleCase("a run", {"loss": {0: 1.0}}).window
FINDING = Finding("loss", 9, 4, "size", 2.5, ">", 1.0, statistics={"usual": 0.5})
HIGH, LOW, SIGN = Cause.LEARNING_RATE_TOO_HIGH, Cause.LEARNING_RATE_TOO_LOW, Cause.LOSS_SIGN


@pytest.mark.parametrize(
    ("suspects", "found"),
    [
        pytest.param((Suspect(HIGH), Suspect(LOW)), [(HIGH, ""), (LOW, "")], id="in-their-order"),
        pytest.param((Suspect(HIGH, "{observed:.1f} of {usual}"),), [(HIGH, "2.5 of 0.5")], id="a-clause"),
        pytest.param((Suspect(HIGH, lambda _: "it is"), Suspect(HIGH)), [(HIGH, "it is")], id="each-cause-once"),
        pytest.param((Suspect(HIGH, lambda _: True),), [(HIGH, "")], id="present-without-numbers"),
        pytest.param((Suspect(HIGH, lambda _: False), Suspect(LOW, lambda _: None)), [], id="absent-and-unknown"),
        pytest.param((Suspect(HIGH, only=("size",)), Suspect(LOW, only=("way",))), [(HIGH, "")], id="by-measure"),
        pytest.param(only((Suspect(HIGH), FirstOf((Suspect(LOW),))), "<"), [], id="by-relation"),
        pytest.param(
            (FirstOf((Suspect(HIGH, lambda _: False), Suspect(SIGN)), (Suspect(LOW),)),),
            [(LOW, "")],
            id="an-alternative-that-nothing-shows",
        ),
        pytest.param(
            (FirstOf((Suspect(HIGH, lambda _: "so"), Suspect(SIGN)), (Suspect(LOW),)),),
            [(HIGH, "so"), (SIGN, "")],
            id="the-first-alternative-alone",
        ),
        pytest.param((FirstOf((Suspect(HIGH, lambda _: False),), ()),), [], id="none-of-them"),
    ],
)
def test_what_is_suspected(suspects: Suspects, found: list[tuple[Cause, str]]) -> None:
    assert [(one.cause, one.because) for one in suspected(suspects, [FINDING], WINDOW)] == found


def test_without_a_finding_a_clause_shows_nothing() -> None:
    assert [one.because for one in suspected((Suspect(HIGH, "{observed}"),), (), WINDOW)] == []
