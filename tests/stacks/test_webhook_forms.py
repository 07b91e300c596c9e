"""What a webhook's host gets: each incident service its own form, made by the deployed rule of a real message."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_events as events
from aws_cdk.assertions import Template

from stacks.deployment_settings import DeploymentSettings
from stacks.webhooks import create_webhooks
from trackside_localaccount.target_input import render

DETAIL = {
    "version": 1,
    "id": "7f3a",
    "job": "digits-01",
    "rule": "vanishing-gradient",
    "severity": "",
    "observed": 1e-9,
    "also_found": [{"step": 3}],
    "text": "Trackside: vanishing-gradient in digits-01",
    "message": 'Gradients "vanish".\nSee <the run>.',
}
EVENT = {"source": "trackside", "detail-type": "TracksideOwnerNotified", "detail": DETAIL}


def webhook_of(url: str) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """Return the header with the secret, the rule and its target, as they are deployed for an address."""
    stack = cdk.Stack(cdk.App(), "Stack")
    context = {"trackside:webhook_url": url, "trackside:webhook_secret": "trackside/webhook"}
    bus = events.EventBus(stack, "Bus")
    create_webhooks(stack, settings=DeploymentSettings.from_context(context), bus=bus)
    template = Template.from_stack(stack)
    (rule,) = template.find_resources("AWS::Events::Rule").values()
    (connection,) = template.find_resources("AWS::Events::Connection").values()
    (target,) = rule["Properties"]["Targets"]
    key = connection["Properties"]["AuthParameters"]["ApiKeyAuthParameters"]
    assert re.fullmatch(r"\{\{resolve:secretsmanager:trackside/webhook.*\}\}", key["ApiKeyValue"])
    return key["ApiKeyName"], rule["Properties"], target


def deployed(url: str) -> tuple[str, Any]:
    """Return the header with the secret, and the body that the rule's target makes of the event."""
    header, _, target = webhook_of(url)
    return header, json.loads(render(target, EVENT, rule_arn="arn:x", rule_name="x"))


PAGERDUTY: Mapping[str, Any] = {
    "event_action": "trigger",
    "dedup_key": "7f3a",
    "payload": {
        "summary": "Trackside: vanishing-gradient in digits-01",
        "source": "digits-01",
        "severity": "error",
        "custom_details": DETAIL,
    },
}
OPSGENIE: Mapping[str, Any] = {
    "message": "Trackside: issue in digits-01",
    "alias": "7f3a",
    "description": DETAIL["message"],
    "source": "Trackside",
}


@pytest.mark.parametrize(
    ("url", "header", "body"),
    [
        pytest.param("https://events.pagerduty.com/v2/enqueue", "X-Routing-Key", PAGERDUTY, id="pagerduty"),
        pytest.param("https://events.eu.pagerduty.com/v2/enqueue", "X-Routing-Key", PAGERDUTY, id="pagerduty-eu"),
        pytest.param("https://api.opsgenie.com/v2/alerts", "Authorization", OPSGENIE, id="opsgenie"),
        pytest.param("https://api.eu.opsgenie.com/v2/alerts", "Authorization", OPSGENIE, id="opsgenie-eu"),
        pytest.param("https://hooks.example.com/trackside", "Authorization", DETAIL, id="any-other"),
        pytest.param("https://events.pagerduty.com.example.com/x", "Authorization", DETAIL, id="begins-alike"),
        pytest.param("https://example.com/events.pagerduty.com", "Authorization", DETAIL, id="in-its-path"),
    ],
)
def test_a_host_gets_the_form_that_it_reads(url: str, header: str, body: Mapping[str, Any]) -> None:
    assert deployed(url) == (header, body)
