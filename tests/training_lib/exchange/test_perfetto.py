"""A trace in Perfetto's page: what a page of that origin may fetch, and a word where it cannot be opened.

The page is a stand-in at Perfetto's origin, in a real Chromium: the machine of the tests has no network.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen  # of a server on this machine

import pytest
from click.testing import CliRunner

from tests.browser import IN_A_BROWSER, open_browser
from tests.patience import HANGS_SECONDS
from tests.training_lib.exchange.timed_run import write_timed_run
from trackside.cli import main
from trackside.contracts.errors import ConfigurationError
from trackside.exchange.perfetto import PAGE, browser_to_open, open_in_perfetto

CONTENT = b'{"traceEvents": []}'


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "a run.timeline.json"
    file.write_bytes(CONTENT)
    return file


@pytest.fixture
def opened(trace: Path) -> Callable[[Callable[[str], None]], str]:
    """A function that opens the trace, visits its address as a browser does, and returns that address."""

    def visit(act: Callable[[str], None]) -> str:
        found: list[str] = []
        threads: list[threading.Thread] = []

        def browser(address: str) -> None:
            found.append(address.partition("?url=")[2])
            assert address.startswith(f"{PAGE}/#!/?url=http://127.0.0.1:")
            threads.append(threading.Thread(target=act, args=(found[0],)))
            threads[0].start()

        try:
            open_in_perfetto(trace, open_address=browser, port=0, wait_seconds=HANGS_SECONDS)
        finally:
            threads[0].join()
        return found[0]

    return visit


def test_the_page_fetches_the_file_once(opened: Callable[[Callable[[str], None]], str]) -> None:
    fetched: list[Any] = []

    def fetch(address: str) -> None:
        for other in (address.rpartition("/")[0], "/".join(address.split("/")[:3]) + "/"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(other, timeout=30)  # noqa: S310 - http
        question = Request(address, method="OPTIONS", headers={"Origin": PAGE})  # noqa: S310 - http
        with urlopen(question, timeout=30) as answer:  # noqa: S310 - http
            fetched.append(answer.headers["Access-Control-Allow-Private-Network"])
        with urlopen(address, timeout=30) as answer:  # noqa: S310 - http
            fetched.append((answer.read(), answer.headers["Access-Control-Allow-Origin"]))

    address = opened(fetch)
    assert fetched == ["true", (CONTENT, PAGE)]
    assert address.endswith("/a%20run.timeline.json")
    with pytest.raises(OSError, match="refused"):
        urlopen(address, timeout=30)  # noqa: S310 - http


@IN_A_BROWSER[0]
@IN_A_BROWSER[1]
@pytest.mark.parametrize(
    ("origin", "answer"),
    [pytest.param(PAGE, CONTENT.decode(), id="perfetto"), pytest.param("https://example.com", "refused", id="another")],
)
def test_chromium_lets_only_that_page_read_it(
    origin: str, answer: str, opened: Callable[[Callable[[str], None]], str]
) -> None:
    read: list[str] = []

    def visit(address: str) -> None:
        with open_browser() as browser:
            context = browser.new_context()
            context.grant_permissions(["local-network-access"])  # as the user does
            context.route(f"{origin}/**", lambda route: route.fulfill(body="<html></html>", content_type="text/html"))
            page = context.new_page()
            page.goto(f"{origin}/")
            script = "address => fetch(address).then(answer => answer.text()).catch(() => 'refused')"
            read.append(page.evaluate(script, address))

    opened(visit)
    assert read == [answer]


@pytest.mark.parametrize("what", ["no browser", "the port is taken", "nobody comes"])
def test_a_trace_that_cannot_be_opened_is_named(what: str, trace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1] if what == "the port is taken" else 0
        browser = None if what == "no browser" else lambda address: None
        with pytest.raises(ConfigurationError) as raised:
            open_in_perfetto(trace, open_address=browser, port=port, wait_seconds=0.01)
    expected = {"no browser": "No browser", "the port is taken": "cannot be served", "nobody comes": "has not fetched"}
    assert expected[what] in str(raised.value)
    assert str(trace) in str(raised.value)


def test_the_command_writes_the_file_and_says_that_no_browser_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webbrowser._tryorder", [])
    assert browser_to_open() is None
    uri = write_timed_run(tmp_path / "run", steps=20)
    result = CliRunner().invoke(main, ["export", uri, str(tmp_path / "out"), "--to", "timeline", "--open"])
    assert result.exit_code == 2
    assert "No browser was found" in result.stderr
    assert (tmp_path / "out" / "run.timeline.json").exists()


@pytest.mark.parametrize("name", ["lynx", "w3m", "www-browser", "firefox", "chromium"])
def test_a_browser_in_the_terminal_is_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    monkeypatch.setattr("webbrowser.get", lambda: webbrowser.GenericBrowser(name))
    assert (browser_to_open() is None) == (name in {"lynx", "w3m", "www-browser"})
