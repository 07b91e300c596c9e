"""What rules have judged of a run: the one answer that every view shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.training_lib.local.verdicts import issue, no_issue
from trackside.cli import main
from trackside.contracts.rule_request import RuleConfiguration, RuleRequest
from trackside.contracts.run.learning import Learning
from trackside.contracts.run_layout import RULE_REQUEST_KEY
from trackside.contracts.verdict import NO_LOSS, NOTHING_TO_JUDGE, Outcome, Severity, State, Verdict
from trackside.evaluation.results.progress import Progress, ProgressFile, RuleProgress
from trackside.evaluation.results.run_learning import store_learning
from trackside.integrations.issue_text import outcome_of
from trackside.runs.judged_part import judged_part
from trackside.runs.judgement import judgement_of
from trackside.runs.recorded_run import read_run
from trackside.runs.rule_state import RuleState, RuleStatus
from trackside.runs.run_document import run_document
from trackside.runs.run_folder import RECORD_FILE, RunRecord, RunState, write_record
from trackside.runs.run_summary import summary_of
from trackside.storage.open_store import open_store
from trackside.views.dashboard.run_list import RunFilter
from trackside.views.report.other_tools import text_for

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
    assert part.counts(1840, rested=1400) == "2 rules over 440 of 1,840 steps"
    ended = judged_part([OK, OK], state=RunState.FINISHED, run="/r", learning=Learning(rested=1400))
    assert ended.counts(1840) == "2 rules over 440 of 1,840 steps"
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


VIEWS = [
    pytest.param(lambda uri: judgement_of(read_run(uri)).headline(), id="python"),
    pytest.param(lambda uri: str(run_document(read_run(uri))["judged"]), id="json"),
    pytest.param(lambda uri: text_for(read_run(uri), "junit"), id="junit"),
    pytest.param(lambda uri: text_for(read_run(uri), "sarif"), id="sarif"),
    pytest.param(lambda uri: text_for(read_run(uri), "github"), id="github"),
]


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda uri: summary_of(read_run(uri)).judged.not_judged, id="list"),
        *VIEWS,
    ],
)
def test_no_view_takes_a_run_for_sound_that_nobody_judged(tmp_path: Path, view: object) -> None:
    assert callable(view)
    words = str(view(_killed_run(tmp_path / "run")))
    assert "killed by SIGKILL" in words
    assert "trackside rules run" in words
    assert "no issue" not in words


LEVEL = Learning(level="the loss ended at 1.8, and a constant answer costs 0.685")
RUINED = replace(issue(severity=Severity.CRITICAL), harm="the loss rose above guessing")
RULES = [f"rule-{number}" for number in range(9)]


def _judged_run(folder: Path, *verdicts: Verdict, learning: Learning = LEVEL) -> str:
    """Write a run with a verdict of each of nine rules, and with what it has learned."""
    (folder / "debug-output").mkdir(parents=True)
    request = RuleRequest(tuple([RuleConfiguration(name) for name in dict.fromkeys(v.rule_id for v in verdicts)]))
    (folder / RULE_REQUEST_KEY).write_text(request.to_json())
    write_record(folder, RunRecord(("python", "train.py"), 1.0, 2.0, status=0))
    store = open_store(f"{folder}/rule-output")
    store.put("verdicts.jsonl", "".join(f"{verdict.to_json()}\n" for verdict in verdicts).encode())
    ran = {verdict.configuration_name: RuleProgress(judged=60, judged_through=59) for verdict in verdicts}
    ProgressFile(store).save(Progress(ran))
    store_learning(store, learning)
    return str(folder)


FINE = [no_issue(name) for name in RULES]
FEW = [
    no_issue(RULES[0]),
    *(no_issue(name, outcome=Outcome.NOT_EVALUATED, message="No gradient.") for name in RULES[1:]),
]
LOSSLESS = [FEW[0], *(replace(one, message=f"{NO_LOSS}the script computes none.") for one in FEW[1:])]
SHORT_OF_MOST = [*FINE, *(replace(FEW[1], configuration_name=f"more-{k}", rule_id=f"more-{k}") for k in range(10))]
SHORT_OF_SOME = SHORT_OF_MOST[:-1]
LEFT = [RUINED, replace(CLEAN, rule_id=RUINED.rule_id, configuration_name=RUINED.configuration_name,
                        state=State.RECOVERED, group=RUINED.group), *FINE]  # fmt: skip


def _front_page(uri: str) -> str:
    page = Path(f"{uri}.html")
    assert CliRunner().invoke(main, ["report", uri, "-o", str(page)]).exit_code == 0
    return page.read_text("utf-8").partition("<dl")[0].partition("<body")[2]


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda uri: summary_of(read_run(uri)).judged.reservation, id="list"),
        *VIEWS,
        pytest.param(lambda uri: CliRunner().invoke(main, ["findings", uri]).stderr, id="findings"),
        pytest.param(_front_page, id="report"),
    ],
)
@pytest.mark.parametrize(
    ("verdicts", "learning", "words"),
    [
        pytest.param(FINE, LEVEL, "a constant answer costs 0.685", id="nothing-learned"),
        pytest.param(FINE, Learning(zero_gradients="3 of 3 weights had a gradient of exactly zero"),
                     "3 of 3 weights had a gradient of exactly zero", id="gradients-of-zero"),
        pytest.param(FINE, Learning(faults="the rehearsal found 1 fault: script-runs"),
                     "the rehearsal found 1 fault: script-runs", id="a-failed-rehearsal"),
        pytest.param(FEW, Learning(), "hardly judged", id="hardly-judged"),
        pytest.param(LOSSLESS, Learning(), "hardly judged, as no loss was recorded", id="no-loss"),
        pytest.param(SHORT_OF_MOST, Learning(), "hardly judged, as most rules had too little data", id="few-steps"),
        pytest.param(LEFT, LEVEL, "a constant answer costs 0.685", id="ruined-and-recovered"),
    ],
)  # fmt: skip
def test_no_view_takes_a_run_for_sound_that_is_not_known_to_be(
    tmp_path: Path, view: Callable[[str], str], verdicts: Sequence[Verdict], learning: Learning, words: str
) -> None:
    uri = _judged_run(tmp_path / "run", *verdicts, learning=learning)
    shown = view(uri)
    assert words in shown.lower()
    assert "✔" not in shown
    assert 'class="verdict ok' not in shown
    assert not re.search(r"(?<!found an )\bno issue\b", shown.lower())


@pytest.mark.parametrize(
    ("verdicts", "learning", "exit_code"),
    [
        pytest.param(FINE, Learning(), 0, id="well"),
        pytest.param(FINE, LEVEL, 0, id="nothing-learned"),
        pytest.param(FEW, Learning(), 0, id="hardly-judged"),
        pytest.param(LEFT, Learning(), 0, id="recovered"),
        pytest.param(LEFT, LEVEL, 1, id="ruined"),
        pytest.param([RUINED, *FINE], Learning(), 1, id="critical"),
        pytest.param(FINE, Learning(faults="the rehearsal found 1 fault: script-runs"), 1, id="a-failed-rehearsal"),
    ],
)
def test_a_run_fails_everywhere_or_nowhere(
    tmp_path: Path, verdicts: Sequence[Verdict], learning: Learning, exit_code: int
) -> None:
    uri = _judged_run(tmp_path / "run", *verdicts, learning=learning)
    assert CliRunner().invoke(main, ["findings", uri, "--fail-on", "critical"]).exit_code == exit_code
    worst = {summary_of(read_run(uri)).worst_severity, judgement_of(read_run(uri)).worst_severity}
    assert worst == {Severity.CRITICAL if exit_code else None}
    junit = text_for(read_run(uri), "junit")
    assert ("<failure" in junit) is bool(exit_code)
    assert "<error" not in junit


def test_a_sound_run_is_well_without_reservation(tmp_path: Path) -> None:
    uri = _judged_run(tmp_path / "run", *FINE, learning=Learning())
    assert read_run(uri).judged.reservation == ""
    assert "✔ No issue: 9 rules over" in _front_page(uri)
    assert "judged" not in text_for(read_run(uri), "junit")


def test_what_an_unfinished_run_had_learned_before_it_went_on_is_left_out(tmp_path: Path) -> None:
    uri = _judged_run(tmp_path / "run", *FINE)
    Path(uri, RECORD_FILE).unlink()
    assert not read_run(uri).has_ended
    assert read_run(uri).judged.reservation == ""


@pytest.mark.parametrize(
    ("verdicts", "learning", "word"),
    [
        pytest.param(FINE, Learning(), "none", id="well"),
        pytest.param(LEFT, Learning(), "none", id="recovered"),
        pytest.param(LEFT, LEVEL, "critical", id="ruined-and-recovered"),
        pytest.param(FEW, Learning(), "not-judged", id="hardly-judged"),
        pytest.param(SHORT_OF_MOST, Learning(), "not-judged", id="too-few-steps-for-most-rules"),
        pytest.param(SHORT_OF_SOME, Learning(), "none", id="too-few-steps-for-half-of-the-rules"),
        pytest.param([], Learning(), "not-judged", id="nobody-was-asked"),
    ],
)
def test_trackers_and_the_list_have_one_word_for_a_run(
    tmp_path: Path, verdicts: Sequence[Verdict], learning: Learning, word: str
) -> None:
    uri = _judged_run(tmp_path / "run", *verdicts, learning=learning)
    assert outcome_of((), uri).worst == word
    assert RunFilter(worst=word).chooses(summary_of(read_run(uri)))
