"""A bar only where somebody looks, and only for what takes long."""

from __future__ import annotations

import io
import itertools
import time

import pytest
from rich.console import Console

from tests.patience import HANGS_SECONDS
from trackside.cli.terminal.progress import tracked, waiting


def console(*, is_terminal: bool) -> tuple[Console, io.StringIO]:
    written = io.StringIO()
    return Console(file=written, force_terminal=is_terminal, width=80), written


def run(screen: Console, *, seconds_each: float) -> list[int]:
    ticks = itertools.count()
    return list(tracked([1, 2, 3, 4], label="reading", console=screen, clock=lambda: seconds_each * next(ticks)))


def test_long_work_on_a_terminal_shows_a_bar() -> None:
    screen, written = console(is_terminal=True)
    assert run(screen, seconds_each=0.6) == [1, 2, 3, 4]
    assert "reading" in written.getvalue()


def test_short_work_shows_nothing() -> None:
    screen, written = console(is_terminal=True)
    assert run(screen, seconds_each=0.1) == [1, 2, 3, 4]
    assert written.getvalue() == ""


def test_in_a_pipe_there_is_never_a_bar() -> None:
    screen, written = console(is_terminal=False)
    assert run(screen, seconds_each=100) == [1, 2, 3, 4]
    assert written.getvalue() == ""


def test_what_is_printed_while_a_bar_is_shown_stays_on_its_stream(capsys: pytest.CaptureFixture[str]) -> None:
    screen, written = console(is_terminal=True)
    ticks = itertools.count()
    for item in tracked([1, 2, 3], label="reading", console=screen, clock=lambda: float(2 * next(ticks))):
        print(item)
    assert capsys.readouterr().out == "1\n2\n3\n"
    assert "reading" in written.getvalue()


def test_waiting_long_shows_a_bar_and_an_error_goes_through_it() -> None:
    screen, written = console(is_terminal=True)

    def wait() -> None:
        with waiting("opening", console=screen, quiet_seconds=0.0):
            deadline = time.monotonic() + HANGS_SECONDS
            while "opening" not in written.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
            raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        wait()
    assert "opening" in written.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_waiting_shortly_or_in_a_pipe_shows_nothing(is_terminal: bool) -> None:
    screen, written = console(is_terminal=is_terminal)
    with waiting("opening", console=screen, quiet_seconds=HANGS_SECONDS if is_terminal else 0.0):
        pass
    assert written.getvalue() == ""
