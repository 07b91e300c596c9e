"""Slack answers 200 to what it refuses. A small server answers as it does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from lambdas.notify_owner.handler import handle
from lambdas.notify_owner.slack import blocks_of, error_in
from tests.lambdas.notify_owner.chat import at_work, notify_by
from trackside.contracts.run_layout import picture_key

Golden = Callable[..., dict[str, Any]]
Deliver = Callable[..., list[str]]
SENT_AT = 1795226674.0  # the time of the golden event
TAKEN = (200, '{"ok": true, "ts": "1.2"}')


class Slack:
    """A server that gives the listed answers in turn, the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = [TAKEN]
        self.posts: list[tuple[str, dict[str, Any]]] = []
        slack = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                slack.posts.append((self.headers["Authorization"], body))
                code, text = slack.answers.pop(0) if len(slack.answers) > 1 else slack.answers[0]
                self.send_response(code)
                if code == 429:
                    self.send_header("Retry-After", "300")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/api/chat.postMessage"


@pytest.fixture(scope="module")
def server() -> Iterator[Slack]:
    slack = Slack()
    with at_work(slack.server):
        yield slack


@pytest.fixture
def slack(server: Slack, account: Any, monkeypatch: pytest.MonkeyPatch) -> Slack:
    server.answers, server.posts = [TAKEN], []
    boto3.client("secretsmanager").create_secret(Name="trackside/slack", SecretString="Bearer xoxb-1\n")
    chat = {"slack_channel": "C1", "slack_header_from": "trackside/slack", "slack_url": server.url}
    notify_by(account, monkeypatch, **chat)
    return server


def at(monkeypatch: pytest.MonkeyPatch, seconds_later: float) -> None:
    moment = SENT_AT + seconds_later
    monkeypatch.setattr("lambdas.notify_owner.handler.time", SimpleNamespace(time=lambda: moment))


def waiting() -> int:
    """Messages that wait in the function's own queue."""
    url = boto3.client("sqs").get_queue_url(QueueName="notify")["QueueUrl"]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed"]
    return sum(
        int(each)
        for each in boto3.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values()
    )


def test_a_message_that_slack_takes_is_posted_once(
    account: Any, slack: Slack, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 60)
    event = golden("ours_issues_found", StatusDetails='<!channel> "9" of\n10\\')
    assert deliver(handle, event, event) == []
    ((header, body),) = slack.posts
    assert header == "Bearer xoxb-1"
    assert body["channel"] == "C1"
    assert body["text"].splitlines()[1] == '&lt;!channel&gt; "9" of?10\\'
    assert (len(account.messages()), waiting()) == (1, 0)


