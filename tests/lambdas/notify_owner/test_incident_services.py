"""Incident services take messages of their own form: what the function says, as the deployed rule sends it, arrives.

The servers here hold a body against the form that each service documents, and answer as it does.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import boto3
import jsonschema
import pytest

from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.settings import NotifyOwnerSettings
from tests.lambda_settings import made
from tests.lambdas.notify_owner.chat import at_work
from tests.stacks.test_webhook_forms import webhook_of
from trackside_localaccount.event_pattern import matches
from trackside_localaccount.target_input import render

Golden = Callable[..., dict[str, Any]]
Deliver = Callable[..., list[str]]
# By hand, of https://developer.pagerduty.com/docs/send-alert-event
PAGERDUTY: Mapping[str, Any] = {
    "type": "object",
    "required": ["event_action", "payload"],
    "properties": {
        "routing_key": {"type": "string"},
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {"type": "string", "maxLength": 255},
        "payload": {
            "type": "object",
            "required": ["summary", "source", "severity"],
            "properties": {
                "summary": {"type": "string", "minLength": 1, "maxLength": 1024},
                "source": {"type": "string", "minLength": 1},
                "severity": {"enum": ["critical", "warning", "error", "info"]},
                "timestamp": {"type": "string"},
                "component": {"type": "string"},
                "group": {"type": "string"},
                "class": {"type": "string"},
                "custom_details": {"type": "object"},
            },
            "additionalProperties": False,
        },
        "client": {"type": "string"},
        "client_url": {"type": "string"},
        "links": {"type": "array"},
        "images": {"type": "array"},
    },
    "additionalProperties": False,
}
# By hand, of https://docs.opsgenie.com/docs/alert-api#create-alert
OPSGENIE: Mapping[str, Any] = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "message": {"type": "string", "minLength": 1, "maxLength": 130},
        "alias": {"type": "string", "maxLength": 512},
        "description": {"type": "string", "minLength": 1, "maxLength": 15_000},
        "details": {"type": "object", "additionalProperties": {"type": "string"}},
        "entity": {"type": "string", "maxLength": 512},
        "source": {"type": "string", "maxLength": 100},
        "priority": {"enum": ["P1", "P2", "P3", "P4", "P5"]},
        "tags": {"type": "array", "maxItems": 20, "items": {"type": "string", "maxLength": 50}},
    },
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Service:
    """An incident service: the address that a user sets, its form, and its way to know the sender."""

    url: str
    form: Mapping[str, Any]
    header: str
    secret: str


SERVICES = [
    pytest.param(
        Service(
            "https://events.pagerduty.com/v2/enqueue", PAGERDUTY, "X-Routing-Key", "R0123456789ABCDEF0123456789ABCDE"
        ),
        id="pagerduty",
    ),
    pytest.param(
        Service("https://api.opsgenie.com/v2/alerts", OPSGENIE, "Authorization", "GenieKey 0123-4567"), id="opsgenie"
    ),
]


@dataclass
class Endpoint:
    """A server that answers 202 to what the service could read, 400 to any other body, 401 to a stranger."""

    service: Service | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def answer(self, headers: Mapping[str, str], body: bytes) -> int:
        assert self.service
        if headers.get(self.service.header) != self.service.secret:
            return 401
        document = json.loads(body)
        if not jsonschema.Draft202012Validator(self.service.form).is_valid(document):
            return 400
        self.bodies.append(document)
        return 202


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(endpoint.answer(dict(self.headers), body))
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    http = HTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{http.server_port}"
    with at_work(http):
        yield endpoint


@pytest.fixture
def notified(account: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Settings with a bus; the returned function returns the events that came onto it."""
    sqs, events = boto3.client("sqs"), boto3.client("events")
    url = sqs.create_queue(QueueName="notified")["QueueUrl"]
    events.put_rule(Name="all", EventPattern=json.dumps({"source": ["trackside"]}))
    events.put_targets(Rule="all", Targets=[{"Id": "all", "Arn": "arn:aws:sqs:us-east-1:123456789012:notified"}])
    settings = made(
        NotifyOwnerSettings, topic_arn=account.topic, idempotency_table="done", quiet_minutes=0, event_bus="default"
    )
    for name, value in settings.to_environment().items():
        monkeypatch.setenv(name, value)

    def read() -> list[dict[str, Any]]:
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
        return [json.loads(message["Body"]) for message in messages]

    return read


def send(service: Service, endpoint: Endpoint, event: Mapping[str, Any]) -> int:
    """Call the endpoint as EventBridge does by the deployed rule. Return the code of its answer."""
    header, rule, target = webhook_of(service.url)
    assert matches(rule["EventPattern"], event)
    body = render(target, event, rule_arn="arn:x", rule_name="x")
    headers = {"Content-Type": "application/json; charset=utf-8", header: service.secret}
    request = urllib.request.Request(endpoint.url, data=body.encode(), headers=headers, method="POST")  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        refused.close()
        return refused.code


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    "detail",
    [
        pytest.param({}, id="an issue"),
        pytest.param({"Severity": "warning", "WhatToDo": ["x" * 900] * 10}, id="much advice"),
        pytest.param({"StatusDetails": 'a "quote", a\nline, \\ and \u00fc'}, id="strange signs"),
        pytest.param({"TrainingJobName": "j" * 63, "RuleConfigurationName": "r" * 100}, id="long names"),
    ],
)
def test_the_message_of_an_issue_arrives_once(
    *,
    golden: Golden,
    deliver: Deliver,
    notified: Callable[[], list[dict[str, Any]]],
    server: Endpoint,
    service: Service,
    detail: dict[str, Any],
) -> None:
    server.service, server.bodies = service, []
    event = golden("ours_issues_found", **detail)
    assert deliver(handle, event, event) == []
    (sent,) = notified()
    assert send(service, server, sent) == 202
    (body,) = server.bodies
    shown = json.dumps(body)
    assert event["detail"]["TrainingJobName"] in shown
    assert "The rule " in shown, "people read the whole message"


@pytest.mark.parametrize("service", SERVICES)
def test_the_servers_refuse_another_form_and_strangers(
    golden: Golden, deliver: Deliver, notified: Callable[[], Any], server: Endpoint, service: Service
) -> None:
    server.service, server.bodies = service, []
    assert deliver(handle, golden("ours_issues_found")) == []
    (sent,) = notified()
    assert server.answer({service.header: service.secret}, json.dumps(sent["detail"]).encode()) == 400
    assert send(Service(service.url, service.form, service.header, "another"), server, sent) == 401
    assert server.bodies == []
