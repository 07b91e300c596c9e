"""A bar only where somebody looks, and only for what takes long."""

from __future__ import annotations

import io
import itertools

from rich.console import Console

from trackside.cli.terminal.progress import tracked


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
