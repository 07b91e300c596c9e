"""A dashboard in a process of its own, as `trackside serve` starts it, and requests to it."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPResponse
from pathlib import Path

from tests.patience import HANGS_SECONDS
from trackside.environment import inherited

TOKEN = "secret-of-the-test"


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: Message
    text: str


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class Served:
    """A server that runs. `address` is the one that it printed, without the token."""

    def __init__(self, process: subprocess.Popen[str], printed: str) -> None:
        self.process, self.printed = process, printed
        self.address = printed.partition("/?")[0].rstrip("/")

    @property
    def host(self) -> str:
        return self.address.removeprefix("http://")

    def ask(
        self, path: str, *, method: str = "GET", token: str | None = TOKEN, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Return the answer to one request, without following it elsewhere."""
        try:
            with self.open(path, method=method, token=token, headers=headers) as answer:
                return Answer(answer.status, answer.headers, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read().decode())

    def open(
        self, path: str, *, method: str = "GET", token: str | None = TOKEN, headers: Mapping[str, str] | None = None
    ) -> HTTPResponse:
        permit = {} if token is None else {"Authorization": f"Bearer {token}"}
        sent = {**permit, **(headers or {})}
        request = urllib.request.Request(f"{self.address}{path}", method=method, headers=sent)  # noqa: S310 - http
        opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
        opened: HTTPResponse = opener.open(request, timeout=HANGS_SECONDS)
        return opened

    def page(self, path: str) -> str:
        """Return a page that is there."""
        answer = self.ask(path)
        assert answer.status == 200, answer.text
        return answer.text


@contextmanager
def served(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Serve the runs of a folder, and end the server in the end."""
    command = [sys.executable, "-m", "trackside", "serve", "--port", "0", *arguments]
    variables = {**inherited(), "TRACKSIDE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1", **(environment or {})}
    with subprocess.Popen(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            printed = process.stdout.readline().strip()
            assert printed.startswith("http://"), process.stderr.read() if process.stderr else printed
            yield Served(process, printed)
        finally:
            process.terminate()
            assert process.wait(HANGS_SECONDS) is not None
