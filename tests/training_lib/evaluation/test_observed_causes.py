"""A mistake that one rule of a card observed in the program comes before what all evidence only suggests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.training_lib.local.verdicts import issue
from trackside.contracts.cause import Cause, Sign, Suspicion
from trackside.contracts.verdict import Severity, Verdict
from trackside.diagnosis.signs import FOUND
from trackside.evaluation.results.verdicts import diagnosed
from trackside.situation.constants import MOST_CAUSES, OBSERVED

SEEN = Suspicion(Cause.UNNORMALIZED_INPUTS, "the deviation is 255 in evaluation", OBSERVED)


def one(rule: str, *suspicions: Suspicion, severity: Severity = Severity.WARNING) -> Verdict:
    return replace(issue(rule, severity=severity), signs=(Sign(f"{FOUND}{rule}"),), suspicions=suspicions)


def inferred(cause: Cause) -> Suspicion:
    return Suspicion(cause, "", 0.9)


OVERFIT = one("overfit", inferred(Cause.OVERFITTING))


@pytest.mark.parametrize(
    ("verdict", "members", "first"),
    [
        pytest.param(OVERFIT, [one("unnormalized-inputs", SEEN)], SEEN, id="by-another-rule"),
        pytest.param(
            OVERFIT,
            [one("data-leakage", inferred(Cause.DATA_LEAKAGE)), one("unnormalized-inputs", SEEN)],
            SEEN,
            id="by-the-second-other-rule",
        ),
        pytest.param(one("unnormalized-inputs", SEEN), [OVERFIT], SEEN, id="by-itself"),
        pytest.param(OVERFIT, [one("unnormalized-inputs", SEEN, severity=Severity.INFO)], None, id="a-remark"),
        pytest.param(OVERFIT, [one("dead-relu", inferred(Cause.DEAD_UNITS))], None, id="inferred-too"),
        pytest.param(OVERFIT, [], None, id="alone"),
    ],
)
def test_what_was_observed_comes_first(verdict: Verdict, members: list[Verdict], first: Suspicion | None) -> None:
    causes = diagnosed(verdict, members).suspicions
    assert len(causes) <= MOST_CAUSES
    assert len({one.cause for one in causes}) == len(causes)
    if first is not None:
        assert causes[0] == first
    else:
        assert all(one.probability != OBSERVED for one in causes)
