"""Comparison of the verdicts on stored runs: what is new, what is gone, and which field differs."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.detection.verdicts import differences


def verdict(rule: str, **fields: Any) -> dict[str, Any]:
    return {"configuration": rule, "outcome": "issue-found", "state": "opened", "step": 5, **fields}


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        pytest.param([verdict("a")], [verdict("a")], [], id="the-same"),
        pytest.param([verdict("a"), verdict("b")], [verdict("b"), verdict("a")], [], id="in-another-order"),
        pytest.param([], [verdict("a")], ["run: a issue-found opened 0 is new"], id="new"),
        pytest.param([verdict("a")], [], ["run: a issue-found opened 0 is gone"], id="gone"),
        pytest.param(
            [verdict("a"), verdict("a", step=9)],
            [verdict("a"), verdict("a", step=8)],
            ["run: a issue-found opened 1 step: 9 -> 8"],
            id="another-step-of-the-second",
        ),
    ],
)
def test_differences(before: list[dict[str, Any]], after: list[dict[str, Any]], lines: list[str]) -> None:
    assert list(differences({"run": before, "of before": []}, {"run": after})) == lines
