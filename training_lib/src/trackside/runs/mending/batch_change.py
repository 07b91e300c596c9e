"""The one line of a training loop that changes a batch before the model gets it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

# Calls of a tensor's methods after which its numbers are the same.
_NEUTRAL = frozenset(
    {
        *("to", "cuda", "cpu", "float", "half", "long", "int", "double", "bfloat16", "type", "contiguous", "clone"),
        *("view", "reshape", "flatten", "unsqueeze", "squeeze", "permute", "transpose", "detach", "requires_grad_"),
    }
)


def batch_change(text: str) -> int | None:
    """Return the number of the line; None for no such line, or more than one.

    Args:
        text: The script.
    """
    try:
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While) and _passes(node.body)]
    found = {change.lineno for loop in loops for change in _changes(loop)}
    return found.pop() if len(found) == 1 else None


def _passes(body: Sequence[ast.stmt]) -> bool:
    """Return True if a statement of the body itself is a call of `backward`."""
    return any(_backward(statement) is not None for statement in body)


def _backward(statement: ast.stmt) -> ast.expr | None:
    """Return what `backward` is called of; None for another statement."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    is_call = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
    return call.func.value if is_call else None  # type: ignore[union-attr] # just looked at


def _changes(loop: ast.For | ast.While) -> Iterator[ast.stmt]:
    """Yield the statements that change what the loop bound before, up to the call of `backward`."""
    bound = set(_names(loop.target)) if isinstance(loop, ast.For) else set()
    before: list[tuple[ast.stmt, set[str]]] = []
    for statement in loop.body:
        passed = _backward(statement)
        if passed is not None:
            loss = passed.id if isinstance(passed, ast.Name) else ""
            yield from (change for change, names in before if loss not in names)
            return
        names = set(_bound_by(statement))
        if names & bound and not _is_neutral(statement):
            before.append((statement, names & bound))
        bound |= names


def _bound_by(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement gives a value to, or a part of."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    for target in [statement.target] if isinstance(statement, ast.AugAssign) else targets:
        yield from _names(target.value if isinstance(target, ast.Subscript) else target)


def _names(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _is_neutral(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign) or any(isinstance(one, ast.Subscript) for one in statement.targets):
        return False
    values = statement.value
    parts = values.elts if isinstance(values, ast.Tuple) else [values]
    return all(_keeps(part) for part in parts)


def _keeps(value: ast.expr | None) -> bool:
    """Return True for a name, or calls of neutral methods of one."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _NEUTRAL:
        value = value.func.value
    return isinstance(value, ast.Name)
