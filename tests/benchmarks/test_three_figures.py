"""The three figures side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import three_figures
from benchmarks.engine.pages import replaced
from benchmarks.mutants.readings import Reading
from benchmarks.three_figures import FIRST, LAST, CleanRuns, lines

PAGE = Path(__file__).parents[2] / "docs" / "rule-quality.md"
CLEAN = [CleanRuns("own corpus, clean runs", 10, 30, 3, 0)]
READING = Reading("2026-11-23 14:26", "abc", "--half report", 24, 72, 67, 69, 56, 60, 22)


def test_each_reading_has_a_row_and_a_half_without_any_is_called_so() -> None:
    text = "\n".join(lines(CLEAN, [READING, READING]))
    assert "3/30 = 10.0%" in text
    assert text.count("67/72 = 93.1%") == 2
    assert "never read" in "\n".join(lines(CLEAN, []))


def test_the_page_of_the_project_has_a_place() -> None:
    assert replaced(PAGE.read_text(encoding="utf-8"), "", begin=FIRST, end=LAST)


def test_nothing_stored_gives_shares_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert three_figures.main(["--mutants", str(tmp_path), "--wild", str(tmp_path), "--seeds", "1"]) == 0
    assert "| own corpus, clean runs | 0 | 0 | - | - |" in capsys.readouterr().out
