"""The README: its Python runs, and its pictures are drawn from output without anything of this machine."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import pictures
from tests.patience import HANGS_SECONDS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MOST_LINES = 100


def test_its_python_runs_and_prints_losses(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HANGS_SECONDS)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.replace("[", "").replace("]", "").split()) == 100


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_each_picture_is_there_and_loads_nothing(name: str) -> None:
    drawn = (pictures.IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    assert f"images/{name}.svg" in README
    assert "url(http" not in drawn
    assert str(ROOT) not in drawn


def test_a_picture_has_the_words_of_the_output_and_its_colours() -> None:
    drawn = pictures.picture("\x1b[1;31m✖ CRITICAL\x1b[0m  vanishing-gradient", name="x")
    assert "vanishing-gradient" in drawn
    assert "#f06268" in drawn
    assert "@font-face" not in drawn


def test_progress_that_was_overwritten_is_left_out() -> None:
    progress = "\x1b[?25lwaiting 1\r\x1b[2Kwaiting 2\r\x1b[2Kstacks ready\r\nwaiting 3\r\x1b[2Kwaiting 4\r\n"
    raw = f"Stage\r\n{progress}\x1b[?25h\r\x1b[1A\x1b[2K\r\nIn short\r\n"
    shown = [line for line in pictures.as_left_on_screen(raw).splitlines() if line]
    assert shown == ["Stage", "stacks ready", "In short"]


def test_the_first_card_ends_with_its_frame() -> None:
    frame = "─" * 40
    output = f"loss 1\n✖ CRITICAL a ──\nbody\n{frame}\nmore\n{frame}"
    assert pictures.first_card(output) == f"✖ CRITICAL a ──\nbody\n{frame}"
