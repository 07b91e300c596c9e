"""Rescues seen from beside the training: what stands is handed over, what was done is shown, a stop waits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trackside.contracts.rule_catalogue import built_in_catalogue
from trackside.contracts.run.rescue import CURABLE_RULES, RescueRecord, RescueState, RescueTry, TryOutcome
from trackside.contracts.verdict import Finding, Outcome, Severity, Verdict
from trackside.local.rescue_watch import STOP_SECONDS, RescueWatch


def verdict(rule: str = "exploding-tensor", *, step: int = 120, severity: Severity = Severity.CRITICAL) -> Verdict:
    finding = Finding("loss", step, step, "values", 1.0, ">", 0.0)
    return Verdict(
        rule_id=rule,
        configuration_name=rule,
        severity=severity,
        outcome=Outcome.ISSUE_FOUND,
        message="",
        step=step,
        detected_at=0.0,
        findings=(finding,),
        run="run",
    )


class Seen:
    """A watch with a clock of its own, and what it showed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.notes = folder, 0.0, list[str]()
        self.watch = RescueWatch(folder, self.notes.append, monotonic=lambda: self.now)

    def record(self, state: RescueState, outcome: TryOutcome = TryOutcome.OPEN) -> None:
        tries = (RescueTry(121, 90, "a spike", "evidence", outcome=outcome),)
        (self.folder / "rescue").mkdir(exist_ok=True)
        (self.folder / "rescue" / "worker_0.json").write_text(RescueRecord(state, "a reason", tries).to_json())


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    return Seen(tmp_path)


def test_critical_issues_are_handed_to_the_training(seen: Seen) -> None:
    seen.watch.look([])
    assert not (seen.folder / "rescue").exists()
    seen.watch.look([verdict(), verdict("dead-relu", severity=Severity.WARNING)])
    handed = json.loads((seen.folder / "rescue" / "standing-issues.json").read_text())
    assert handed == [{"rule": "exploding-tensor", "since_step": 120}]


def test_each_change_is_shown_once(seen: Seen) -> None:
    for state, outcome in ((RescueState.TRYING, TryOutcome.OPEN), (RescueState.RESCUED, TryOutcome.RESCUED)):
        seen.record(state, outcome)
        seen.watch.look([])
        seen.watch.look([])
    assert len(seen.notes) == 2
    assert "from step 121 to step 90" in seen.notes[0]
    assert "went back once, 31 steps undone" in seen.notes[1]


_STOPS = {  # state of the rescue, seconds after the issue, is it stopped
    "nothing yet": (None, 1.0, False),
    "nothing in time": (None, STOP_SECONDS + 1, True),
    "on trial": (RescueState.TRYING, STOP_SECONDS + 1, False),
    "rescued": (RescueState.RESCUED, STOP_SECONDS + 1, False),
    "lost": (RescueState.LOST, 1.0, True),
    "refused": (RescueState.REFUSED, 1.0, True),
    "switched off": (RescueState.OFF, 1.0, True),
}


@pytest.mark.parametrize(("state", "seconds", "is_due"), _STOPS.values(), ids=_STOPS)
def test_a_stop_waits_while_the_training_may_go_back(
    state: RescueState | None, seconds: float, is_due: bool, seen: Seen
) -> None:
    assert seen.watch.delays_stop(verdict())
    if state is not None:
        seen.record(state, TryOutcome.RESCUED if state is RescueState.RESCUED else TryOutcome.OPEN)
    seen.watch.look([verdict()])
    seen.now = seconds
    assert (seen.watch.due_stop() is not None) is is_due


def test_a_second_issue_is_stopped_for_though_the_first_is_cured(seen: Seen) -> None:
    for each in (verdict(), verdict("loss-spike", step=300)):
        assert seen.watch.delays_stop(each)
    seen.record(RescueState.RESCUED, TryOutcome.RESCUED)
    seen.watch.look([])
    assert seen.watch.due_stop() is None
    seen.now = STOP_SECONDS + 1
    due = seen.watch.due_stop()
    assert due is not None
    assert due.rule_id == "loss-spike"
    assert seen.watch.due_stop() is None


def test_a_stop_for_what_going_back_does_not_cure_never_waits(seen: Seen) -> None:
    assert not seen.watch.delays_stop(verdict("vanishing-gradient"))


def test_curable_rules_exist() -> None:
    assert built_in_catalogue().rules.keys() >= CURABLE_RULES
