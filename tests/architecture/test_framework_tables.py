"""The tables of frameworks: each cell has its test, and rules judge where the table shows them."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from docs.framework_tables import (
    EXCEPTIONS,
    FRAMEWORKS,
    JUDGED,
    MORE,
    MORE_TABLE,
    OF_NETWORKS,
    ON_TORCH,
    PYTORCH,
    REASONS,
    TABLE,
    XGBOOST,
    Cell,
    cell_of,
)
from tests.for_each import for_each
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.evaluation.results.missing_inputs import nothing_to_judge
from trackside.rules.catalogue import built_in_rules

ROOT = Path(__file__).resolve().parents[2]
CELLS = {
    f"{row}-{framework}": (row, framework, cell)
    for table, frameworks in ((TABLE, FRAMEWORKS), (MORE_TABLE, MORE))
    for row, cells in table.items()
    for framework, cell in zip(frameworks, cells, strict=True)
}
NAMED = {PYTORCH: "pytorch", XGBOOST: "xgboost", ON_TORCH: "keras"}


@functools.cache
def functions_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def the_cell_has_a_test_or_a_reason(row: str, framework: str, cell: Cell) -> None:
    if not cell.test:
        assert re.match(r"no\b|there are none", cell.text)
        return
    paths = re.findall(r"[\w/]+\.py", cell.test)
    (name,) = re.findall(r"::(\w+)", cell.test)
    assert name in functions_in(paths[0])
    for path in paths:
        assert (ROOT / path).exists(), path
    for inheriting in paths[1:]:
        assert "AdapterContract" in (ROOT / inheriting).read_text("utf-8")


test_each_cell_has_a_test_or_a_reason = for_each(CELLS)(the_cell_has_a_test_or_a_reason)


def test_a_cell_without_its_test_would_fail() -> None:
    assert "test_never_was" not in functions_in("tests/architecture/test_framework_tables.py") - {"test_never_was"}
    with pytest.raises(AssertionError):
        the_cell_has_a_test_or_a_reason("", "", Cell("yes", "tests/architecture/test_docs.py::never"))


@for_each({f"{name}, {framework}": (name, framework) for name in built_in_rules() for framework in NAMED})
def test_a_rule_applies_where_the_table_shows_it(name: str, framework: str) -> None:
    rule = built_in_rules()[name]
    facts = ModelFacts(program=ProgramFacts(framework=NAMED[framework]))
    reason, cell = nothing_to_judge(rule(), facts), cell_of(rule, framework)
    assert cell == "yes" or cell.startswith(("no: ", "at saved steps"))
    is_refused = " alone" in reason or "boosted" in reason
    is_others = bool(rule.only_of) and NAMED[framework] not in rule.only_of
    assert is_refused == (is_others or cell == f"no: {OF_NETWORKS}"), (reason, cell)
    if is_refused:
        assert cell.startswith("no: ")


def test_each_rule_of_some_frameworks_has_a_reason_for_the_others() -> None:
    with_reason = {
        name: ("xgboost" not in rule.only_of, "keras" not in rule.only_of)
        for name, rule in built_in_rules().items()
        if rule.only_of
    }
    given = {name: (bool(boosting), bool(keras)) for name, (boosting, keras) in REASONS.items()}
    wrong = sorted(name for name in given.keys() | with_reason.keys() if given.get(name) != with_reason.get(name))
    assert not wrong, f"give REASONS in docs/framework_tables.py why other frameworks cannot be judged by {wrong}"


def test_the_same_is_asked_of_each_framework() -> None:
    assert set(TABLE) == set(MORE_TABLE) - {"importances"}


def test_exceptions_name_rules_and_frameworks() -> None:
    rules = built_in_rules()
    assert all(rule in rules and framework in JUDGED for rule, framework in EXCEPTIONS)
