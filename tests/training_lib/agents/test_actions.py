"""Rehearsals and stops for agents: with permission only, without a shell, and of runs of this machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.patience import wait_until
from tests.training_lib.agents.asked import run, runs_of
from trackside.agents.actions import MOST_CHECKS, Actions
from trackside.agents.answers import CheckResult
from trackside.contracts.errors import ConfigurationError, RunNotFoundError
from trackside.local.stop_request import requested_stop
from trackside.runs.run_folder import RunRecord, held, write_record
from trackside.testing.fake_trial import WALL_TIME

WAITS = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.fixture
def actions(where: Path) -> Iterator[Actions]:
    made = Actions(runs_of(where), clock=lambda: WALL_TIME)
    yield made
    made.close()


def end_of(actions: Actions, command: list[str]) -> CheckResult:
    name = actions.start_check(command, steps=5).run

    def ended() -> CheckResult | None:
        found = actions.check_result(name)
        return None if found.state == "running" else found

    found: CheckResult = wait_until(ended, look_seconds=0.1)
    return found


def test_a_script_without_a_training_gives_no_result(actions: Actions, where: Path) -> None:
    found = end_of(actions, [sys.executable, "-c", "import sys; sys.exit('no\\x1b[31m data')"])
    assert (found.state, found.steps) == ("failed", 0)
    assert "no [31m data" in found.output
    assert found.faults[0].probe == "script-runs"
    assert (where / found.run).is_dir()


def test_a_script_that_trains_nothing_is_not_said_to_pass(actions: Actions) -> None:
    found = end_of(actions, [sys.executable, "-c", "print('done')"])
    assert (found.state, found.exit_code, found.faults) == ("not judged", 8, ())


def test_a_rehearsal_runs_without_a_shell_and_ends_with_the_server(where: Path) -> None:
    actions = Actions(runs_of(where), clock=lambda: WALL_TIME)
    started = [actions.start_check([*WAITS, "; touch here"], steps=5) for _ in range(MOST_CHECKS)]
    with pytest.raises(ConfigurationError, match="must wait"):
        actions.start_check(WAITS, steps=5)
    assert {actions.check_result(one.run).state for one in started} == {"running"}
    processes = [check.process for check in actions._checks.values()]
    actions.close()
    for process in processes:
        assert wait_until(lambda process=process: process.poll() is not None)  # type: ignore[misc]
    assert not (where.parent / "here").exists()


REFUSED: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "is empty"),
    "an empty word": (["python", ""], "is empty"),
    "no such program": (["no-such-program-here"], "there is no such program on PATH"),
    "a line of a shell": (["python train.py"], "there is no such"),
}


def test_what_cannot_be_rehearsed_is_explained(actions: Actions) -> None:
    @for_each(REFUSED)
    def check(command: list[str], text: str) -> None:
        with pytest.raises(ConfigurationError, match=text):
            actions.start_check(command, steps=5)

    check()
    with pytest.raises(RunNotFoundError, match="started no rehearsal"):
        actions.check_result("../runs")


def test_only_a_run_that_goes_on_here_is_stopped(actions: Actions, where: Path) -> None:
    folder = run(where, "goes-on")
    with pytest.raises(ConfigurationError, match="is no run that `trackside run` runs"):
        actions.stop_run("goes-on", reason="it diverged")
    assert requested_stop(folder) == ""
    write_record(folder, RunRecord(("python", "train.py"), 1.0))
    with held(folder):
        assert actions.stop_run("goes-on", reason="it\ndiverged").state == "running"
    assert requested_stop(folder) == "it diverged"


def test_a_run_of_another_machine_is_not_stopped(actions: Actions, where: Path) -> None:
    folder = run(where, "elsewhere")
    (folder / "local-run.json").unlink()
    with pytest.raises(ConfigurationError):
        actions.stop_run("elsewhere", reason="it diverged")


CONTENTS: dict[str, tuple[bytes, str]] = {
    "a reason": (b'{"reason": "it diverged"}', "it diverged"),
    "no reason": (b"{}", "without a reason"),
    "a number": (b'{"reason": 7}', "without a reason"),
    "a list": (b"[]", "without a reason"),
    "a long one": (b'{"reason": "%s"}' % (b"x" * 1000), "x" * 200),
    "no JSON": (b"{", ""),
    "nothing": (b"", ""),
}


def test_a_request_is_read_whatever_it_holds(tmp_path: Path) -> None:
    @for_each(CONTENTS)
    def check(content: bytes, reason: str) -> None:
        (tmp_path / "stop-request.json").write_bytes(content)
        assert requested_stop(tmp_path) == reason

    check()
