"""The decisions about starts: after which reports, from which checkpoint, how often, and what they leave out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from trackside.contracts.run.checkpoint import Checkpoint
from trackside.contracts.run.rescue import RescueRecord, RescueState, TryOutcome
from trackside.contracts.run.restart import LeftOut, Met, Report
from trackside.contracts.run_layout import TENSORS, checkpoints_key
from trackside.environment import LEAVE_OUT, RESUME_FROM, RescueEnvironment
from trackside.records.checkpoints_file import encode_checkpoints
from trackside.rescue.restarting.restart_folder import RestartFolder
from trackside.rescue.restarting.restarts import JUDGING_SECONDS, Restarts
from trackside.storage.open_store import open_store

ROWS = (LeftOut("Data of 100", (1, 2)),)


class Run:
    """A run with checkpoints after 100, 200 and 300 steps, and a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        self.paths = [str(folder / "ck" / f"step_{step}.pt") for step in (100, 200, 300)]
        (folder / "ck").mkdir()
        for path in self.paths:
            Path(path).write_text(path)
        known = [Checkpoint(step - 1, path) for step, path in zip((100, 200, 300), self.paths, strict=True)]
        open_store(str(folder / "run" / TENSORS)).put(checkpoints_key("worker_0"), encode_checkpoints(known))
        self.files = RestartFolder(folder / "run")
        self.restarts = self.opened()

    def opened(self, **settings: Any) -> Restarts:
        """Return the decisions as a new `trackside run` makes them."""
        restarts = Restarts(
            self.files, RescueEnvironment(is_on=True, restarts=True, **settings), monotonic=lambda: self.now
        )
        restarts.begin()
        return restarts

    def report(self, met: Met = Met.FAULT, *, rank: int = 0, prefix: str = "", **numbers: Any) -> None:
        values = {"first_step": 250, "at_step": 260, "cause": "a spike", "is_of_batch": True, "left_out": ROWS}
        path = self.folder / "run" / "restart" / f"{prefix}worker_{rank}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(Report(met, **{**values, **numbers}).to_json())

    def standing(self, *issues: tuple[str, int]) -> None:
        folder = self.folder / "run" / "rescue"
        folder.mkdir(exist_ok=True)
        found = [{"rule": rule, "since_step": since} for rule, since in issues]
        (folder / "standing-issues.json").write_text(json.dumps(found))

    def start(self) -> bool:
        """Do what happens between a fault and the next process. Return False if none is started."""
        if not self.restarts.has_fault():
            return False
        self.now += JUDGING_SECONDS
        plan = self.restarts.plan()
        if plan is not None:
            self.restarts.carry_out(plan)
        return plan is not None

    @property
    def record(self) -> RescueRecord:
        return self.files.record()

    @property
    def left(self) -> list[str]:
        return sorted(each.name for each in (self.folder / "ck").iterdir() if each.is_file())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_start_sets_later_checkpoints_aside_and_leaves_rows_out(run: Run) -> None:
    assert run.restarts.variables() == {}
    run.report()
    run.report(rank=1, first_step=249, left_out=(LeftOut("Data of 100", (7,)),))
    assert run.start()
    assert run.left == ["step_100.pt", "step_200.pt"]
    one = run.record.tries[0]
    assert (one.checkpoint, one.at_step, one.back_to_step, one.left_out) == (run.paths[1], 260, 200, True)
    assert [Path(aside).read_text() for aside in one.set_aside] == [run.paths[2]]
    assert run.record.sentence().startswith(f"Went back from step 260 to step 200 ({run.paths[1]}), started again")
    variables, order = run.restarts.variables(), run.files.order()
    assert order is not None
    assert variables == {RESUME_FROM: run.paths[1], LEAVE_OUT: str(run.files.order_path)}
    assert order.left_out == (LeftOut("Data of 100", (1, 2, 7)),)
    assert (order.undone_steps, order.is_again) == (60, False)
    assert not run.restarts.has_fault()  # the reports were of the process before


def test_torn_weights_leave_no_rows_out(run: Run) -> None:
    run.report(is_of_batch=False)
    assert run.start()
    order = run.files.order()
    assert order is not None
    assert order.left_out == ()


_REFUSED = {
    "by the process": ({"refusal": "it diverges by itself"}, (), "it diverges by itself"),
    "no checkpoint before": ({"first_step": 90}, (), "no checkpoint"),
    "what an earlier moment does not cure": ({}, (("vanishing-gradient", 40),), "does not cure"),
    "all are contradicted": ({}, (("exploding-tensor", 50),), "no checkpoint"),
}


@pytest.mark.parametrize(("numbers", "issues", "words"), _REFUSED.values(), ids=_REFUSED)
def test_what_going_back_does_not_cure_is_refused(
    numbers: dict[str, Any], issues: tuple[tuple[str, int], ...], words: str, run: Run
) -> None:
    run.standing(*issues)
    run.report(**numbers)
    assert not run.start()
    assert run.record.state is RescueState.REFUSED
    assert words in run.record.reason
    assert len(run.left) == 3
    assert run.files.order() is None
    assert not run.restarts.has_fault()


