"""Typed details of a finding: the same after a verdict was stored and read."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import pytest

import trackside.rules
from tests.for_each import for_each
from tests.training_lib.local.verdicts import finding, issue
from trackside.contracts.verdict import Severity, Verdict
from trackside.rules.details import Details
from trackside.rules.tensors.overfit import Overfit


class Colour(IntEnum):
    RED = 0
    BLUE = 1


@dataclass(frozen=True)
class Seen(Details):
    colour: Colour = Colour.RED
    is_large: bool = False
    count: int = 0
    share: float | None = None


@pytest.mark.parametrize(
    ("seen", "numbers"),
    [
        pytest.param(Seen(), {"colour": 0.0, "is_large": 0.0, "count": 0.0}, id="defaults"),
        pytest.param(
            Seen(Colour.BLUE, True, 3, 0.5), {"colour": 1.0, "is_large": 1.0, "count": 3.0, "share": 0.5}, id="all"
        ),
    ],
)
def test_details_come_back_from_a_verdict(seen: Seen, numbers: dict[str, float]) -> None:
    assert seen.numbers() == numbers
    stored = issue(findings=(replace(finding(), statistics={**seen.numbers(), "other": 7.0}),)).to_json()
    assert Seen.of(Verdict.from_json(stored).findings[0]) == seen


def test_a_finding_of_an_older_run_has_the_defaults() -> None:
    assert Seen.of(replace(finding(), statistics={"count": 4.0})) == Seen(count=4)


def test_details_stand_beside_others() -> None:
    found = Seen(count=3).beside(replace(finding(), statistics={"other": 7.0, "count": 1.0}))
    assert found.statistics == {"other": 7.0, "count": 3.0, "colour": 0.0, "is_large": 0.0}


RULES = sorted(Path(trackside.rules.__path__[0]).glob("*/*.py"))


@for_each({f"{path.parent.name}/{path.name}": (path,) for path in RULES})
def test_no_rule_reads_a_number_by_its_name(path: Path) -> None:
    read = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)]
    assert [node.lineno for node in read if node.attr == "statistics"] == []


INFO, WARNING, CRITICAL = Severity


@pytest.mark.parametrize(
    ("grades", "severity"),
    [
        pytest.param((None, None), WARNING, id="the-rule-decides"),
        pytest.param((INFO,), INFO, id="a-remark"),
        pytest.param((INFO, CRITICAL, WARNING), CRITICAL, id="the-gravest"),
        pytest.param((None, INFO), INFO, id="of-some"),
    ],
)
def test_the_severity_of_an_issue(grades: tuple[Severity | None, ...], severity: Severity) -> None:
    findings = [replace(finding(), grade=grade) for grade in grades]
    assert Overfit().severity_of(findings) is severity
    stored = issue(findings=tuple(findings)).to_json()
    assert tuple(found.grade for found in Verdict.from_json(stored).findings) == grades
