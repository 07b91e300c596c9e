"""What rules have judged of a run: the one answer that every view shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.contracts.verdict import NOTHING_TO_JUDGE, Outcome, State
from trackside.evaluation.progress import Progress, ProgressFile, RuleProgress
from trackside.local.judged_part import judged_part
from trackside.local.judgement import judgement_of
from trackside.local.recorded_run import read_run, summary_of
from trackside.local.rule_state import RuleState, RuleStatus
from trackside.local.run_document import run_document
from trackside.local.run_folder import RunRecord, RunState, write_record
from trackside.report.other_tools import text_for
from trackside.storage.open_store import open_store

CLEAN, IDLE = no_issue(), no_issue(message=f"{NOTHING_TO_JUDGE}no module is a ReLU.")
SHORT = no_issue(outcome=Outcome.NOT_EVALUATED, message="No gradient was saved.")


def rule(state: RuleState, *, judged: int = 0) -> RuleStatus:
    verdicts = {RuleState.OK: CLEAN, RuleState.NOT_APPLICABLE: IDLE, RuleState.NOT_ENOUGH_DATA: SHORT}
    verdicts |= {RuleState.ISSUE: issue(), RuleState.RECOVERED: replace(CLEAN, state=State.RECOVERED)}
    return RuleStatus("r", "r", state, "", judged, judged - 1, verdicts.get(state))


OK, IDLE_RULE, SHORT_RULE = (
    rule(RuleState.OK, judged=5),
    rule(RuleState.NOT_APPLICABLE),
    rule(RuleState.NOT_ENOUGH_DATA),
)
WITH_ISSUE, BEGUN, NOT_BEGUN = rule(RuleState.ISSUE), rule(RuleState.RUNNING, judged=1), rule(RuleState.RUNNING)
CUT_OFF = RuleStatus("r", "r", RuleState.NOT_ENOUGH_DATA, "3 steps judged, no answer", 3, 2, None)


@pytest.mark.parametrize(
    ("rules", "state", "problem", "words"),
    [
        pytest.param([OK, IDLE_RULE], RunState.FINISHED, "", "", id="judged"),
        pytest.param([OK, SHORT_RULE], RunState.FAILED, "", "", id="judged-although-it-failed"),
        pytest.param([WITH_ISSUE], RunState.STOPPED, "", "", id="an-issue-alone"),
        pytest.param([rule(RuleState.RECOVERED)], RunState.FINISHED, "", "", id="a-recovery-alone"),
        pytest.param([BEGUN, NOT_BEGUN], RunState.RUNNING, "", "", id="begun"),
        pytest.param([OK], RunState.LOST, "", "", id="judged-before-it-was-lost"),
        pytest.param(
            [], RunState.FINISHED, "", "not judged: no rule was asked; trackside rules run /r", id="nobody-was-asked"
        ),
        pytest.param(
            [SHORT_RULE], RunState.FAILED, "", "not judged: it ended before a step that a rule can judge", id="no-step"
        ),
        pytest.param([IDLE_RULE, SHORT_RULE], RunState.FAILED, "",
                     "not judged: it ended before a step that a rule can judge", id="nothing-applies"),
        pytest.param([rule(RuleState.NOT_ENOUGH_DATA, judged=2)], RunState.FINISHED, "",
                     "not judged: too little data for every rule that applies", id="too-short"),
        pytest.param([NOT_BEGUN], RunState.RUNNING, "", "not judged: no step so far", id="live-before-its-first-step"),
        pytest.param([CUT_OFF], RunState.LOST, "", "not judged: what judged it was killed; trackside rules run /r",
                     id="killed"),
        pytest.param([CUT_OFF], RunState.FINISHED, "exit code 70: ImportError.",
                     "not judged: exit code 70: ImportError; trackside rules run /r", id="evaluator-died"),
        pytest.param([OK, CUT_OFF], RunState.FINISHED, "",
                     "not judged to the end: 1 rule gave no answer at its end; trackside rules run /r",
                     id="the-kernel-ended-first"),
        pytest.param([WITH_ISSUE, CUT_OFF], RunState.FINISHED, "killed by SIGKILL",
                     "not judged to the end: killed by SIGKILL; trackside rules run /r", id="died-after-an-issue"),
    ],
)  # fmt: skip
def test_a_run_is_judged_or_says_why_not(
    rules: Sequence[RuleStatus], state: RunState, problem: str, words: str
) -> None:
    part = judged_part(rules, state=state, run="/r", problem=problem)
    assert part.not_judged == words
    assert part.is_judged is (not words)


def test_all_views_count_alike() -> None:
    part = judged_part([OK, OK, IDLE_RULE, SHORT_RULE, SHORT_RULE], state=RunState.FINISHED, run="/r")
    assert part.counts(1840) == "2 rules over 1,840 steps"
    assert part.others == "2 lacked data, 1 does not apply"


def _killed_run(folder: Path) -> str:
    """Write a run whose evaluator was killed after three steps, without an issue so far."""
    (folder / "debug-output").mkdir(parents=True)
    request = RuleRequest((RuleConfiguration("vanishing-gradient"),))
    (folder / RULE_REQUEST_KEY).write_text(request.to_json())
    write_record(folder, RunRecord(("python", "train.py"), 1.0, 2.0, status=0, judging_problem="killed by SIGKILL"))
    progress = Progress({"vanishing-gradient": RuleProgress(judged=3, judged_through=2)})
    ProgressFile(open_store(f"{folder}/rule-output")).save(progress)
    return str(folder)


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda uri: summary_of(read_run(uri)).judged.not_judged, id="list"),
        pytest.param(lambda uri: judgement_of(read_run(uri)).headline(), id="python"),
        pytest.param(lambda uri: str(run_document(read_run(uri))["judged"]), id="json"),
        pytest.param(lambda uri: text_for(read_run(uri), "junit"), id="junit"),
        pytest.param(lambda uri: text_for(read_run(uri), "sarif"), id="sarif"),
        pytest.param(lambda uri: text_for(read_run(uri), "github"), id="github"),
    ],
)
def test_no_view_takes_a_run_for_sound_that_nobody_judged(tmp_path: Path, view: object) -> None:
    assert callable(view)
    words = str(view(_killed_run(tmp_path / "run")))
    assert "killed by SIGKILL" in words
    assert "trackside rules run" in words
    assert "no issue" not in words
