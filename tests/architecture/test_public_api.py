"""docs/public-api.md: what it lists exists, and pages show users nothing that is not listed."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "public-api.md").read_text(encoding="utf-8")
LISTED = set(re.findall(r"`((?:trackside|trackside_localaccount)(?:\.[a-z_]+)*)`", PAGE))
PUBLIC = sorted(name for name in LISTED if not name.endswith("__"))
OF_RULES = re.compile(
    r"trackside\.(situation(\.losses)?|rules\.(data|tensors|program|models)|(language|speed|presets)\.rules)\.\w+"
)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_listed_module_exists_and_explains_itself(module: str) -> None:
    if module.startswith("trackside.integrations."):  # its tool is in the environment of benchmarks/integrations only
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        assert ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8")))
    else:
        assert importlib.import_module(module).__doc__


def imported(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def blocks() -> Iterator[tuple[str, str]]:
    """(page, code) of every Python example that parses; fragments with `...` in odd places are no programs."""
    for page in sorted([DOCS.parent / "README.md", *DOCS.rglob("*.md")]):
        if page.is_relative_to(DOCS / "decisions") or page.is_relative_to(DOCS / "contributing"):
            continue
        for code in re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.M):
            yield str(page.relative_to(DOCS.parent)), textwrap.dedent(code)


def test_examples_import_public_modules_only() -> None:
    allowed = {
        *PUBLIC,
        *(f"trackside_localaccount.{name}" for name in ("deploy", "faults", "framework_container", "provision")),
    }
    private = []
    for page, code in blocks():
        ours = [name for name in imported(code) if name.split(".")[0] in {"trackside", "trackside_localaccount"}]
        private += [f"{page}: {name}" for name in ours if name not in allowed and not OF_RULES.fullmatch(name)]
    assert not private
