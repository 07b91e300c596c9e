"""Perfetto's web page with a trace of this machine, by its deep link (perfetto.dev, "Deep linking to the Perfetto UI").

The page fetches the file from 127.0.0.1:9001, the one local address that its content policy allows. Chromium asks the
user for that first. The page reads the trace in the browser, and sends it to nobody. The file is served once, readable
for that page alone, at an address that cannot be guessed.
"""

from __future__ import annotations

import secrets
import time
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trackside.contracts.errors import ConfigurationError, Problem

PAGE = "https://ui.perfetto.dev"
PORT = 9001
WAIT_SECONDS = 120.0  # for the page to load, and for the user to allow it
_IN_TERMINALS = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})


def browser_to_open() -> Callable[[str], Any] | None:
    """Return the function that opens an address in a browser with windows; None without one."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return None
    return None if getattr(browser, "name", "") in _IN_TERMINALS else browser.open


def open_in_perfetto(
    file: Path,
    *,
    open_address: Callable[[str], Any] | None,
    port: int = PORT,
    wait_seconds: float = WAIT_SECONDS,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Open a trace in Perfetto's web page, and return once the page has fetched it.

    Args:
        file: A trace.
        open_address: Opens an address in a browser; None without one.
        port: The local port; the page fetches from 9001 only.
        wait_seconds: Time for the page to fetch the file.
        monotonic: Returns seconds.

    Raises:
        ConfigurationError: No browser, another program has the port, or nothing fetched the file.
    """
    by_hand = f"Open the file by hand, where a browser is: {PAGE}, Open trace file, {file}"
    if open_address is None:
        raise _unopened("No browser was found on this machine.", by_hand)
    place = f"/{secrets.token_urlsafe()}/{quote(file.name)}"
    try:
        server = _OneFile(("127.0.0.1", port), file.read_bytes(), place)
    except OSError as error:
        message = f"The file cannot be served at 127.0.0.1:{port}, where Perfetto looks for it: {error.strerror}."
        raise _unopened(message, by_hand) from error
    with server:
        open_address(f"{PAGE}/#!/?url=http://127.0.0.1:{server.server_port}{place}")
        until = monotonic() + wait_seconds
        while not server.is_fetched and monotonic() < until:
            server.timeout = min(1.0, wait_seconds)
            server.handle_request()
    if not server.is_fetched:
        raise _unopened(
            f"Perfetto's page has not fetched the file for {wait_seconds:.0f} seconds, or was not allowed to.", by_hand
        )


def _unopened(message: str, fix: str) -> ConfigurationError:
    return ConfigurationError([Problem("--open", message, fix)], subject="The timeline")


class _OneFile(HTTPServer):
    """Serves one file at one address."""

    def __init__(self, address: tuple[str, int], content: bytes, place: str) -> None:
        self.content, self.place, self.is_fetched = content, place, False
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _OneFile
    timeout = 10.0  # of a client that connects and sends nothing

    def do_OPTIONS(self) -> None:
        """Allow Chrome's question whether the page may ask this machine."""
        self.send_response(HTTPStatus.NO_CONTENT)
        self._allow()
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.send_header("Access-Control-Allow-Methods", "GET")
        self.end_headers()

    def do_GET(self) -> None:
        """Send the file."""
        if self.path != self.server.place:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        self._allow()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)
        self.server.is_fetched = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
        """Log nothing."""

    def _allow(self) -> None:
        self.send_header("Access-Control-Allow-Origin", PAGE)
        self.send_header("Cache-Control", "no-store")
