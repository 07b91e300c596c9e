"""A workflow of Teams takes one form of message, over TLS, and answers 202. A small server reads what it is sent."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import boto3
import jsonschema
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.teams import MOST_CHARACTERS, card_of
from tests.lambdas.notify_owner.chat import at_work, notify_by
from tests.lambdas.notify_owner.test_slack import at, waiting

Golden = Callable[..., dict[str, Any]]
Deliver = Callable[..., list[str]]
MOST_BYTES = 28 * 1024  # of a message: https://learn.microsoft.com/en-us/microsoftteams/limits-specifications-teams
SIGNED = "/workflows/0f/triggers/manual/paths/invoke?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sig=s3cret"
_TEXT_RUN = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {
        "type": {"const": "TextRun"},
        "text": {"type": "string", "minLength": 1},
        "weight": {"enum": ["Lighter", "Default", "Bolder"]},
        "fontType": {"enum": ["Default", "Monospace"]},
    },
    "additionalProperties": False,
}
# By hand, of https://adaptivecards.io/explorer/ (version 1.4), as far as a message uses it.
CARD = {
    "type": "object",
    "required": ["type", "version", "body"],
    "properties": {
        "$schema": {"const": "https://adaptivecards.io/schemas/adaptive-card.json"},
        "type": {"const": "AdaptiveCard"},
        "version": {"const": "1.4"},
        "body": {
            "type": "array",
            "minItems": 2,
            "items": {
                "type": "object",
                "required": ["type", "inlines"],
                "properties": {
                    "type": {"const": "RichTextBlock"},
                    "inlines": {"type": "array", "minItems": 1, "items": _TEXT_RUN},
                    "spacing": {"enum": ["None", "Small", "Default", "Medium", "Large"]},
                },
                "additionalProperties": False,
            },
        },
        "actions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "url"],
                "properties": {
                    "type": {"const": "Action.OpenUrl"},
                    "title": {"type": "string"},
                    "url": {"type": "string", "pattern": "^https://"},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
MESSAGE = {
    "type": "object",
    "required": ["type", "attachments"],
    "properties": {
        "type": {"const": "message"},
        "attachments": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["contentType", "content"],
                "properties": {
                    "contentType": {"const": "application/vnd.microsoft.card.adaptive"},
                    "contentUrl": {"type": "null"},
                    "content": CARD,
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


class Workflow:
    """Answers `code` to what it can read, 400 to any other form, 413 to what is too long, 401 without the signature."""

    def __init__(self, certificate: Path) -> None:
        self.code = 202
        self.cards: list[dict[str, Any]] = []
        workflow = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(workflow.answer(self.path, self.headers["Content-Type"], body))
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.address = f"https://127.0.0.1:{self.server.server_port}{SIGNED}"

    def answer(self, path: str, kind: str, body: bytes) -> int:
        if path != SIGNED:
            return 401
        if len(body) > MOST_BYTES:
            return 413
        message = json.loads(body)
        if not kind.startswith("application/json") or not jsonschema.Draft202012Validator(MESSAGE).is_valid(message):
            return 400
        if self.code < 300:
            self.cards.append(message["attachments"][0]["content"])
        return self.code


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 with its key, in one file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    made_of = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = tmp_path_factory.mktemp("tls") / "certificate.pem"
    file.write_bytes(secret + made_of.public_bytes(pem))
    return file


@pytest.fixture(scope="module")
def server(certificate: Path) -> Iterator[Workflow]:
    workflow = Workflow(certificate)
    with at_work(workflow.server):
        yield workflow


@pytest.fixture
def workflow(server: Workflow, certificate: Path, account: Any, monkeypatch: pytest.MonkeyPatch) -> Workflow:
    server.code, server.cards = 202, []
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    boto3.client("secretsmanager").create_secret(Name="trackside/teams", SecretString=f"{server.address}\n")
    notify_by(account, monkeypatch, teams_address_from="trackside/teams")
    return server


def lines(card: dict[str, Any]) -> list[str]:
    return ["".join(run["text"] for run in block["inlines"]) for block in card["body"]]


def test_a_message_is_posted_once_in_the_form_that_a_workflow_reads(
    account: Any, workflow: Workflow, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 60)
    event = golden("ours_issues_found", StatusDetails="[a link](https://example.com) *or* not")
    assert deliver(handle, event, event) == []
    (card,) = workflow.cards
    title, *text = lines(card)
    assert title == "Trackside: vanishing-gradient in digits-01"
    assert "What:     [a link](https://example.com) *or* not" in text
    assert (len(account.messages()), waiting()) == (1, 0)


def test_a_card_has_a_button_to_the_run(
    workflow: Workflow, account: Any, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 60)
    event = golden("ours_issues_found")
    monkeypatch.setenv("TRACKSIDE_RUN_BUCKET", account.bucket)
    monkeypatch.setenv("TRACKSIDE_DASHBOARD_URL", "https://runs.example.com")
    monkeypatch.setenv("TRACKSIDE_DASHBOARD_RUNS", event["detail"]["Run"].rpartition("/")[0])
    assert deliver(handle, event) == []
    (card,) = workflow.cards
    assert card["actions"][0]["url"].startswith("https://runs.example.com/runs/")


@pytest.mark.parametrize(
    ("code", "reports"),
    [
        pytest.param(404, 1, id="the workflow was deleted"),
        pytest.param(400, 1, id="it reads another form"),
        pytest.param(403, 1, id="it is switched off"),
        pytest.param(429, 0, id="too many requests"),
        pytest.param(502, 0, id="out of order"),
    ],
)
def test_a_refusal_is_reported_once_a_day_and_tried_again(
    *,
    account: Any,
    workflow: Workflow,
    golden: Golden,
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    reports: int,
) -> None:
    at(monkeypatch, 60)
    workflow.code = code
    event, other = golden("ours_issues_found"), golden("ours_issues_found", RuleConfigurationName="dead-relu")
    assert deliver(handle, event, other) == []
    subjects = [message["Subject"] for message in account.messages()]
    assert sum(subject.startswith("Trackside: Teams refuses") for subject in subjects) == reports
    assert len(subjects) == 2 + reports
    workflow.code = 202
    assert deliver(handle, event, other) == []
    assert (account.messages(), len(workflow.cards)) == ([], 2)


@pytest.mark.parametrize(
    ("secret", "why"),
    [
        pytest.param("http://127.0.0.1/unsigned", "https://", id="not encrypted"),
        pytest.param("file:///etc/passwd", "https://", id="a file"),
        pytest.param("Bearer xoxb-1", "https://", id="the secret of another service"),
        pytest.param("", "https://", id="empty"),
    ],
)
def test_an_address_that_is_none_is_reported(
    *,
    account: Any,
    workflow: Workflow,
    golden: Golden,
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    secret: str,
    why: str,
) -> None:
    at(monkeypatch, 60)
    boto3.client("secretsmanager").put_secret_value(SecretId="trackside/teams", SecretString=secret or " ")
    assert deliver(handle, golden("ours_issues_found")) == []
    (report,) = [one for one in account.messages() if "Teams refuses" in one["Subject"]]
    assert why in report["Message"]
    assert (workflow.cards, waiting()) == ([], 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("one\n\nthree\n", id="an empty line"),
        pytest.param("x" * 100_000, id="one long line"),
        pytest.param("line\n" * 100_000, id="many lines"),
        pytest.param("\U0001f525" * MOST_CHARACTERS, id="four bytes each"),
        pytest.param(("\U0001f525" * 80 + "\n") * 70, id="four bytes each, in many lines"),
    ],
)
def test_any_text_is_a_card_that_fits(text: str) -> None:
    message = card_of("title", f"what\n{text}", "")
    jsonschema.Draft202012Validator(MESSAGE).validate(message)
    assert len(json.dumps(message, ensure_ascii=False).encode()) <= MOST_BYTES
