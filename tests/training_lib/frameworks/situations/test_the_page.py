"""`docs/situations.md` names only tests that exist, and every test of this folder."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.for_each import for_each

PAGE = Path(__file__).parents[4] / "docs" / "situations.md"
FOLDER = Path(__file__).parent
NAMED = re.findall(r"`((?:situations/|life/)?test_\w+\.py)::(test_\w+)`", PAGE.read_text(encoding="utf-8"))


def functions_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@for_each({f"{file}::{test}": (file, test) for file, test in sorted(set(NAMED))})
def test_a_named_test_exists(file: str, test: str) -> None:
    assert test in functions_in(FOLDER.parent / file)


def test_every_test_of_a_situation_is_named() -> None:
    written = {
        (f"situations/{path.name}", test)
        for path in FOLDER.glob("test_*.py")
        if path.name != Path(__file__).name
        for test in functions_in(path)
    }
    assert written
    assert written <= set(NAMED)


def test_every_row_names_a_test() -> None:
    rows = [
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ") and "---" not in line
    ]
    headings = {"| situation |"}
    without = [row for row in rows if "::test_" not in row and not any(row.startswith(h) for h in headings)]
    assert not without
