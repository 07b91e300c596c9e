"""The Lambda Runtime API, as one execution environment sees it.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html. AWS's own client (awslambdaric) is the other side.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PREFIX = "/2018-06-01/runtime/"


@dataclass(frozen=True)
class Invocation:
    """One event on its way to the function."""

    request_id: str
    payload: bytes
    function_arn: str
    deadline_ms: int


@dataclass(frozen=True)
class Answer:
    """The result of a function: `error_type` is empty if all went well."""

    request_id: str
    payload: bytes
    error_type: str = ""


INITIALIZED = Answer("", b"")
"""The runtime has asked for its first event."""


class RuntimeApi:
    """Serves one execution environment on a port of its own, on loopback."""

    def __init__(self) -> None:
        self.answers: queue.Queue[Answer] = queue.Queue()
        self._invocations: queue.Queue[Invocation | None] = queue.Queue()
        self._is_initialized = False
        self._is_closed = False
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.api = self
        self._thread = threading.Thread(target=self._serve, name="lambda-runtime-api", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The value of AWS_LAMBDA_RUNTIME_API."""
        return f"127.0.0.1:{self._server.server_port}"

    def send(self, invocation: Invocation) -> None:
        """Hand the runtime its next event."""
        self._invocations.put(invocation)

    def close(self) -> None:
        """End the server and the request that still waits for an event."""
        self._is_closed = True
        self._invocations.put(None)
        with socket.create_connection(("127.0.0.1", self._server.server_port), timeout=1):
            pass  # wakes the accepting thread, which then sees that it is closed
        self._thread.join()
        self._server.server_close()

    def take_next(self) -> Invocation | None:
        """The next event; None when closed."""
        if not self._is_initialized:
            self._is_initialized = True
            self.answers.put(INITIALIZED)
        return self._invocations.get()

    def _serve(self) -> None:
        while not self._is_closed:
            self._server.handle_request()  # waits without polling, unlike serve_forever


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    timeout = None
    api: RuntimeApi

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a runtime that was killed while it waited."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else head and body of an answer wait for each other, 40 ms at a time
    server: _Server

    def do_GET(self) -> None:
        if self.path != f"{_PREFIX}invocation/next":
            self._answer(404)
            return
        invocation = self.server.api.take_next()
        if invocation is None:
            self.close_connection = True
            return
        headers = {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(invocation.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": invocation.function_arn,
            "Lambda-Runtime-Trace-Id": _trace_id(invocation),
        }
        self._answer(200, invocation.payload, headers)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kind, _, rest = self.path.removeprefix(_PREFIX).partition("/")
        if (kind, rest) == ("init", "error"):
            self.server.api.answers.put(Answer("", body, self._error_type(body)))
        elif kind == "invocation" and rest.endswith("/response"):
            self.server.api.answers.put(Answer(rest.removesuffix("/response"), body))
        elif kind == "invocation" and rest.endswith("/error"):
            self.server.api.answers.put(Answer(rest.removesuffix("/error"), body, self._error_type(body)))
        else:
            self._answer(404)
            return
        self._answer(202, b"{}")

    def _error_type(self, body: bytes) -> str:
        named = self.headers.get("Lambda-Runtime-Function-Error-Type")
        return named or str(json.loads(body or b"{}").get("errorType", "")) or "Unhandled"

    def _answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """The runtime's requests are no news."""


def _trace_id(invocation: Invocation) -> str:
    digits = invocation.request_id.replace("-", "")
    return f"Root=1-{invocation.deadline_ms // 1000:08x}-{digits[:24]};Parent={digits[-16:]};Sampled=0"
