"""The three figures side by side: the words around them stay, and a page without a place for them is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import three_figures
from benchmarks.mutants.readings import Reading
from benchmarks.three_figures import FIRST, LAST, CleanRuns, lines, written

PAGE = Path(__file__).parents[2] / "docs" / "rule-quality.md"
CLEAN = [CleanRuns("own corpus, clean runs", 10, 30, 3, 0)]
READING = Reading("2026-11-23 14:26", "abc", "--half report", 24, 72, 67, 69, 56, 60, 22)


def test_the_words_around_stay() -> None:
    block = list(lines(CLEAN, [READING, READING]))
    page = written(f"# Words\n\n{FIRST}\nold\n{LAST}\n\nmore\n", block)
    assert page.startswith(f"# Words\n\n{FIRST}\n\nRules `")
    assert page.endswith(f"{LAST}\n\nmore\n")
    assert "old" not in page
    assert written(page, block) == page
    assert "3/30 = 10.0%" in page
    assert page.count("67/72 = 93.1%") == 2


def test_a_half_that_was_never_read_is_called_so() -> None:
    assert "never read" in "\n".join(lines(CLEAN, []))


@pytest.mark.parametrize("page", ["", FIRST, f"{LAST} {FIRST}"], ids=["empty", "no-end", "wrong-order"])
def test_a_page_without_a_place_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        written(page, [])


def test_the_page_of_the_project_has_a_place() -> None:
    assert written(PAGE.read_text(encoding="utf-8"), [FIRST, LAST])


def test_nothing_stored_gives_shares_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert three_figures.main(["--mutants", str(tmp_path), "--wild", str(tmp_path), "--seeds", "1"]) == 0
    assert "| own corpus, clean runs | 0 | 0 | - | - |" in capsys.readouterr().out
