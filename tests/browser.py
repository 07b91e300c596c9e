"""A real browser for tests: the system's Chromium, driven by Playwright. Skipped where either is missing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.patience import HANGS_SECONDS
from tests.training_lib.views.dashboard.served import TOKEN, Served

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
IN_A_BROWSER = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")]


@contextmanager
def open_browser() -> Iterator[Any]:
    """Open the browser, and close it in the end; the fixture `browser` is one of them for a file of tests."""
    with pytest.importorskip("playwright.sync_api").sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Visitor:
    """A page in a fresh browser, with all that it asked for and all that it complained of."""

    def __init__(self, browser: Any, *, width: int = 1200, height: int = 900, **options: Any) -> None:
        self._context = browser.new_context(viewport={"width": width, "height": height}, **options)
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
