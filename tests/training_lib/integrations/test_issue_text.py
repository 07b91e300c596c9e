"""A problem as text, with the command line's libraries and without."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.training_lib.local.verdicts import finding, issue
from trackside.contracts.issue_group import IssueGroup, group_of_one
from trackside.contracts.verdict import Severity, State
from trackside.integrations.issue_text import issue_card, issue_title, outcome_of

GROUP = group_of_one(issue("dead-relu", findings=(replace(finding(), place="train.py:41"),)))
RECOVERED = IssueGroup((GROUP.lead,), {"dead-relu": replace(GROUP.lead, state=State.RECOVERED)})


def test_the_card_is_that_of_the_terminal() -> None:
    lines = issue_card(GROUP).splitlines()
    assert "CRITICAL" in lines[0]
    assert "what to do" in lines
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in issue_card(GROUP)


def test_without_rich_the_card_has_what_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert issue_card(GROUP).splitlines() == [
        "critical: dead-relu at step 20",
        "12 of 22 gradients are too small to move the weights.",
        "line: train.py:41",
        "Replace sigmoid by ReLU.",
    ]


def test_the_title_is_one_line() -> None:
    assert issue_title(GROUP) == "critical: dead-relu at step 20"


@pytest.mark.parametrize(
    ("groups", "worst"),
    [
        pytest.param((), "not-judged", id="none-of-a-run-that-cannot-be-read"),
        pytest.param((RECOVERED, group_of_one(issue("overfit", severity=Severity.WARNING))), "warning", id="one-left"),
        pytest.param((GROUP, group_of_one(issue("overfit", severity=Severity.WARNING))), "critical", id="two"),
    ],
)
def test_the_worst_is_that_of_what_stands(groups: tuple[IssueGroup, ...], worst: str) -> None:
    assert outcome_of(groups, "/no/such/run").worst == worst
