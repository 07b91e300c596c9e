"""Every number of rules and diagnosis is a declared parameter, or has a name, a unit, a reason and a source."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import trackside

LIBRARY = Path(trackside.__file__).parent
CONSTANTS = LIBRARY / "situation" / "constants.py"
ROOMS = ("rules", "speed/rules", "language/rules", "presets/rules", "diagnosis", "evidence", "situation")
FILES = sorted(file for room in ROOMS for file in (LIBRARY / room).rglob("*.py") if file != CONSTANTS)
LINE = re.compile(r"(?P<name>[A-Z][A-Z0-9_]+) = [^#]+  # (?P<unit>[^:]+): (?P<reason>.{10,}) \[(?P<source>[MFPJT])\]")
MOST = 130
PLAIN = (0.0, 0.5, 1.0, 2.0, 100.0)  # with either sign: none, half, whole, twice, percent
TINY = 1e-30  # up to it a number keeps a division from failing, and decides nothing


def is_number(node: ast.expr | None) -> bool:
    """Return True for an expression of numbers alone, or a tuple or mapping with one."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) or is_number(node.right)
    if isinstance(node, ast.Tuple):
        return any(map(is_number, node.elts))
    return isinstance(node, ast.Dict) and any(map(is_number, node.values))


def numbers_of_a_module(source: str) -> list[str]:
    """Return the assignments of numbers outside of classes and functions."""
    body = ast.parse(source).body
    return [
        ast.unparse(node) for node in body if isinstance(node, (ast.Assign, ast.AnnAssign)) and is_number(node.value)
    ]


def bare_numbers(source: str) -> Iterator[str]:
    """Yield the lines with a floating-point number in a function, but for plain ones."""
    lines = source.split("\n")
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    for node in {part for function in functions for part in ast.walk(function)}:
        if (
            isinstance(node, ast.Constant)
            and type(node.value) is float
            and node.value not in PLAIN
            and node.value > TINY
        ):
            yield lines[node.lineno - 1].strip()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("_LEARNED = 0.3", ["_LEARNED = 0.3"], id="a number"),
        pytest.param("_NEAR, _FAR = 1, -2.0", ["_NEAR, _FAR = (1, -2.0)"], id="several"),
        pytest.param("_MOST: int = 1 << 20", ["_MOST: int = 1 << 20"], id="with a type"),
        pytest.param("_PACES = {'a': (1, 2)}", ["_PACES = {'a': (1, 2)}"], id="in a mapping"),
        pytest.param("_WORDS = ('a', 'b')", [], id="words"),
        pytest.param("_IS_ON = True", [], id="a truth"),
        pytest.param("class A:\n    times: float = 3.0", [], id="a parameter"),
    ],
)
def test_numbers_are_seen(source: str, found: list[str]) -> None:
    assert numbers_of_a_module(source) == found


def test_bare_numbers_are_seen() -> None:
    assert list(bare_numbers("def f(x):\n    return 0.3 * x\n")) == ["return 0.3 * x"]
    assert not list(bare_numbers("def f(x):\n    return max(0.5 * x, 1e-30) / 100.0\n"))


def test_no_other_module_holds_a_number() -> None:
    found = {str(file.relative_to(LIBRARY)): numbers_of_a_module(file.read_text(encoding="utf-8")) for file in FILES}
    assert {file: some for file, some in found.items() if some} == {}, "give it a name in situation/constants.py"


def test_no_function_holds_a_bare_number() -> None:
    found = {str(file.relative_to(LIBRARY)): [*bare_numbers(file.read_text(encoding="utf-8"))] for file in FILES}
    assert {file: some for file, some in found.items() if some} == {}, "give it a name in situation/constants.py"


def test_each_number_has_a_unit_a_reason_and_a_source_and_is_used() -> None:
    text = CONSTANTS.read_text(encoding="utf-8")
    lines = text.split('"""')[2].strip().split("\n")
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    names = Counter(line.split(" = ")[0] for line in lines)
    assert max(names.values()) == 1, "one word, one value"
    assert len(names) <= MOST, "merge two that mean the same, where no verdict changes"
    used = Counter(word for file in FILES for word in set(re.findall(r"\w+", file.read_text(encoding="utf-8"))))
    elsewhere = "".join(file.read_text(encoding="utf-8") for file in (LIBRARY / "evaluation").rglob("*.py"))
    assert [name for name in names if not used[name] and name not in elsewhere] == []
