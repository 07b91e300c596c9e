"""Promises about every public name: it is there, it explains itself, and asking for it loads only what it needs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import trackside
from tests.patience import HANGS_SECONDS
from trackside.contracts import errors

SOURCE = Path(trackside.__file__)


@pytest.mark.parametrize("name", trackside.__all__)
def test_it_can_be_imported_and_is_listed(name: str) -> None:
    assert getattr(trackside, name) is not None
    assert name in dir(trackside)


@pytest.mark.parametrize("name", [name for name in trackside.__all__ if name != "__version__"])
def test_it_is_documented(name: str) -> None:
    documentation = inspect.getdoc(getattr(trackside, name)) or ""
    assert documentation.partition("\n")[0].rstrip().endswith(".")


def test_what_type_checkers_see_is_what_is_offered() -> None:
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        if isinstance(statement, ast.ImportFrom) and statement.module != "typing"
        for alias in statement.names
    }
    assert imported | {"__version__"} == set(trackside.__all__)


def test_a_name_that_is_not_offered_says_so() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Trail'"):
        _ = trackside.Trail


def test_every_error_can_be_imported_from_the_package() -> None:
    raised = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}
    assert raised <= set(trackside.__all__)


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, trackside; print(sorted(n for n in sys.modules if n.startswith(('trackside', 'numpy'))))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANGS_SECONDS
    )
    assert done.stdout == "['trackside']\n"
