from __future__ import annotations

from dataclasses import replace

import pytest

from tests.training_lib.local.verdicts import finding, issue
from trackside.contracts.issue_group import issue_groups
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.runs.first_failure import first_failure, layer_kind


def at(rule: str, subject: str, *, since: int, severity: Severity = Severity.CRITICAL) -> Verdict:
    return issue(rule, severity=severity, findings=(finding(subject, since_step=since),))


@pytest.mark.parametrize(
    ("verdicts", "kind"),
    [
        pytest.param((), None, id="no-issue"),
        pytest.param((at("loss-spike", "x", since=1, severity=Severity.INFO),), None, id="a-remark"),
        pytest.param(
            (at("overfit", "b", since=9), at("loss-spike", "fc.3.weight", since=2)),
            ("loss-spike", "fc.*.weight", ""),
            id="what-began-first",
        ),
        pytest.param(
            (at("dead-relu", "b", since=2, severity=Severity.WARNING), at("overfit", "a", since=2)),
            ("overfit", "a", ""),
            id="the-graver-of-two",
        ),
        pytest.param((issue(findings=()),), ("vanishing-gradient", "-", ""), id="without-a-tensor"),
        pytest.param(
            (
                at("overfit", "a", since=1),
                replace(at("overfit", "a", since=1), outcome=Outcome.CLEAN, state=State.RECOVERED, step=40),
            ),
            None,
            id="recovered",
        ),
    ],
)
def test_the_first_failure_is_the_first_grave_issue_that_stands(
    verdicts: tuple[Verdict, ...], kind: tuple[str, str, str] | None
) -> None:
    found = first_failure(issue_groups(verdicts))
    assert (found.kind if found else None) == kind


@pytest.mark.parametrize(
    ("subject", "kind"),
    [
        pytest.param("h.11.attn.weight", "h.*.attn.weight", id="a-number-between-dots"),
        pytest.param("gradient/Net_fc.weight", "gradient/Net_fc.weight", id="no-number"),
        pytest.param("CrossEntropyLoss_output_0", "CrossEntropyLoss_output_", id="a-number-at-the-end"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_layers_of_one_kind_have_one_name(subject: str, kind: str) -> None:
    assert layer_kind(subject) == kind
