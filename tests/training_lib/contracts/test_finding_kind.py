"""The kind of a finding in JSON: left out for a number beyond its limit, and so in the files of older runs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.training_lib.local.verdicts import finding, issue
from trackside.contracts.verdict import FindingKind, Verdict


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        pytest.param(FindingKind.NUMBER, None, id="left-out"),
        pytest.param(FindingKind.NOT_FINITE, "not-finite", id="not-finite"),
        pytest.param(FindingKind.STANDSTILL, "standstill", id="standstill"),
    ],
)
def test_the_kind_is_stored_where_it_is_no_number(kind: FindingKind, stored: str | None) -> None:
    verdict = issue(findings=(replace(finding(), kind=kind),))
    text = verdict.to_json()
    assert json.loads(text)["findings"][0].get("kind") == stored
    assert Verdict.from_json(text).findings[0].kind is kind
