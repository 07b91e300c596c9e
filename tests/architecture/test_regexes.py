"""No pattern of others reaches `re`: each is compiled by `name_pattern`, which bounds the time of its search."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEARCHED = (
    "training_lib/src",
    "training_lib/compat",
    "training_lib/localaccount",
    "lambdas",
    "stacks",
    "rule_containers",
)
COMPILING = {"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"}
# (file, function) -> why the pattern may come from elsewhere.
ARGUED = {
    ("training_lib/compat/smdebug/core/utils.py", "list_files_in_directory"): "of the caller, in the caller's process",
    (
        "training_lib/compat/smdebug/profiler/profiler_config.py",
        "__init__",
    ): "of the job's own configuration, in its process",
    (
        "training_lib/src/trackside/documents/sdk/profiling.py",
        "__init__",
    ): "checked for the SDK, and never searched with",
    (
        "training_lib/src/trackside/contracts/run/language_numbers.py",
        "<module>",
    ): "names of tools, written in the table of that file",
    (
        "training_lib/src/trackside/runs/mending/edits.py",
        "_hold_all",
    ): "a word of the script, in lines of the same script",
    ("training_lib/src/trackside/runs/mending/edits.py", "with_setting"): "a keyword of an optimizer, in one line",
    ("stacks/settings/setting.py", "check"): "written in the declaration of a setting",
    ("training_lib/localaccount/trackside_localaccount/event_pattern.py", "_wildcard"): "asterisks, the rest escaped",
    (
        "training_lib/localaccount/trackside_localaccount/rights/conditions.py",
        "_compiled",
    ): "asterisks and question marks, the rest escaped",
    (
        "training_lib/localaccount/trackside_localaccount/rights/accesses.py",
        "_resource_of_kind",
    ): "forms of ARNs in AWS's own reference, as cfn-lint has it",
}


def calls_with_other_patterns(source: str) -> Iterator[tuple[str, int]]:
    """Yield (function, line) of each call of `re` with a pattern that is not written out in its file."""
    tree = ast.parse(source)
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "re"
        for alias in node.names
    }
    for function, node in _with_function(tree, "<module>"):
        if not isinstance(node, ast.Call):
            continue
        is_of_re = (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and (node.func.value.id == "re" and node.func.attr in COMPILING)
        )
        is_imported = isinstance(node.func, ast.Name) and node.func.id in names & COMPILING
        if (is_of_re or is_imported) and not (node.args and _is_written_out(node.args[0])):
            yield function, node.lineno


def _with_function(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) else function
        yield inner, child
        yield from _with_function(child, inner)


def _is_written_out(pattern: ast.AST) -> bool:
    """Return True for a literal, a constant of the module, escaped text, and what is put together of these."""
    if isinstance(pattern, ast.Constant):
        return True
    if isinstance(pattern, ast.Name):
        return pattern.id.isupper()
    if isinstance(pattern, ast.Call):
        return isinstance(pattern.func, ast.Attribute) and pattern.func.attr == "escape"
    if isinstance(pattern, ast.JoinedStr):
        return all(_is_written_out(part) for part in pattern.values)
    if isinstance(pattern, ast.FormattedValue):
        return _is_written_out(pattern.value)
    return isinstance(pattern, ast.BinOp) and _is_written_out(pattern.left) and _is_written_out(pattern.right)


def test_every_pattern_of_others_has_a_bound() -> None:
    found = {
        (file.relative_to(ROOT).as_posix(), function): line
        for folder in SEARCHED
        for file in sorted((ROOT / folder).rglob("*.py"))
        for function, line in calls_with_other_patterns(file.read_text(encoding="utf-8"))
    }
    assert set(found) == set(ARGUED), "compile it by trackside.contracts.name_pattern, or argue here why not"


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        pytest.param("re.compile(pattern)", True, id="a variable"),
        pytest.param("re.search(self.regex, name)", True, id="an attribute"),
        pytest.param("re.compile(f'^{word}')", True, id="put together"),
        pytest.param("search(pattern, name)", True, id="imported by name"),
        pytest.param("re.compile('|'.join(words))", True, id="joined"),
        pytest.param("re.compile(r'[a-z]+' r'x')", False, id="a literal"),
        pytest.param("re.compile(rf'^{_WORD}$')", False, id="constants"),
        pytest.param("re.sub(re.escape(word), '', text)", False, id="escaped"),
        pytest.param("pattern.search(name)", False, id="compiled already"),
        pytest.param("name_pattern(pattern)", False, id="with a bound"),
    ],
)
def test_the_walk_sees(line: str, is_found: bool) -> None:
    found = list(calls_with_other_patterns(f"import re\nfrom re import search\n{line}\n"))
    assert found == ([("<module>", 3)] if is_found else [])
