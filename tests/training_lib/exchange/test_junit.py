"""The JUnit report, read by another parser."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.training_lib.local.verdicts import issue
from trackside.contracts.run.check import Answer, Outcome
from trackside.contracts.verdict import Severity
from trackside.exchange.junit import junit_report

ANSWERS = (
    Answer("fine", Outcome.OK, seconds=1.5),
    Answer("bad", Outcome.FAULT, "a < b & \x00 \ud800", "Net.<lambda>", 'The "output" is wrong.', ("Mend it.",), 0.25),
    Answer("unknown", Outcome.NOT_TRIED, "no row"),
    Answer("other", Outcome.DOES_NOT_APPLY, "no token"),
)


def test_counts_and_names() -> None:
    suite = ElementTree.fromstring(junit_report(ANSWERS, (), failing=()).encode())  # noqa: S314 - our own text
    assert {name: suite.attrib[name] for name in ("tests", "failures", "skipped", "time")} == {
        "tests": "4",
        "failures": "1",
        "skipped": "2",
        "time": "1.750",
    }
    cases = {case.attrib["name"]: case for case in suite}
    failure = cases["bad"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == 'The "output" is wrong.'
    assert "where: Net.<lambda>" in (failure.text or "")
    assert "Mend it." in (failure.text or "")
    assert [name for name, case in cases.items() if case.find("skipped") is not None] == ["unknown", "other"]
    assert list(cases["fine"]) == []


@pytest.mark.parametrize(("why", "errors"), [("backward was never called & no step made", 1), ("", 0)])
def test_a_rehearsal_that_judged_nothing_is_an_error(why: str, errors: int) -> None:
    text = junit_report(ANSWERS[2:], (), failing=(), not_judged=why)
    suite = ElementTree.fromstring(text.encode())  # noqa: S314 - our own text
    assert (suite.attrib["errors"], len(suite)) == (str(errors), 2 + errors)
    assert [case.attrib["message"] for case in suite.iter("error")] == [why][:errors]


def test_issues_that_fail_the_rehearsal_are_failures_and_others_are_not() -> None:
    issues = (issue("vanishing-gradient"), issue("overfit", severity=Severity.WARNING))
    text = junit_report((), issues, failing=issues[1:])
    suite = ElementTree.fromstring(text.encode())  # noqa: S314 - our own text
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("2", "1")
    assert [case.attrib["name"] for case in suite if case.find("failure") is not None] == ["overfit (warning)"]
