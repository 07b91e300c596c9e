"""Waiting for an issue or the end of a run: what ends the wait, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.training_lib.local.verdicts import issue, no_issue
from trackside.contracts.errors import RunNotFoundError
from trackside.contracts.verdict import Severity, State, Verdict
from trackside.runs.run_folder import RunRecord, held, write_record
from trackside.runs.run_waiting import EndOfWait, Wait, Waited, wait_for
from trackside.storage.local import LocalStore

CRITICAL, INFO = issue("loss-spike"), issue("batch-size", severity=Severity.INFO)
WARNING = issue("overfit", severity=Severity.WARNING)
RECOVERED = replace(no_issue("loss-spike"), state=State.RECOVERED, group=CRITICAL.group)
ISSUE, END, TIMEOUT = EndOfWait
STARTED = RunRecord(("python", "train.py"), 1.0)
Act = Callable[[Path], None]


class Script:
    """A run on which something happens with each look; the clock ticks with it."""

    def __init__(self, folder: Path, acts: tuple[Act, ...]) -> None:
        self.folder, self.acts, self.now, self.looks = folder, list(acts), 0.0, 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.looks += 1
        if self.acts:
            self.acts.pop(0)(self.folder)

    def wait(self, wait: Wait) -> Waited:
        def find() -> str:
            if not self.folder.exists():
                raise RunNotFoundError("no such run")
            return str(self.folder)

        return wait_for(find, wait, monotonic=lambda: self.now, sleep=self.sleep)


def begins(folder: Path) -> None:
    LocalStore(folder).put("rule-request.json", b'{"rules": []}')
    write_record(folder, STARTED)


def finds(*verdicts: Verdict) -> Act:
    def act(folder: Path) -> None:
        path = folder / "rule-output" / "verdicts.jsonl"
        path.parent.mkdir(exist_ok=True)
        with path.open("a") as file:
            file.writelines(f"{verdict.to_json()}\n" for verdict in verdicts)

    return act


def ends(status: int = 0) -> Act:
    return lambda folder: write_record(folder, replace(STARTED, ended_at=2.0, status=status))


def nothing(folder: Path) -> None:
    """Let the time pass."""


UNTIL_ISSUE, UNTIL_END = Wait(True, 60), Wait(False, 60)
CASES: dict[str, tuple[Wait, tuple[Act, ...], EndOfWait, int]] = {
    "an issue": (UNTIL_ISSUE, (nothing, finds(CRITICAL)), ISSUE, 1),
    "the end without one": (UNTIL_ISSUE, (finds(no_issue()), ends()), END, 0),
    "an issue before the end": (UNTIL_END, (finds(CRITICAL), nothing, ends(1)), END, 1),
    "nothing in time": (UNTIL_ISSUE, (finds(no_issue()),), TIMEOUT, 0),
    "information alone": (UNTIL_ISSUE, (finds(INFO),), TIMEOUT, 0),
    "information that counts": (Wait(True, 60, Severity.INFO), (finds(INFO),), ISSUE, 1),
    "a warning that does not count": (Wait(True, 60, Severity.CRITICAL), (finds(WARNING), ends()), END, 0),
    "an issue that recovered": (UNTIL_ISSUE, (finds(CRITICAL, RECOVERED), ends()), END, 0),
    "an issue that was known": (Wait(True, 60, since=1), (finds(CRITICAL), nothing, ends()), END, 0),
    "a second issue": (Wait(True, 60, since=1), (finds(CRITICAL), nothing, finds(WARNING)), ISSUE, 1),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_what_ends_a_wait(tmp_path: Path) -> None:
    @for_each({name: (name, *case) for name, case in CASES.items()})
    def check(name: str, wait: Wait, acts: tuple[Act, ...], ended_by: EndOfWait, problems: int) -> None:
        folder = tmp_path / name
        folder.mkdir()
        begins(folder)
        with held(folder):
            waited = Script(folder, acts).wait(wait)
        assert (waited.ended_by, len(waited.problems)) == (ended_by, problems)

    check()


def test_a_run_that_appears_later(folder: Path) -> None:
    with ExitStack() as life:

        def appears(place: Path) -> None:
            place.mkdir()
            life.enter_context(held(place))
            begins(place)

        waited = Script(folder, (nothing, appears, nothing, finds(WARNING))).wait(UNTIL_ISSUE)
    assert waited.ended_by is ISSUE


def test_a_run_that_never_appears(folder: Path) -> None:
    script = Script(folder, ())
    waited = script.wait(Wait(True, 3.0))
    assert (waited.ended_by, waited.recorded, script.now) == (TIMEOUT, None, 3.0)


def test_one_look_without_time(folder: Path) -> None:
    folder.mkdir()
    begins(folder)
    with held(folder):
        finds(CRITICAL)(folder)
        script = Script(folder, ())
        assert script.wait(Wait(True, 0)).ended_by is ISSUE
        assert script.wait(Wait(False, 0)).ended_by is TIMEOUT
    assert script.looks == 0


def test_the_cursor_goes_on_where_the_last_wait_ended(folder: Path) -> None:
    folder.mkdir()
    begins(folder)
    with held(folder):
        first = Script(folder, (finds(no_issue(), CRITICAL),)).wait(UNTIL_ISSUE)
        assert first.cursor == 2
        second = Script(folder, (finds(WARNING),)).wait(Wait(True, 60, since=first.cursor))
    assert [group.lead.rule_id for group in second.problems] == ["overfit"]


def test_a_killed_run_has_not_ended_well(folder: Path) -> None:
    folder.mkdir()
    begins(folder)  # and nobody holds it: `trackside run` was killed
    waited = Script(folder, ()).wait(UNTIL_ISSUE)
    assert (waited.ended_by, waited.ended_well) == (END, False)
