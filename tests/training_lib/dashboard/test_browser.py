"""The dashboard in a real browser: Debian's Chromium, driven by Playwright. Skipped where either is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.patience import HANGS_SECONDS
from tests.training_lib.dashboard.runs import write_run
from tests.training_lib.dashboard.served import TOKEN, Served, served
from tests.training_lib.dashboard.test_live import judge

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visitor:
    """A page in a fresh browser, with all that it asked for and all that it complained of."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self._context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        self._context.set_default_timeout(HANGS_SECONDS * 1000)
        self.page = self._context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def enter(self, server: Served, path: str = "/") -> Any:
        """Open a page with the token in its address."""
        self.page.goto(f"{server.address}{path}{'&' if '?' in path else '?'}token={TOKEN}")
        return self.page

    def close(self) -> None:
        self._context.close()


@pytest.fixture
def visitor(browser: Any) -> Iterator[Visitor]:
    one = Visitor(browser)
    yield one
    one.close()


def test_from_the_list_to_the_evidence_and_back(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server)
    assert page.url == f"{server.address}/", "the token does not stay in the address"
    page.get_by_role("link", name="faulty").click()
    page.locator(".evidence a").first.click()
    assert "steps=" in page.url
    assert page.locator(".chart").count() > 0
    page.go_back()
    assert page.get_by_role("heading", level=1).inner_text() == "faulty"
    assert [url for url in visitor.asked if not url.startswith((f"{server.address}/", "data:"))] == []
    assert visitor.complaints == []


def test_from_a_finding_to_how_it_began_and_to_a_slow_step(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/faulty")
    page.get_by_role("link", name="How it began: its signals in order").click()
    page.get_by_role("heading", level=1, name="How it began").wait_for()
    page.go_back()
    page.get_by_role("link", name="Timeline").click()
    page.get_by_role("link", name="77", exact=True).click()
    page.wait_for_url("**steps=27*")
    assert page.get_by_role("img", name="the longest step takes 2 s").count() == 1
    assert visitor.complaints == []


def test_steps_are_chosen_by_drawing_and_back_undoes_it(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/right")
    box = page.locator(".chart").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 60, steps=5)
    page.mouse.up()
    page.wait_for_url("**steps=*")
    first, last = map(int, page.locator(".chart").first.get_attribute("data-steps").split(","))
    assert 50 < first < 150 < last < 300
    assert page.get_by_role("textbox", name="Steps").input_value() == str(first)
    page.go_back()
    assert page.locator(".chart").first.get_attribute("data-steps") == "0,399"
    assert visitor.complaints == []


def test_steps_are_chosen_with_the_keyboard(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/right")
    page.locator(".chart").first.focus()
    page.keyboard.press("ArrowRight")
    assert "step" in page.locator("output.readout").first.inner_text()
    page.keyboard.press("+")
    page.wait_for_url("**steps=*")
    assert page.locator(".chart").first.get_attribute("data-steps") == "99,300"


def test_a_page_that_is_open_shows_a_finding_as_it_comes(tmp_path: Path, visitor: Visitor) -> None:
    run = tmp_path / ".trackside/runs/live"
    write_run(run, ended=False)
    with served(tmp_path) as server:
        page = visitor.enter(server, "/runs/live")
        page.get_by_role("status").filter(has_text="Follows").wait_for()
        page.locator("details summary").first.click()
        judge(run)
        page.get_by_role("heading", name="CRITICAL").wait_for()
        assert page.locator("details").first.get_attribute("open") is not None, "what was open stays open"
        page.locator(".chart").first.focus()
        page.keyboard.press("ArrowRight")
        assert "step" in page.locator("output.readout").first.inner_text(), "new curves answer, too"
        page.close()
    assert visitor.complaints == []


def test_a_page_goes_on_after_the_server_was_started_again(tmp_path: Path, visitor: Visitor) -> None:
    run = tmp_path / ".trackside/runs/live"
    write_run(run, ended=False)
    with served(tmp_path) as server:
        port = server.host.rpartition(":")[2]
        page = visitor.enter(server, "/runs/live")
        page.get_by_role("status").filter(has_text="Follows").wait_for()
    page.get_by_role("status").filter(has_text="Not connected").wait_for()
    judge(run)
    with served(tmp_path, "--port", port):
        page.get_by_role("heading", name="CRITICAL").wait_for()


def test_without_its_script_a_page_says_the_same(server: Served, browser: Any) -> None:
    visitor = Visitor(browser, java_script_enabled=False)
    page = visitor.enter(server, "/runs/right")
    page.get_by_role("textbox", name="Steps").fill("100")
    page.get_by_label("to", exact=True).fill("199")
    page.locator(".steps button").click()
    assert page.locator(".chart").first.get_attribute("data-steps") == "100,199"
    visitor.close()


@pytest.mark.parametrize(
    "path", ["/", "/runs/faulty", "/runs/faulty/timeline", "/compare?run=faulty&run=right", "/runs/faulty/tensors"]
)
def test_a_narrow_page_needs_no_scrolling_sideways(server: Served, browser: Any, path: str) -> None:
    visitor = Visitor(browser)
    page = visitor.enter(server, path)
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    visitor.close()
