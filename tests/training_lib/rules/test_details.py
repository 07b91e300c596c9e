"""Typed details of a finding: the same after a verdict was stored and read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

import pytest

from tests.training_lib.local.verdicts import finding, issue
from trackside.contracts.verdict import Verdict
from trackside.rules.details import Details


class Colour(IntEnum):
    RED = 0
    BLUE = 1


@dataclass(frozen=True)
class Seen(Details):
    colour: Colour = Colour.RED
    is_large: bool = False
    count: int = 0
    share: float | None = None


@pytest.mark.parametrize(
    ("seen", "numbers"),
    [
        pytest.param(Seen(), {"colour": 0.0, "is_large": 0.0, "count": 0.0}, id="defaults"),
        pytest.param(
            Seen(Colour.BLUE, True, 3, 0.5), {"colour": 1.0, "is_large": 1.0, "count": 3.0, "share": 0.5}, id="all"
        ),
    ],
)
def test_details_come_back_from_a_verdict(seen: Seen, numbers: dict[str, float]) -> None:
    assert seen.numbers() == numbers
    stored = issue(findings=(replace(finding(), statistics={**seen.numbers(), "other": 7.0}),)).to_json()
    assert Seen.of(Verdict.from_json(stored).findings[0]) == seen


def test_a_finding_of_an_older_run_has_the_defaults() -> None:
    assert Seen.of(replace(finding(), statistics={"count": 4.0})) == Seen(count=4)
