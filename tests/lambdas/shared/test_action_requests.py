"""Who decides what follows from an issue: the event, else the job's tag, else the deployment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambdas.shared.action_requests import reason_not_to
from trackside.contracts.action import Action
from trackside.contracts.event import read_rule_evaluations

STOP, NOTIFY, METRIC = Action.STOP_TRAINING, Action.NOTIFY, Action.PUBLISH_METRIC
BY_DEFAULT = (NOTIFY, METRIC)


def requested(event: dict[str, Any]) -> list[str]:
    """What is carried out for the issues in the event."""
    return [
        action.value
        for evaluation in read_rule_evaluations(event)
        for action in Action
        if reason_not_to(action, evaluation, default_actions=BY_DEFAULT) is None
    ]


@pytest.mark.parametrize(
    ("name", "tags", "actions"),
    [
        pytest.param("official_issues_found", {}, ["Notify", "PublishMetric"], id="official, untagged: the deployment"),
        pytest.param("official_issues_found", {"trackside:actions": "StopTraining"}, ["StopTraining"], id="its tag"),
        pytest.param("official_issues_found", {"trackside:actions": "none"}, [], id="its tag wants nothing"),
        pytest.param(
            "official_issues_found",
            {"trackside:actions": "Stop"},
            ["Notify", "PublishMetric"],
            id="a tag that says nothing known",
        ),
        pytest.param("official_issues_found", {"team": "none"}, ["Notify", "PublishMetric"], id="another tag"),
        pytest.param("official_issues_found", "", ["Notify", "PublishMetric"], id="AWS's word for no tags"),
        pytest.param(
            "ours_issues_found",
            {"trackside:actions": "none"},
            ["StopTraining", "Notify", "PublishMetric"],
            id="ours says it itself",
        ),
    ],
)
def test_asked(golden: Callable[..., Any], name: str, tags: Any, actions: list[str]) -> None:
    assert requested(golden(name, Tags=tags)) == actions


def test_the_reason_says_who_decided(golden: Callable[..., Any]) -> None:
    for tags, whose in (({}, "this deployment"), ({"trackside:actions": "none"}, "the job's tag")):
        *_, found = read_rule_evaluations(golden("official_issues_found", Tags=tags))
        refusal = reason_not_to(STOP, found, default_actions=BY_DEFAULT)
        assert refusal
        assert whose in refusal.reason
