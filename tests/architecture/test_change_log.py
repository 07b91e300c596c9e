"""CHANGELOG.md, assembled from the notes in changes/."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.scripts import load

change_log = load("changelog")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "changes").mkdir()
    return tmp_path


def note(root: Path, name: str, text: str) -> None:
    (root / "changes" / name).write_text(text, encoding="utf-8")


def test_it_is_current_and_every_note_can_be_assembled() -> None:
    assert change_log.main(["--check"]) == 0


def test_notes_stand_by_kind_newest_issue_first_with_links_from_the_root(root: Path) -> None:
    note(root, "2.feature.md", "Two ([page](../docs/a.md)).\n")
    note(root, "10.B.feature.md", "Ten B.\n")
    note(root, "10.A.feature.md", "Ten A.\n")
    note(root, "3.removal.md", "Three went.\n")
    text = change_log.assemble(root)
    order = [
        text.index(word) for word in ("Removed", "Three went.", "Added", "Ten A.", "Ten B.", "Two ([page](docs/a.md)).")
    ]
    assert order == sorted(order)


def test_a_release_takes_the_notes_and_stays(root: Path) -> None:
    note(root, "1.feature.md", "The first.\n")
    assert change_log.main([], root) == 0
    assert change_log.main(["--release", "0.2.0", "2026-12-01"], root) == 0
    assert list((root / "changes").iterdir()) == []
    note(root, "2.fix.md", "The second.\n")
    assert change_log.main([], root) == 0
    assert change_log.main(["--check"], root) == 0
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert (
        text.index("Not released yet")
        < text.index("The second.")
        < text.index("## 0.2.0, 2026-12-01")
        < text.index("The first.")
    )
    assert change_log.assemble(root) == text, "assembling twice gives the same"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        pytest.param("notes.md", "x", "name it", id="name"),
        pytest.param("1.improvement.md", "x", "kinds: removal, feature, fix", id="kind"),
        pytest.param("1.fix.md", " \n", "is empty", id="empty"),
        pytest.param("1.fix.md", "# Fix\n", "heading", id="heading"),
    ],
)
def test_a_wrong_note_is_named(
    root: Path, name: str, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    note(root, name, text)
    assert change_log.main(["--check"], root) == 1
    assert problem in capsys.readouterr().err


def test_a_note_that_is_not_assembled_yet_is_noticed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note(root, "1.fix.md", "Mended.\n")
    assert change_log.main(["--check"], root) == 1
    assert "CHANGELOG.md is not current" in capsys.readouterr().err
