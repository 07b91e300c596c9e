"""Messages about problems, sent to a real HTTP server and to real programs."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.patience import HANGS_SECONDS, wait_until
from tests.training_lib.local.verdicts import issue
from trackside.cli import main
from trackside.contracts.errors import ConfigurationError
from trackside.contracts.issue_group import IssueGroup, group_of_one
from trackside.integrations import notification
from trackside.integrations.notification import Message, body_for, receiver_of
from trackside.integrations.notifying_observer import NotifyingObserver
from trackside.local.run_now import RunNow

MESSAGE = Message("Trackside, digits: critical: exploding-tensor at step 3", "It exploded.", "the card\n<&>")


class Screen:
    """An observer that keeps what it is shown."""

    shows_progress = False

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.shown: list[IssueGroup] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def hint(self, text: str) -> None:
        self.notes.append(text)

    def detail(self, text: str) -> None:
        self.notes.append(text)

    def progress(self, now: RunNow) -> None:
        raise AssertionError("it shows none")

    def issue(self, group: IssueGroup) -> None:
        self.shown.append(group)


class Webhook:
    """A real server on this machine. It answers with `status` once `may_answer` is set."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.status = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook.bodies.append({"path": self.path, "type": self.headers["Content-Type"], **json.loads(body)})
                webhook.may_answer.wait(HANGS_SECONDS)
                self.send_response(webhook.status)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/SECRET"
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Webhook()
    yield server
    server.close()


def test_a_webhook_gets_each_problem_once(webhook: Webhook) -> None:
    screen = Screen()
    observer = NotifyingObserver(screen, [receiver_of(webhook.url)], run="digits-7")
    first, second = group_of_one(issue("exploding-tensor")), group_of_one(issue("dead-relu"))
    for group in (first, first, second):
        observer.issue(group)
    observer.finish()
    assert [body["path"] for body in webhook.bodies] == ["/services/SECRET"] * 2
    assert {body["type"] for body in webhook.bodies} == {"application/json"}
    assert ["exploding-tensor" in webhook.bodies[0]["text"], "dead-relu" in webhook.bodies[1]["text"]] == [True, True]
    assert "digits-7" in webhook.bodies[0]["text"]
    assert screen.shown == [first, first, second]  # the terminal shows changes, too
    assert screen.notes == []


def test_nothing_is_sent_of_a_healthy_run(webhook: Webhook) -> None:
    observer = NotifyingObserver(Screen(), [receiver_of(webhook.url)], run="digits-7")
    observer.note("run .trackside/runs/digits-7")
    observer.finish()
    assert webhook.bodies == []


def _failing(webhook: Webhook) -> str:
    webhook.status = 500
    return webhook.url


def _silent(webhook: Webhook) -> str:
    webhook.may_answer.clear()
    return webhook.url


def _refusing(webhook: Webhook) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/SECRET"


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        pytest.param(_failing, "it answered 500", id="error"),
        pytest.param(_silent, "no answer within", id="silent"),
        pytest.param(_refusing, "Connection refused", id="refused"),
    ],
)
def test_a_receiver_that_fails_is_named_once_and_delays_nothing(
    prepare: Callable[[Webhook], str], why: str, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notification, "SEND_SECONDS", 0.5)
    screen = Screen()
    observer = NotifyingObserver(screen, [receiver_of(prepare(webhook))], run="digits-7")
    for rule in ("exploding-tensor", "dead-relu"):
        observer.issue(group_of_one(issue(rule)))
    assert len(screen.shown) == 2  # at once, whatever the receiver does
    observer.finish()
    failures = wait_until(lambda: [note for note in screen.notes if "No notification was sent to 127.0.0.1" in note])
    assert len(failures) == 1
    assert why in failures[0]
    assert "SECRET" not in " ".join(screen.notes)


def test_a_command_gets_the_card_on_its_input(tmp_path: Path) -> None:
    receiver = receiver_of(f"command:tee {tmp_path / 'a b.txt'}".replace("a b", '"a b"'))
    assert receiver.name == "tee"
    receiver.send(MESSAGE)
    assert (tmp_path / "a b.txt").read_text() == f"{MESSAGE.title}\n\n{MESSAGE.text}\n"


def test_the_desktop_gets_a_title_and_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\nprintf "%s|" "$@" > {tmp_path}/shown\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    receiver_of("desktop").send(MESSAGE)
    assert (tmp_path / "shown").read_text() == f"{MESSAGE.title}|{MESSAGE.summary}|"


@pytest.mark.parametrize(
    ("host", "names"),
    [
        pytest.param("hooks.slack.com", {"text", "content"}, id="slack"),
        pytest.param("discord.com", {"text", "content"}, id="discord"),
        pytest.param("prod-1.westeurope.logic.azure.com", {"type", "attachments"}, id="teams"),
        pytest.param("logic.azure.com.example.org", {"text", "content"}, id="only-like-teams"),
    ],
)
def test_the_body_fits_the_host(host: str, names: set[str]) -> None:
    body = body_for(host, Message("title", "sentence", "x" * 5000))
    assert set(body) == names
    assert len(str(body.get("content", ""))) <= 2000  # Discord's limit


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param("slack", "Write desktop, the https:// address of a webhook, or command:PROGRAM.", id="unknown"),
        pytest.param("ftp://host/SECRET", "is no receiver", id="scheme"),
        pytest.param("https://", "is no receiver", id="no-host"),
        pytest.param("command:", "names no program on PATH", id="no-command"),
        pytest.param("command:no-such-program", "names no program on PATH", id="unknown-program"),
        pytest.param("command:mail 'me", "Close every quote", id="open-quote"),
        pytest.param("desktop", "neither notify-send nor osascript", id="no-desktop"),
    ],
)
def test_a_receiver_that_cannot_work_is_refused(
    target: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError) as refused:
        receiver_of(target)
    assert expected in str(refused.value)
    assert "SECRET" not in str(refused.value)


def test_the_command_line_names_every_wrong_receiver_before_the_training_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["run", "--notify", "slack", "--notify", "command:no-such-program", "--", "touch", "it-ran"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "--notify slack" in result.stderr
    assert "no-such-program" in result.stderr
    assert not (tmp_path / "it-ran").exists()
    assert not (tmp_path / ".trackside").exists()
