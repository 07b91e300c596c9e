"""Issues of one problem: one card, its leading issue, its causes, and its state in the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.contracts.cause import Cause, Sign, Suspicion
from trackside.contracts.issue_group import issue_groups, standing_issues
from trackside.contracts.verdict import Outcome, Severity, State, Verdict

SIGNS = (Sign("loss-fell", is_present=False),)


def one(
    name: str,
    severity: Severity = Severity.WARNING,
    *,
    group: str = "g",
    step: int = 20,
    probability: float | None = None,
    causes: tuple[Cause, ...] = (),
    occurrence: int = 1,
) -> Verdict:
    return replace(
        issue(name, severity=severity),
        group=group,
        step=step,
        probability=probability,
        suspicions=tuple(Suspicion(cause) for cause in causes),
        signs=SIGNS,
        occurrence=occurrence,
    )


def back(name: str, *, group: str = "g", step: int = 60) -> Verdict:
    return replace(no_issue(name), outcome=Outcome.CLEAN, state=State.RECOVERED, group=group, step=step)


@pytest.mark.parametrize(
    ("verdicts", "lead", "symptoms"),
    [
        pytest.param([one("a")], "a", [], id="alone"),
        pytest.param([one("a"), one("b", Severity.CRITICAL)], "b", ["a"], id="the-gravest-leads"),
        pytest.param([one("a", probability=0.6), one("b", probability=0.9)], "b", ["a"], id="then-the-surest"),
        pytest.param([one("a"), one("b")], "a", ["b"], id="then-the-first"),
        pytest.param([one("a", Severity.CRITICAL), one("b"), back("a")], "b", ["a"], id="a-recovered-one-never-leads"),
        pytest.param([one("a"), one("a", Severity.CRITICAL, occurrence=2)], "a", [], id="graver-is-no-second-issue"),
    ],
)
def test_who_leads(verdicts: list[Verdict], lead: str, symptoms: list[str]) -> None:
    (group,) = issue_groups(verdicts)
    assert group.lead.configuration_name == lead
    assert [verdict.configuration_name for verdict in group.symptoms] == symptoms


@pytest.mark.parametrize(
    ("verdicts", "standing", "recovered_at"),
    [
        pytest.param([one("a")], ["a"], [None], id="stands"),
        pytest.param([one("a"), back("a")], [], [60], id="recovered"),
        pytest.param([one("a"), one("b"), back("a")], ["b"], [None], id="one-of-two-recovered"),
        pytest.param([one("a"), one("b"), back("a"), back("b", step=80)], [], [80], id="all-recovered"),
        pytest.param([one("a"), back("a"), one("a", occurrence=2)], ["a"], [None], id="came-back"),
        pytest.param([one("a"), no_issue("a")], ["a"], [None], id="only-its-recovery-ends-an-issue"),
        pytest.param([one("a"), one("a", group="h", occurrence=2)], ["a"], [None], id="moved-to-another-problem"),
        pytest.param([no_issue("a"), back("b")], [], [], id="no-issue"),
    ],
)
def test_the_state_in_the_end(verdicts: list[Verdict], standing: list[str], recovered_at: list[int | None]) -> None:
    assert [verdict.configuration_name for verdict in standing_issues(verdicts)] == standing
    assert [group.recovered_at for group in issue_groups(verdicts)] == recovered_at


def test_causes_are_those_of_the_newest_evidence() -> None:
    """A later and surer rule replaces the first cause, though an earlier issue leads the card."""
    first = one("a", Severity.CRITICAL, causes=(Cause.LEARNING_RATE_TOO_HIGH,))
    (group,) = issue_groups([first, one("b", step=40, causes=(Cause.LOSS_SIGN,))])
    assert group.lead.configuration_name == "a"
    assert [suspicion.cause for suspicion in group.suspicions] == [Cause.LOSS_SIGN]


@pytest.mark.parametrize(
    ("verdict", "is_unknown"),
    [
        pytest.param(one("a"), True, id="weighed-and-nothing-found"),
        pytest.param(one("a", causes=(Cause.STALLED,)), False, id="a-cause"),
        pytest.param(replace(one("a"), signs=()), False, id="never-weighed"),
    ],
)
def test_an_unknown_cause(verdict: Verdict, is_unknown: bool) -> None:
    (group,) = issue_groups([verdict])
    assert group.is_cause_unknown is is_unknown


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        pytest.param((10, 20), Cause.OVERFITTING, id="the-newest"),
        pytest.param((20, 10), Cause.LOSS_SIGN, id="the-newest-opened-first"),
        pytest.param((20, 20), Cause.OVERFITTING, id="of-one-step-the-last"),
    ],
)
def test_the_causes_are_those_of_the_newest_issue(steps: tuple[int, int], cause: Cause) -> None:
    first, second = steps
    verdicts = [one("a", step=first, causes=(Cause.LOSS_SIGN,)), one("b", step=second, causes=(Cause.OVERFITTING,))]
    (group,) = issue_groups(verdicts)
    assert [suspicion.cause for suspicion in group.suspicions] == [cause]


def test_standing_and_grave_problems_come_first() -> None:
    verdicts = [one("a", group="1"), one("b", Severity.CRITICAL, group="2"), one("c", group="3"), back("b", group="2")]
    assert [group.lead.configuration_name for group in issue_groups(verdicts)] == ["a", "c", "b"]
