"""Cards between the redraws of progress bars of real libraries, on the screen of a real terminal (tmux)."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.patience import HANGS_SECONDS
from tests.training_lib.local.verdicts import issue
from trackside.cli.terminal.views.card import VerdictCard
from trackside.contracts.issue_group import group_of_one

pytest.importorskip("tqdm", reason="the bars are those of the real tqdm")
pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="the terminal is tmux")

# A training that draws a step of its bar for each line on its stdin, and answers.
TQDM = """
from tqdm import tqdm
bars = [tqdm(total=9, desc=f"bar {n}", position=n, mininterval=0, miniters=1) for n in range(LINES)]
def draw():
    for bar in bars: bar.update(1)
def close():
    for bar in bars: bar.close()
"""
RICH = """
from rich.console import Console
from rich.progress import Progress
bar = Progress(console=Console(stderr=True), auto_refresh=False)
tasks = [bar.add_task(f"bar {n}", total=9) for n in range(LINES)]
bar.start()
def draw():
    for task in tasks: bar.advance(task)
    bar.refresh()
close = bar.stop
"""
BARS = """
import os, sys
LINES = {lines}
{bar}
for _ in sys.stdin:
    draw()
    sys.stderr.flush()
    os.write(1, b"drawn\\n")  # a bar may have replaced sys.stdout
"""
# `trackside run`: the card and a line come after the 3rd and the 5th step of the bar, which goes on.
VIEW = """
import subprocess, sys
from tests.training_lib.local.verdicts import issue
from trackside.cli.terminal.views.run_view import RunView
from trackside.contracts.issue_group import group_of_one
training = subprocess.Popen([sys.executable, {bars!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
view = RunView(color=False)
for step in range(9):
    training.stdin.write("step\\n")
    training.stdin.flush()
    training.stdout.readline()
    if step == 3:
        view.issue(group_of_one(issue()))
    if step == 5:
        view.note("a line")
"""

# A callback: the card is written by the training's own process, between the steps of its bar.
CALLBACK = """
import sys
from tests.training_lib.local.verdicts import issue
from trackside.contracts.issue_group import group_of_one
from trackside.integrations.issue_sinks import StderrSink
LINES = {lines}
{bar}
for step in range(9):
    draw()
    if step == 3:
        StderrSink().issue(group_of_one(issue()))
close()  # in an order of its own: at the end of Python each version has another
"""


@pytest.fixture
def screen_of(tmp_path: Path) -> Iterator[Callable[[str], list[str]]]:
    """Run a script in a terminal of 80 columns, and return the lines of its screen at the end."""
    tmux = ["tmux", "-S", str(tmp_path / "tmux"), "-f", os.devnull]

    def run(script: str) -> list[str]:
        (tmp_path / "view.py").write_text(script)
        view, ended = [sys.executable, str(tmp_path / "view.py")], [*tmux, "wait-for", "-S", "ended"]
        command = f"{shlex.join(view)}; {shlex.join(ended)}; exec cat"  # which keeps the screen
        start = [*tmux, "new-session", "-d", "-x", "80", "-y", "40", "-c", str(Path(__file__).parents[4])]
        subprocess.run([*start, "-e", f"PYTHONPATH={Path(__file__).parents[4]}", command], check=True)
        subprocess.run([*tmux, "wait-for", "ended"], check=True, timeout=HANGS_SECONDS)
        shown = subprocess.run([*tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True)
        return shown.stdout.rstrip("\n").split("\n")

    yield run
    subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


def card() -> list[str]:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    console.print(VerdictCard(group_of_one(issue())))
    file: Any = console.file
    lines: list[str] = file.getvalue().rstrip("\n").split("\n")
    return lines


@pytest.mark.parametrize(
    ("bar", "lines"),
    [
        pytest.param(TQDM, 1, id="tqdm"),
        pytest.param(TQDM, 2, id="tqdm-nested"),
        pytest.param(RICH, 1, id="rich"),
        pytest.param(RICH, 2, id="rich-of-two-lines"),
    ],
)
def test_neither_cuts_into_the_other(
    bar: str, lines: int, screen_of: Callable[[str], list[str]], tmp_path: Path
) -> None:
    (tmp_path / "bars.py").write_text(BARS.format(bar=bar, lines=lines))
    screen = screen_of(VIEW.format(bars=str(tmp_path / "bars.py")))
    whole = card()
    begin = screen.index(whole[0])
    assert screen[begin : begin + len(whole)] == whole
    (line,) = [line for line in screen if line.startswith("trackside: ")]
    assert line == "trackside: a line"
    newest = [line for line in screen if "bar 0" in line][-1]
    assert "9/9" in newest or "100%" in newest
    assert screen.index(newest) > screen.index(line)


@pytest.mark.parametrize(
    ("bar", "lines"),
    [
        pytest.param(TQDM, 1, id="tqdm"),
        pytest.param(TQDM, 2, id="tqdm-nested"),
        pytest.param(RICH, 2, id="rich-of-two-lines"),
    ],
)
def test_a_card_of_the_same_process_stands_above_the_bars(
    bar: str, lines: int, screen_of: Callable[[str], list[str]]
) -> None:
    screen = screen_of(CALLBACK.format(bar=bar, lines=lines))
    whole = card()
    begin = screen.index(whole[0])
    assert screen[begin : begin + len(whole)] == whole
    assert [line for line in screen[:begin] if line] == [], "no bar is left above"
    bars = [line for line in screen[begin + len(whole) :] if "bar " in line]
    assert len(bars) == lines
    assert all("9/9" in line or "100%" in line for line in bars)
