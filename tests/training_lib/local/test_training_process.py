from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.patience import wait_until
from trackside.contracts.errors import ConfigurationError
from trackside.environment import inherited
from trackside.local.process_table import living_processes
from trackside.local.training_process import TrainingProcess, find_command


def start(code: str, *, shares_terminal: bool = False) -> TrainingProcess:
    return TrainingProcess((sys.executable, "-c", code), environment=inherited(), shares_terminal=shares_terminal)


def read_pid(path: Path) -> int:
    wait_until(lambda: path.exists() and path.read_text() != "")
    return int(path.read_text())


def leaving_behind(path: Path, *, then: str, listens: bool) -> str:
    """A command that starts a worker in the same group, notes its id, and goes on with `then`."""
    deaf = "" if listens else "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    worker = f"import os, signal, time; {deaf}open({str(path)!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    return f"import os, subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {worker!r}]); {then}"


@pytest.mark.parametrize("shares_terminal", [False, True], ids=["own-group", "our-group"])
def test_asking_to_end_reaches_the_whole_group_and_not_us(tmp_path: Path, shares_terminal: bool) -> None:
    code = leaving_behind(tmp_path / "pid", then="time.sleep(3600)", listens=True)
    training = start(code, shares_terminal=shares_terminal)
    worker = read_pid(tmp_path / "pid")
    training.request_end()
    wait_until(lambda: not training.is_alive())
    assert training.poll() == -signal.SIGTERM
    assert worker not in living_processes()


@pytest.mark.parametrize("shares_terminal", [False, True], ids=["own-group", "our-group"])
def test_an_orphan_that_does_not_listen_is_still_known_and_can_be_killed(tmp_path: Path, shares_terminal: bool) -> None:
    code = leaving_behind(tmp_path / "pid", then="time.sleep(3600)", listens=False)
    training = start(code, shares_terminal=shares_terminal)
    worker = read_pid(tmp_path / "pid")
    training.request_end()
    wait_until(lambda: training.poll() is not None)
    assert training.is_alive()
    assert worker in living_processes()
    training.kill()
    wait_until(lambda: not training.is_alive())
    assert worker not in living_processes()


def test_a_signal_is_for_the_command_alone(tmp_path: Path) -> None:
    """As if it had been sent to the command itself: its workers are its own business."""
    code = leaving_behind(tmp_path / "pid", then="time.sleep(3600)", listens=True)
    training = start(code)
    worker = read_pid(tmp_path / "pid")
    training.pass_on(signal.SIGUSR1)
    wait_until(lambda: training.poll() is not None)
    assert training.poll() == -signal.SIGUSR1
    assert worker in living_processes()
    training.kill()
    wait_until(lambda: worker not in living_processes())


def test_after_its_end_nothing_is_signalled() -> None:
    training = start("pass")
    wait_until(lambda: training.poll() is not None)
    training.pass_on(signal.SIGTERM)
    training.request_end()
    training.kill()
    assert training.poll() == 0
    assert not training.is_alive()


def test_a_command_is_found_as_the_training_would_find_it(tmp_path: Path) -> None:
    program = tmp_path / "prog"
    program.touch(mode=0o755)
    find_command(("prog",), search_path=str(tmp_path))
    find_command((str(program), "-x"), search_path="")
    with pytest.raises(ConfigurationError, match="no such program on PATH"):
        find_command(("prog",), search_path=os.devnull)
