"""Issues in the formats of other tools, held against those tools' own schema and readers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from trackside.contracts.verdict import Severity
from trackside.exchange.reports import Issue, github_commands, junit_of_issues, sarif_log

SCHEMA = json.loads(Path(__file__).with_name("sarif-2.1.0.schema.json").read_text(encoding="utf-8"))
BAD = Issue(
    "vanishing-gradient",
    "vanishing-gradient",
    "TS117",
    Severity.CRITICAL,
    'mean |gradient| is 50% of "that":\n<small> & \x07odd',
    "g1",
    20,
    "src/my train,1.py",
    12,
    ("Use ReLU.", "Normalise: 100%."),
)
OWN = Issue("Large", "Large-2", "", Severity.WARNING, "Something is large.", "g2", 30)
NOTE = Issue("overfit", "overfit", "TS108", Severity.INFO, "It may overfit.", "g3", 40, "/abs/train.py", 1)


def sarif(*issues: Issue) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(sarif_log(issues, run="digits-1"))
    jsonschema.Draft7Validator(SCHEMA).validate(document)
    return document


@pytest.mark.parametrize("issues", [(), (BAD,), (BAD, OWN, NOTE), (BAD, replace(BAD, name="twice"))])
def test_every_log_is_sarif(issues: tuple[Issue, ...]) -> None:
    assert len(sarif(*issues)["runs"][0]["results"]) == len(issues)


def test_the_schema_refuses_what_is_no_sarif() -> None:
    document = sarif(BAD)
    document["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(SCHEMA).validate(document)


def test_a_result_names_rule_level_and_place() -> None:
    (run,) = sarif(BAD, OWN, NOTE)["runs"]
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert [rule["id"] for rule in rules] == ["TS117", "Large", "TS108"]
    assert [rules[result["ruleIndex"]]["id"] for result in results] == [result["ruleId"] for result in results]
    assert [result["level"] for result in results] == ["error", "warning", "note"]
    places = [one["locations"][0]["physicalLocation"] for one in results if "locations" in one]
    assert [(p["artifactLocation"]["uri"], p["region"]["startLine"]) for p in places] == [
        ("src/my%20train%2C1.py", 12),
        ("file:///abs/train.py", 1),
    ]


def test_github_commands_are_one_line_each_and_escaped() -> None:
    lines = github_commands([BAD, OWN, NOTE], run="digits:1").splitlines()
    assert lines[0] == (
        "::error file=src/my train%2C1.py,line=12,title=TS117 vanishing-gradient (digits%3A1)::"
        'mean |gradient| is 50%25 of "that":%0A<small> & \x07odd%0AUse ReLU.%0ANormalise: 100%25.'
    )
    assert lines[1] == "::warning title=Large-2 (digits%3A1)::Something is large."
    assert lines[2].startswith("::notice file=/abs/train.py,line=1,")
    assert github_commands([], run="a") == ""


def test_junit_has_a_case_for_each_rule() -> None:
    rules = [("vanishing-gradient", ""), ("dead-relu", "Not applicable: no ReLU"), ("overfit", ""), ("fine", "")]
    text = junit_of_issues([BAD, OWN, NOTE], run="digits-1", rules=rules)
    (suite,) = ElementTree.fromstring(text)  # noqa: S314 - our own text
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "2", "1")
    inner = {case.get("name"): [child.tag for child in case] for case in suite}
    assert inner == {
        "vanishing-gradient": ["failure"],
        "dead-relu": ["skipped"],
        "overfit": ["system-out"],
        "fine": [],
        "Large-2": ["failure"],
    }
    assert suite[0].get("file") == "src/my train,1.py"
    assert "?odd" in (suite[0][0].text or "")  # XML has no form for that character


def test_a_reader_of_junit_understands_it() -> None:
    junitparser = pytest.importorskip("junitparser", reason="of the dependency group `tests`")
    rules = [("dead-relu", "Not applicable: no ReLU"), ("fine", "")]
    (suite,) = junitparser.JUnitXml.fromstring(junit_of_issues([BAD, OWN], run="digits-1", rules=rules).encode())
    assert (suite.tests, suite.failures, suite.skipped) == (4, 2, 1)
    states = {case.name: [type(result).__name__ for result in case.result] for case in suite}
    assert states == {
        "dead-relu": ["Skipped"], "fine": [], "vanishing-gradient": ["Failure"], "Large-2": ["Failure"],
    }  # fmt: skip
