"""Every action: registered, with a Lambda, a local twin and a place on the page."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from trackside.contracts import actions as declared
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.local import actions as local
from trackside.local.local_twins import local_twins

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "actions.md").read_text()
SOURCES = [ROOT / name for name in ("training_lib/src", "training_lib/compat", "lambdas", "stacks")]


def modules_of(package: object) -> set[str]:
    (folder,) = package.__path__  # type: ignore[attr-defined]
    return {path.stem for path in Path(folder).glob("*.py")} - {"__init__"}


def test_every_file_of_the_folder_is_a_registered_action() -> None:
    names = {action.unit.name for action in Action}
    assert modules_of(declared) == names, "run: python docs/generate.py"


def test_every_local_twin_is_of_an_action() -> None:
    names = {action.unit.name for action in Action}
    assert modules_of(local) == names, "run: python docs/generate.py, or declare it in contracts/actions"


@pytest.mark.parametrize("action", Action)
def test_has_a_local_twin(action: Action) -> None:
    assert list(local_twins([action])) == [action]


@pytest.mark.parametrize("action", Action)
def test_has_a_lambda(action: Action) -> None:
    assert (ROOT / "lambdas" / action.unit.reaction / "handler.py").is_file()


def test_an_action_without_a_lambda_of_its_own_is_carried_out_by_one_that_has() -> None:
    own = {action.unit.name for action in Action if not action.unit.carried_out_by}
    assert {action.unit.carried_out_by for action in Action} <= {"", *own}


@pytest.mark.parametrize("action", Action)
def test_stands_on_the_page_with_its_lambda_and_its_terms(action: Action) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| `{action.value}` |")]
    is_listed = any(f"`{action.unit.reaction}`" in row for row in rows)
    assert is_listed, "run: python docs/generate.py"
    for term in action.unit.terms:
        assert any(f"| `{term}` |" in row for row in rows)


def test_the_default_actions_are_spelled_once() -> None:
    """A tuple of several default actions, and of nothing else, stands nowhere in the sources."""
    spelled = {action.name for action in DEFAULT_ACTIONS}
    again = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in SOURCES
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Tuple | ast.List | ast.Set)
        and {part.attr for part in node.elts if isinstance(part, ast.Attribute)} == spelled
    ]
    assert again == []
