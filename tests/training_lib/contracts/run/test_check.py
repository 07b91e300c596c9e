"""The report of a rehearsal, both ways through JSON."""

from __future__ import annotations

import pytest

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.run.check import Answer, Outcome, ProcessReport, StepDigest

REPORT = ProcessReport(
    "worker_1",
    steps=20,
    world_size=2,
    is_done=True,
    is_sharded=True,
    answers=(Answer("a", Outcome.FAULT, "seen", "here", "broken.", ("Mend it.",), 0.5), Answer("b", Outcome.OK)),
    digests=(StepDigest(1, "ab", "cd"), StepDigest(2, "ef")),
)


@pytest.mark.parametrize("report", [REPORT, ProcessReport("worker_0")], ids=["full", "empty"])
def test_comes_back(report: ProcessReport) -> None:
    assert ProcessReport.from_json(report.to_json()) == report


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="cut-off"),
        pytest.param("[]", id="no-object"),
        pytest.param('{"version": 1}', id="no-worker"),
        pytest.param(
            '{"version": 1, "worker": "worker_0", "answers": [{"probe": "a", "outcome": "fine"}]}', id="outcome"
        ),
    ],
)
def test_refuses_what_is_no_report(text: str) -> None:
    with pytest.raises(ConfigurationError):
        ProcessReport.from_json(text)
