from __future__ import annotations

from dataclasses import replace

import pytest

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.contracts.rule_request import RuleConfiguration
from trackside.contracts.verdict import Outcome, Severity, State, Verdict
from trackside.evaluation.results.progress import RuleProgress
from trackside.runs.rule_state import RuleState, rule_statuses, worst_severity

REQUEST = (RuleConfiguration("vanishing-gradient"),)
CLEAN = no_issue("vanishing-gradient")
IDLE = no_issue("vanishing-gradient", message="Nothing to judge: no module of the model is a ReLU.")
BACK = replace(no_issue("vanishing-gradient"), state=State.RECOVERED, group=issue().group)
AGAIN = replace(issue(), group=issue().group, occurrence=2)
NO_DATA = no_issue("vanishing-gradient", outcome=Outcome.NOT_EVALUATED, message="No gradient was saved.")


@pytest.mark.parametrize(
    ("verdicts", "is_running", "state"),
    [
        pytest.param([issue()], False, RuleState.ISSUE, id="issue"),
        pytest.param([issue(), CLEAN], False, RuleState.ISSUE, id="an-issue-stays"),
        pytest.param([NO_DATA, issue()], False, RuleState.ISSUE, id="an-issue-after-too-little-data"),
        pytest.param([issue(), BACK], False, RuleState.RECOVERED, id="recovered"),
        pytest.param([issue(), BACK, CLEAN], False, RuleState.RECOVERED, id="recovered-and-ended"),
        pytest.param([issue(), BACK, AGAIN], False, RuleState.ISSUE, id="came-back"),
        pytest.param([CLEAN], False, RuleState.OK, id="clean"),
        pytest.param([NO_DATA, CLEAN], False, RuleState.OK, id="clean-in-the-end"),
        pytest.param([NO_DATA], False, RuleState.NOT_ENOUGH_DATA, id="could-not-look"),
        pytest.param([IDLE], False, RuleState.NOT_APPLICABLE, id="does-not-apply"),
        pytest.param([], True, RuleState.RUNNING, id="still-running"),
        pytest.param([], False, RuleState.NOT_ENOUGH_DATA, id="ended-without-a-word"),
    ],
)
def test_the_state_of_a_rule(verdicts: list[Verdict], is_running: bool, state: RuleState) -> None:
    (status,) = rule_statuses(REQUEST, verdicts, progress={}, is_running=is_running)
    assert status.state is state


def test_why_a_rule_does_not_apply_is_said_without_saying_so_twice() -> None:
    (status,) = rule_statuses(REQUEST, [IDLE], progress={}, is_running=False)
    assert status.detail == "no module of the model is a ReLU."


def test_rules_come_in_the_order_asked_and_unasked_ones_after() -> None:
    asked = (RuleConfiguration("b"), RuleConfiguration("a"))
    statuses = rule_statuses(asked, [issue("z"), issue("a")], progress={}, is_running=False)
    assert [status.name for status in statuses] == ["b", "a", "z"]


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        pytest.param([], None, id="none"),
        pytest.param([CLEAN], None, id="a-clean-critical-rule-is-no-critical-issue"),
        pytest.param([issue(severity=Severity.INFO), issue(severity=Severity.WARNING)], Severity.WARNING, id="warning"),
        pytest.param([issue(), issue(severity=Severity.INFO)], Severity.CRITICAL, id="critical"),
        pytest.param([issue(), BACK], None, id="a-recovered-issue-does-not-count"),
        pytest.param([issue(), BACK, AGAIN], Severity.CRITICAL, id="one-that-came-back-does"),
        pytest.param([issue(), issue("b", severity=Severity.WARNING), BACK], Severity.WARNING, id="one-of-two-stands"),
    ],
)
def test_the_worst_severity(verdicts: list[Verdict], worst: Severity | None) -> None:
    assert worst_severity(verdicts) is worst


@pytest.mark.parametrize(
    ("verdicts", "state"),
    [
        pytest.param([], RuleState.ERROR, id="crashed"),
        pytest.param([NO_DATA], RuleState.ERROR, id="crashed-and-said-so"),
        pytest.param([issue()], RuleState.ISSUE, id="crashed-after-an-issue"),
    ],
)
def test_a_rule_that_crashed_is_an_error_not_a_clean_bill(verdicts: list[Verdict], state: RuleState) -> None:
    progress = {"vanishing-gradient": RuleProgress(judged_through=40, judged=5, error="ZeroDivisionError at step 40")}
    (status,) = rule_statuses(REQUEST, verdicts, progress=progress, is_running=False)
    assert (status.state, status.judged, status.judged_through) == (state, 5, 40)
