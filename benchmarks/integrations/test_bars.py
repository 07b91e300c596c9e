"""Cards between the progress bars of the real trainers, on the screen of a real terminal (tmux) of 80x24."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("broken_trainer.py")
HANGS_SECONDS = 400.0
PARTS_OF_A_BAR = ("it/s", "s/it", "━━", "%|", "it]")
RULE = "─" * 80

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="the terminal is tmux")


@pytest.fixture
def lines_of(tmp_path: Path) -> Iterator[Callable[[list[str]], list[str]]]:
    """Run a command in a terminal of 80x24, and return the lines of its screen and of all that scrolled away."""
    tmux = ["tmux", "-S", str(tmp_path / "tmux"), "-f", os.devnull]

    def run(command: list[str]) -> list[str]:
        ended = [*tmux, "wait-for", "-S", "ended"]
        keeps_screen = f"{shlex.join(command)}; {shlex.join(ended)}; exec cat"
        subprocess.run(
            [*tmux, "new-session", "-d", "-x", "80", "-y", "24", "-c", str(tmp_path), keeps_screen], check=True
        )
        subprocess.run([*tmux, "wait-for", "ended"], check=True, timeout=HANGS_SECONDS)
        shown = subprocess.run([*tmux, "capture-pane", "-p", "-S", "-"], check=True, capture_output=True, text=True)
        return shown.stdout.rstrip("\n").split("\n")

    yield run
    subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)


@pytest.mark.parametrize("around", [pytest.param(False, id="callback"), pytest.param(True, id="trackside-run")])
@pytest.mark.parametrize(
    ("trainer", "bar"),
    [
        pytest.param("hf", "tqdm", id="hf"),
        pytest.param("lightning", "tqdm", id="lightning-tqdm"),
        pytest.param("lightning", "rich", id="lightning-rich"),
    ],
)
def test_no_bar_cuts_into_a_card(
    trainer: str, bar: str, around: bool, lines_of: Callable[[list[str]], list[str]]
) -> None:
    run = [sys.executable, "-m", "trackside", "run", "--"] if around else []
    lines = lines_of([*run, sys.executable, str(SCRIPT), trainer, "1", bar])
    text = "\n".join(lines)
    assert any(part in text for part in PARTS_OF_A_BAR), "the bar is there"
    heads = [place for place, line in enumerate(lines) if "CRITICAL" in line or "WARNING" in line]
    assert heads, text
    for begin in heads:
        assert lines[begin][0] in "✖▲", "a card begins at the left border"
        end = lines.index(RULE, begin)
        card = lines[begin : end + 1]
        assert not [line for line in card if any(part in line for part in PARTS_OF_A_BAR)], text
        labels = {line.split(" ")[0] for line in card}
        assert {"since", "observed", "more"} <= labels, "no line of the card is overwritten"