_ALLOWED = {
    "an issue of the fault itself": (("exploding-tensor", 250),),
    "an incurable one that came with it": (("dead-relu", 251),),
    "one that contradicts a later checkpoint": (("loss-spike", 280),),
    "none": (),
}


@pytest.mark.parametrize("issues", _ALLOWED.values(), ids=_ALLOWED)
def test_issues_from_the_fault_on_hold_nothing_up(issues: tuple[tuple[str, int], ...], run: Run) -> None:
    run.standing(*issues)
    run.report()
    assert run.start()


def test_a_place_is_tried_twice_then_the_one_before_and_five_in_all(run: Run) -> None:
    places = []
    for _ in range(6):
        run.report(first_step=1250, at_step=1260)
        if not run.start():
            break
        places.append(Path(run.record.tries[-1].checkpoint).name)
    assert places == ["step_300.pt", "step_300.pt", "step_200.pt", "step_200.pt", "step_100.pt"]
    assert run.record.state is RescueState.LOST
    assert [one.softened != "" for one in run.record.tries] == [False, True, False, True, False]
    assert {one.outcome for one in run.record.tries[:-1]} == {TryOutcome.FAILED}


def test_settings_limit_the_tries(run: Run) -> None:
    run.restarts = run.opened(tries=1)
    run.report()
    assert run.start()
    run.report(first_step=400, at_step=410)
    assert not run.start()
    assert "1 of 1 tries" in run.record.reason


@pytest.mark.parametrize(
    ("met", "state", "copies"),
    [(Met.CONFIRMED, RescueState.RESCUED, 0), (Met.UNLIKE, RescueState.LOST, 1)],
    ids=["confirmed", "the script did not resume"],
)
def test_the_copy_is_kept_until_the_script_has_resumed(met: Met, state: RescueState, copies: int, run: Run) -> None:
    run.report()
    assert run.start()
    good = list((run.folder / "ck").rglob("*-good/*"))
    assert [each.read_text() for each in good] == [run.paths[1]]
    run.report(met)
    assert not run.restarts.has_fault()
    assert run.record.state is state
    assert len(list((run.folder / "ck").rglob("*-good/*"))) == copies
    assert ("a copy of the checkpoint is" in run.record.reason) is bool(copies)


def test_a_second_fault_keeps_what_was_left_out(run: Run) -> None:
    run.report()
    assert run.start()
    run.report(Met.CONFIRMED)
    assert not run.restarts.has_fault()
    run.report(first_step=400, at_step=410, left_out=(LeftOut("Data of 100", (9,)),))
    run.standing(("exploding-tensor", 255))  # of the undone steps, not recovered yet
    assert run.start()
    order = run.files.order()
    assert order is not None
    assert order.left_out == (LeftOut("Data of 100", (1, 2, 9)),)


@pytest.mark.parametrize(
    ("failed", "issues", "is_started"),
    [
        (True, (("exploding-tensor", 259),), True),
        (True, (("exploding-tensor", 150),), False),
        (True, (("dead-relu", 259),), False),
        (True, (), False),
        (False, (("exploding-tensor", 259),), False),
    ],
    ids=["a rule found it", "an older issue", "another kind", "a failure of the script", "no failure"],
)
def test_a_script_that_ended_itself_is_started_again_for_a_fault_only(
    failed: bool, issues: tuple[tuple[str, int], ...], is_started: bool, run: Run
) -> None:
    run.report(Met.ENDED, prefix="ended_")
    run.standing(*issues)
    if failed:
        run.restarts.process_failed()
    assert run.restarts.may_have_fault is failed
    assert run.start() is is_started
    run.now += 2 * JUDGING_SECONDS
    run.restarts.has_fault()
    assert not run.restarts.may_have_fault  # and so the run ends


def test_a_start_that_cannot_be_prepared_is_none_and_moves_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 100, 0))
    run.report()
    assert not run.start()
    assert run.record.state is RescueState.REFUSED
    assert "cannot be prepared" in run.record.reason
    assert len(run.left) == 3
    assert run.files.order() is None


def test_a_run_that_is_killed_between_record_and_moves_is_made_good_when_it_goes_on(run: Run) -> None:
    run.report()
    assert run.restarts.has_fault()
    run.now += JUDGING_SECONDS
    assert run.restarts.plan() is not None
    assert run.record.is_about_to_start
    assert len(run.left) == 3  # and here `trackside run` dies
    later = run.opened()
    assert run.left == ["step_100.pt", "step_200.pt"]
    assert later.variables()[RESUME_FROM] == run.paths[1]
    assert not later.has_fault()
    run.report(Met.CONFIRMED)
    assert not later.has_fault()
    assert not list((run.folder / "ck").rglob("*-good"))  # the copy


def test_a_checkpoint_that_the_script_deletes_meanwhile_is_put_back(run: Run) -> None:
    run.report()
    assert run.restarts.has_fault()
    run.now += JUDGING_SECONDS
    plan = run.restarts.plan()
    assert plan is not None
    Path(run.paths[1]).unlink()
    run.restarts.carry_out(plan)
    assert run.left == ["step_100.pt", "step_200.pt"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"met": "other"}'])
def test_damaged_reports_are_none(text: str, run: Run) -> None:
    run.report()
    (run.folder / "run" / "restart" / "worker_0.json").write_text(text)
    assert not run.restarts.has_fault()
