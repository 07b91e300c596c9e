"""Files that were written once and never change: each is told of, and compared by a test."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
GOLDEN = sorted(path for path in (HERE / "golden").iterdir() if path.name != "README.md")
README = (HERE / "golden" / "README.md").read_text("utf-8")
TESTS = {path.name: path.read_text("utf-8") for path in HERE.glob("test_*.py") if path.name != Path(__file__).name}
FROM_THE_ORIGINAL = {"step.tfevents", "index.json", "collections.json"}  # which the README's first paragraph is about


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name)
def test_every_golden_file_is_compared_and_told_of(path: Path) -> None:
    assert [name for name, text in TESTS.items() if f'"{path.name}"' in text], "no test names it"
    assert path.name in FROM_THE_ORIGINAL or f"`{path.name}`" in README


def test_there_are_some() -> None:
    assert len(GOLDEN) > 5
    assert {path.name for path in GOLDEN} >= FROM_THE_ORIGINAL
