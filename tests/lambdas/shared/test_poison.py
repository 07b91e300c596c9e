"""Poison: whatever lies in one message, its neighbours are done, and it alone comes back."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import boto3
import pytest

from tests.lambda_settings import made, settings_class
from trackside.contracts.action import Action

OURS = {"detail-type": "Rule Evaluation Status Change", "source": "trackside"}
POISON = [
    pytest.param("", id="nothing"),
    pytest.param("not json", id="no JSON"),
    pytest.param("null", id="null"),
    pytest.param("[]", id="a list"),
    pytest.param("{}", id="no event"),
    pytest.param("[" * 100_000, id="nested without end"),
    pytest.param('{"a": ' + "1" * 200_000 + "}", id="a number of 200,000 digits"),
    pytest.param(json.dumps({**OURS}), id="no detail"),
    pytest.param(json.dumps({**OURS, "detail": None}), id="detail is null"),
    pytest.param(json.dumps({**OURS, "detail": "x" * 250_000}), id="detail is a text of 250 KB"),
    pytest.param(json.dumps({**OURS, "detail": {"TrainingJobName": {"a": 1}}}), id="fields of other types"),
    pytest.param(json.dumps({"detail-type": "Something Else", "detail": {}}), id="another event"),
    pytest.param(json.dumps({**OURS, "id": ["x"], "detail": {}}), id="an id that is a list"),
]
REACTIONS = ["record_verdict", *(action.unit.name for action in Action if not action.unit.carried_out_by)]


@pytest.fixture
def _settings(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    boto3.client("ssm").put_parameter(Name="/switch", Value="true", Type="String", Overwrite=True)
    given = {
        "idempotency_table": account.table,
        "run_table": account.run_table,
        "run_bucket": "runs-bucket",
        "topic_arn": account.topic,
        "queue_url": "queue",
        "dry_run_parameter": "/switch",
        "quiet_minutes": 0,
    }
    for reaction in REACTIONS:
        kind = settings_class(reaction)
        own = {field.name: given[field.name] for field in fields(kind) if field.name in given}
        for name, value in made(kind, **own).to_environment().items():
            monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_settings", "sagemaker")
@pytest.mark.parametrize("reaction", REACTIONS)
@pytest.mark.parametrize("body", POISON)
def test_only_the_poison_comes_back(
    golden: Callable[..., Any],
    deliver: Callable[..., list[str]],
    reaction: str,
    body: str,
) -> None:
    handle = importlib.import_module(f"lambdas.{reaction}.handler").handle
    good = golden("ours_issues_found")
    assert deliver(handle, good, body, golden("ours_issues_found", TrainingJobName="other")) == ["message-1"]
