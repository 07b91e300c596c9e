"""The operations of AWS that a command calls stand in the docs, as permissions. Functions: `tests/stacks`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLOUD = ROOT / "training_lib" / "src" / "trackside" / "cloud"
# What the permission is called where it is not called as the operation.
PERMISSIONS = {
    "list_objects_v2": ("ListBucket",),
    "start_message_move_task": ("StartMessageMoveTask", "ReceiveMessage", "DeleteMessage", "SendMessage"),
    "get_caller_identity": (),  # everybody may
}


def operations(module: Path) -> set[str]:
    """Of `call("service", "operation", ...)`, or `_call("operation", ...)` of a class that has one service."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"call", "_call"}:
            words = [each.value for each in node.args if isinstance(each, ast.Constant)]
            found |= {str(word) for word in words if "_" in str(word) or word in {"query", "subscribe", "unsubscribe"}}
    return found


@pytest.mark.parametrize(
    ("module", "page", "least"),
    [
        pytest.param("drill.py", "drill.md", 20, id="drill"),
        pytest.param("redelivery.py", "runbook.md", 6, id="redrive and replay"),
        pytest.param("run_table.py", "actions.md", 2, id="status, verdicts, rules and veto"),
        pytest.param("deployment.py", "deploy.md", 1, id="the outputs of the stacks"),
    ],
)
def test_the_page_names_every_called_operation(module: str, page: str, least: int) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    called = operations(CLOUD / module)
    assert len(called) >= least, "the walk sees nothing"
    needed = {name for one in called for name in PERMISSIONS.get(one, ("".join(map(str.title, one.split("_"))),))}
    assert sorted(name for name in needed if name not in text) == []
