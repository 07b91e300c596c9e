"""Poison: whatever lies in one message, its neighbours are done, and it alone comes back."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from lambdas.notify_owner.settings import NotifyOwnerSettings
from lambdas.publish_metric.settings import PublishMetricSettings
from lambdas.record_verdict.settings import RecordVerdictSettings
from lambdas.stop_training.settings import StopTrainingSettings

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
REACTIONS = ["notify_owner", "publish_metric", "record_verdict", "stop_training"]


@pytest.fixture
def _settings(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    boto3.client("ssm").put_parameter(Name="/switch", Value="true", Type="String", Overwrite=True)
    for settings in (
        NotifyOwnerSettings(account.topic, account.table),
        PublishMetricSettings(account.table),
        RecordVerdictSettings(account.run_table, "runs-bucket"),
        StopTrainingSettings(account.table, account.run_table, "queue", account.topic, "/switch"),
    ):
        for name, value in settings.to_environment().items():
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
