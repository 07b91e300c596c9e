"""Stacks that stay when their setting goes: each deployment with one names its price and its end, and no other does."""

from __future__ import annotations

import json
from collections.abc import Mapping

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Annotations, Match

from app import compose
from stacks.deployment_settings import DeploymentSettings
from stacks.optional_stacks import PRICES
from stacks.paths import ROOT
from stacks.trackside_monitoring import TracksideMonitoring
from tests.stacks.variants import SPOKE_ACCOUNT

FLAGS = {
    name: value
    for name, value in json.loads((ROOT / "cdk.json").read_text())["context"].items()
    if name.startswith("@aws-cdk/")
}
DASHBOARD = {
    "trackside:team_dashboard_host": "runs.example.com",
    "trackside:team_dashboard_certificate_arn": "arn:aws:acm:us-east-1:123456789012:certificate/11111111-2222",
}


def said(settings: Mapping[str, str]) -> dict[str, str]:
    """Stack -> what a deployment says of it."""
    app = cdk.App(context={**FLAGS, "aws:cdk:bundling-stacks": []})
    compose(app, DeploymentSettings.from_context(settings))
    stacks = [each for each in app.node.children if isinstance(each, cdk.Stack)]
    return {
        stack.node.id: str(entry.entry.data)
        for stack in stacks
        for entry in Annotations.from_stack(stack).find_info("*", Match.any_value())
    }


@pytest.mark.parametrize(
    ("settings", "stack", "name"),
    [
        pytest.param({}, None, "", id="default"),
        pytest.param({"trackside:dashboard": "true", "trackside:drills": "true"}, None, "", id="parts-of-other-stacks"),
        pytest.param(DASHBOARD, "TracksideDashboard", "TracksideDashboard", id="dashboard"),
        pytest.param({"trackside:questions": "true"}, "TracksideQuestions", "TracksideQuestions", id="questions"),
        pytest.param({"trackside:spoke_accounts": SPOKE_ACCOUNT}, "TracksideHub", "TracksideHub", id="hub"),
        pytest.param(
            {"trackside:questions": "true", "trackside:environment": "staging"},
            "TracksideQuestions",
            "Trackside-staging-Questions",
            id="environment",
        ),
    ],
)
def test_a_stack_that_would_stay_says_so(settings: Mapping[str, str], stack: str | None, name: str) -> None:
    found = said(settings)
    assert list(found) == ([stack] if stack else [])
    for text in found.values():
        assert text.endswith(f"aws cloudformation delete-stack --stack-name {name}")
        assert any(price in text for price in PRICES.values())


def test_in_the_stack_of_another_nothing_stays_and_nothing_is_said() -> None:
    stack = cdk.Stack(cdk.App(context=FLAGS), "Theirs")
    TracksideMonitoring(stack, "Trackside", settings=DeploymentSettings.from_context({"trackside:questions": "true"}))
    assert Annotations.from_stack(stack).find_info("*", Match.any_value()) == []


def test_the_page_names_each() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert [setting for setting in PRICES if f"(`{setting}`: " not in page] == []
