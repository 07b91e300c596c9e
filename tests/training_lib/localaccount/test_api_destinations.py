"""A webhook is called for real, on this machine: its header, its rate, what is tried again and what is kept."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Endpoint:
    """Takes calls, and answers with the status codes that were laid out for it, then with 200."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, str, Any]] = []
        self.answers: list[int] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.calls.append((time.monotonic(), self.headers["Authorization"], body))
                self.send_response(endpoint.answers.pop(0) if endpoint.answers else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Calls are no news."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def webhook(bench: Any, name: str, *, rate: int = 300, url: str = "https://hooks.example.com/x", **target: Any) -> None:
    """A rule that calls it for each event of the source `name`."""
    events = bench.account.client("events")
    connection = events.create_connection(
        Name=name,
        AuthorizationType="API_KEY",
        AuthParameters={"ApiKeyAuthParameters": {"ApiKeyName": "Authorization", "ApiKeyValue": "Bearer secret"}},
    )["ConnectionArn"]
    arn = events.create_api_destination(
        Name=name,
        ConnectionArn=connection,
        InvocationEndpoint=url,
        HttpMethod="POST",
        InvocationRateLimitPerSecond=rate,
    )["ApiDestinationArn"]
    bench.rule(name, {"source": [name]}, {"Arn": arn, "RoleArn": "arn:aws:iam::123456789012:role/bench", **target})


def test_an_event_is_sent_in_the_form_that_was_asked_for(bench: Any, endpoint: Endpoint) -> None:
    bench.account.register_endpoint("https://hooks.example.com/form", endpoint.url)
    form = {"InputPathsMap": {"t": "$.detail.text"}, "InputTemplate": '{"channel": "C1", "text": <t>}'}
    webhook(bench, "form", url="https://hooks.example.com/form", InputTransformer=form)
    bench.put_event("form", {"text": 'a "quoted"\nline'})
    bench.account.hops.wait_for("event-delivered", rule="form")
    ((_, header, body),) = endpoint.calls
    assert header == "Bearer secret"
    assert body == {"channel": "C1", "text": 'a "quoted"\nline'}


@pytest.mark.parametrize(
    ("answers", "calls", "is_kept"),
    [
        pytest.param([], 1, False, id="taken"),
        pytest.param([503, 429], 3, False, id="busy for a while"),
        pytest.param([500] * 9, 3, True, id="down"),
        pytest.param([400], 1, True, id="refused for good"),
    ],
)
def test_what_is_refused_is_tried_again_or_kept(
    bench: Any, endpoint: Endpoint, answers: list[int], calls: int, is_kept: bool
) -> None:
    name = f"answers{len(answers)}-{calls}-{is_kept}"
    url, letters = bench.queue(f"letters-{name}")
    endpoint.answers = answers
    bench.account.register_endpoint(f"https://hooks.example.com/{name}", endpoint.url)
    webhook(bench, name, url=f"https://hooks.example.com/{name}", DeadLetterConfig={"Arn": letters})
    bench.put_event(name, {"text": "a"})
    bench.account.hops.wait_for("event-failed" if is_kept else "event-delivered", rule=name)
    assert len(endpoint.calls) == calls
    if is_kept:
        assert json.loads(bench.receive(url)[0]["Body"])["detail"] == {"text": "a"}


def test_the_rate_is_kept(bench: Any, endpoint: Endpoint) -> None:
    bench.account.register_endpoint("https://hooks.example.com/rate", endpoint.url)
    webhook(bench, "rate", rate=20, url="https://hooks.example.com/rate")
    for number in range(6):
        bench.put_event("rate", {"number": number})
    bench.account.hops.wait_for("event-delivered", count=6, rule="rate")
    moments = sorted(at for at, _, _ in endpoint.calls)
    assert moments[-1] - moments[0] >= 5 / 20 * 0.8


def test_nothing_outside_this_machine_is_called(bench: Any) -> None:
    webhook(bench, "outside", url="https://hooks.example.com/outside")
    bench.put_event("outside", {"text": "a"})
    bench.account.hops.wait_for("event-failed", rule="outside")
    with pytest.raises(ValueError, match="not on this machine"):
        bench.account.register_endpoint("https://hooks.example.com/outside", "https://hooks.example.com")
