"""Which finding leads."""

from __future__ import annotations

import math
import random

import pytest

from trackside.contracts.verdict import Finding
from trackside.evaluation.results.verdicts import worst_first


def finding(subject: str, observed: float, relation: str, threshold: float, since: int = 0) -> Finding:
    return Finding(subject, 10, since, "x", observed, relation, threshold)


@pytest.mark.parametrize(
    "ordered",
    [
        pytest.param([("a", 100, ">", 5), ("b", 50, ">", 5), ("c", 6, ">", 5)], id="larger-is-worse"),
        pytest.param([("a", 0.0, "<", 1e-7), ("b", 1e-12, "<", 1e-7), ("c", 9e-8, "<", 1e-7)], id="smaller-is-worse"),
        pytest.param([("a", math.nan, ">", 5), ("b", 1e30, ">", 5)], id="nan-is-worst"),
        pytest.param([("a", math.inf, ">", 5), ("b", 1e30, ">", 5)], id="infinity-is-worst"),
        pytest.param([("a", 500, ">", 5), ("b", 1e-8, "<", 1e-7)], id="by-how-many-times"),
        pytest.param([("a", 7, ">", 0, 3), ("b", 7, ">", 0, 8)], id="the-older-of-two-alike"),
        pytest.param([("a", -9, ">", -20), ("b", -19, ">", -20)], id="below-zero"),
    ],
)
def test_worst_first(ordered: list[tuple[str, float, str, float]]) -> None:
    findings = [finding(*row) for row in ordered]
    shuffled = list(findings)
    random.Random(3).shuffle(shuffled)
    for given in (findings, shuffled, findings[::-1]):
        assert [f.subject for f in worst_first(given)] == [f.subject for f in findings]


def test_alike_findings_keep_the_order_of_the_rule() -> None:
    assert [f.subject for f in worst_first([finding("b", 9, ">", 5), finding("a", 9, ">", 5)])] == ["b", "a"]