@pytest.fixture
def pictured(account: Any, slack: Slack, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Settings with signed links; the returned function stores the picture of the golden event's issue."""
    monkeypatch.setenv("TRACKSIDE_RUN_BUCKET", account.bucket)
    monkeypatch.setenv("TRACKSIDE_REPORT_LINK_HOURS", "3")
    detail = golden("ours_issues_found")["detail"]
    name = picture_key(detail["RuleConfigurationName"], detail["Evidence"]["SinceStep"])
    key = f"{detail['Run'].removeprefix(f's3://{account.bucket}/')}/rule-output/{name}"

    def store() -> None:
        boto3.client("s3", region_name="us-east-1").put_object(Bucket=account.bucket, Key=key, Body=b"\x89PNG")

    return store


def test_the_picture_of_an_issue_is_shown(
    slack: Slack, golden: Golden, deliver: Deliver, pictured: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 60)
    pictured()
    assert deliver(handle, golden("ours_issues_found", StatusDetails="<!channel> 9")) == []
    ((_, body),) = slack.posts
    *sections, image = body["blocks"]
    shown = "\n".join(section["text"]["text"] for section in sections)
    assert shown == body["text"], "the notification on a phone and the message have the same words"
    assert "&lt;!channel&gt; 9" in shown
    assert image["image_url"].split("?")[0].endswith(".png")
    assert "marked: step" in image["alt_text"]


@pytest.mark.parametrize("word", ["invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"])
def test_a_picture_that_slack_cannot_fetch_is_left_out(
    *,
    account: Any,
    slack: Slack,
    golden: Golden,
    deliver: Deliver,
    pictured: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    word: str,
) -> None:
    at(monkeypatch, 60)
    pictured()
    slack.answers = [(200, json.dumps({"ok": False, "error": word})), TAKEN]
    assert deliver(handle, golden("ours_issues_found")) == []
    (_, first), (_, second) = slack.posts
    assert "blocks" in first
    assert "blocks" not in second
    assert second["text"] == first["text"]
    assert (len(account.messages()), waiting()) == (1, 0)


def test_other_refusals_are_not_tried_again_without_the_picture(
    slack: Slack, golden: Golden, deliver: Deliver, pictured: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 60)
    pictured()
    slack.answers = [(200, '{"ok": false, "error": "token_revoked"}')]
    assert deliver(handle, golden("ours_issues_found")) == []
    assert (len(slack.posts), waiting()) == (1, 1)


def test_without_a_picture_the_message_goes_as_words(
    slack: Slack, golden: Golden, deliver: Deliver, pictured: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 60)
    assert deliver(handle, golden("ours_issues_found")) == []
    ((_, body),) = slack.posts
    assert "blocks" not in body
    assert "rule-output/report.html?" in body["text"]


@pytest.mark.parametrize(
    ("text", "picture", "kinds"),
    [
        pytest.param("what\nwhy", "https://s3/x.png", ["section", "section", "image"], id="words-and-a-picture"),
        pytest.param("what", "https://s3/x.png", ["section", "image"], id="one-line"),
        pytest.param("what\nwhy", "", [], id="no-picture"),
        pytest.param("w" * 3001, "https://s3/x.png", [], id="words-that-slack-would-refuse"),
        pytest.param("what", f"https://s3/{'x' * 3000}", [], id="an-address-that-slack-would-refuse"),
    ],
)
def test_blocks(text: str, picture: str, kinds: list[str]) -> None:
    blocks = blocks_of(text, picture, "w" * 3000)
    assert [block["type"] for block in blocks] == kinds
    assert all(len(block["alt_text"]) == 2000 for block in blocks if block["type"] == "image")


@pytest.mark.parametrize(
    ("answer", "reports"),
    [
        pytest.param((200, '{"ok": false, "error": "token_revoked"}'), 1, id="a revoked token"),
        pytest.param((200, '{"ok": false, "error": "not_in_channel"}'), 1, id="a bot that was not invited"),
        pytest.param((200, '{"ok": false, "error": "channel_not_found"}'), 1, id="a wrong channel"),
        pytest.param((200, "<html>a proxy</html>"), 1, id="somebody else answers"),
        pytest.param((200, '{"ok": false, "error": "ratelimited"}'), 0, id="busy"),
        pytest.param((429, ""), 0, id="too many requests"),
        pytest.param((503, ""), 0, id="out of order"),
    ],
)
def test_a_refusal_is_noticed_told_of_and_tried_again(
    *,
    account: Any,
    slack: Slack,
    golden: Golden,
    deliver: Deliver,
    monkeypatch: pytest.MonkeyPatch,
    answer: tuple[int, str],
    reports: int,
) -> None:
    at(monkeypatch, 60)
    slack.answers = [answer]
    event, other = golden("ours_issues_found"), golden("ours_issues_found", RuleConfigurationName="dead-relu")
    assert deliver(handle, event, other) == [], "the mails are sent, and Slack's part waits in the queue"
    subjects = [message["Subject"] for message in account.messages()]
    assert sum(subject.startswith("Trackside: Slack refuses") for subject in subjects) == reports
    assert len(subjects) == 2 + reports, "of one reason they hear once a day"
    assert waiting() == 2
    slack.answers = [TAKEN]
    assert deliver(handle, event, other) == []
    assert account.messages() == []
    assert len(slack.posts) == 4
    assert waiting() == 2, "no more than before"


@pytest.mark.parametrize(
    ("seconds", "failed"),
    [pytest.param(86_000, [], id="for a day"), pytest.param(87_000, ["message-0"], id="no longer")],
)
def test_it_is_tried_for_a_day_and_then_lies_in_the_dead_letters(
    slack: Slack, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch, *, seconds: int, failed: list[str]
) -> None:
    at(monkeypatch, seconds)
    slack.answers = [(200, '{"ok": false, "error": "invalid_auth"}')]
    assert deliver(handle, golden("ours_issues_found")) == failed


def test_nobody_who_answers_is_an_outage(
    account: Any, slack: Slack, golden: Golden, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, 60)
    monkeypatch.setenv("TRACKSIDE_SLACK_URL", "http://127.0.0.1:9/closed")
    started = time.monotonic()
    assert deliver(handle, golden("ours_issues_found")) == []
    assert time.monotonic() - started < 20
    assert (len(account.messages()), waiting(), slack.posts) == (1, 1, [])


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"ok": true}', ""),
        (b'{"ok": "true"}', "an answer without ok"),
        (b"[]", "an answer without ok"),
        (b'{"ok": false, "error": "is_archived"}', "is_archived"),
        (b"\xff", "an answer that is no JSON"),
    ],
)
def test_reads_the_answer(body: bytes, error: str) -> None:
    assert error_in(body) == error
