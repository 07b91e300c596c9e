"""Reads every page with axe-core in both themes, and measures pages and the offline report in Chromium.

    python -m benchmarks.browser [--axe axe.min.js] [--write docs/dashboard.md]

Trains the runs of the pictures, and writes one of 200,000 steps and one of 200 layers over 2,000 steps. Needs Chromium,
Playwright and, without --axe, npm, which fetches axe-core. About three minutes.
"""

from __future__ import annotations

import gzip
import itertools
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.dashboard import write_long, write_run
from benchmarks.engine.options import parser
from benchmarks.engine.pages import put
from benchmarks.times import machine
from docs.pictures import PAGES, THEMES, TOKEN, resolved, serving, train_runs

AXE = "axe-core@4.14.1"
START, END = "<!-- measured by `python -m benchmarks.browser` -->", "<!-- /browser -->"
MOVES, TIMES = 60, 7  # of the pointer: so many moves, so many times

# Words that are seen without scrolling, in the order of the page, until layer and step are named; and where that is.
WORDS_UNTIL = """([layer, step]) => {
    const seen = [], range = document.createRange();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        if (!node.textContent.trim() || !node.parentElement.checkVisibility()) continue;
        range.selectNodeContents(node);
        const box = range.getBoundingClientRect();
        if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0) continue;
        seen.push(node.textContent.trim());
        const text = seen.join(" ").toLowerCase();
        if (text.includes(layer.toLowerCase()) && text.includes(step))
            return {words: text.split(/\\s+/).length, bottom: box.bottom, right: box.right};
    }
    return null;
}"""


def main(words: Sequence[str] | None = None) -> int:
    """Measure; print the tables, or write them into a page. Return 1 for a violation or a request of the report."""
    options = parser(__doc__)
    options.add_argument("--axe", type=Path, help="the file axe.min.js")
    options.add_argument("--write", type=Path, help="the page with the markers")
    arguments = options.parse_args(words)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        axe = (arguments.axe or fetched_axe(folder)).read_text("utf-8")
        train_runs(folder)
        runs = folder / ".trackside/runs"
        write_run(runs / "points", lambda store: write_long(store, steps=200_000, layers=40))
        write_run(runs / "heatmap", lambda store: write_long(store, steps=2_000, layers=200))
        for name in ("digits", "heatmap"):
            trackside = str(Path(sys.executable).with_name("trackside"))
            command = [trackside, "report", f".trackside/runs/{name}", "-o", f"{name}.html"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        violations, asked, rows = measure(folder, axe)
    lines = [*violation_table(violations), "", *asked, "", *budget_table(rows), "", machine()]
    put(lines, arguments.write, begin=START, end=END)
    return int(any(found for _, _, found in violations))


def fetched_axe(folder: Path) -> Path:
    """Fetch axe-core through npm, and return its script."""
    subprocess.run(["npm", "install", "--no-save", "--prefix", str(folder), AXE], check=True, capture_output=True)
    return folder / "node_modules" / "axe-core" / "axe.min.js"


def measure(
    folder: Path, axe: str
) -> tuple[list[tuple[str, str, list[str]]], list[str], list[tuple[str, float, float, float, float, float]]]:
    """Return the violations by page and theme, a sentence on requests of the report, and rows of times."""
    from playwright.sync_api import sync_playwright

    violations: list[tuple[str, str, list[str]]] = []
    with serving(folder) as address, sync_playwright() as engine:
        browser = engine.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        for theme, _ in THEMES:
            view = browser.new_context(color_scheme=theme, bypass_csp=True, viewport={"width": 1120, "height": 860})
            page = view.new_page()
            page.goto(f"{address}/?token={TOKEN}")
            for name, path in pages(page, address):
                page.goto(f"{address}{path}")
                violations.append((name, theme, broken_rules(page, axe)))
            page.goto((folder / "digits.html").as_uri())
            violations.append(("the report in a file", theme, broken_rules(page, axe)))
            view.close()
        asked = [requests_of(browser, folder / "digits.html"), "", clicks_of(browser, address)]
        rows = list(times_of(browser, address, folder))
        browser.close()
    return violations, asked, rows


def pages(page: Any, address: str) -> Iterator[tuple[str, str]]:
    """Yield name and path of each page, each path once."""
    seen = set()
    for name, (path, _, _) in PAGES.items():
        found = resolved(page, address, path)
        if found not in seen:
            seen.add(found)
            yield name, found
    yield "not found", "/runs/none"


def broken_rules(page: Any, axe: str) -> list[str]:
    """Return the rules of axe that a page violates."""
    page.evaluate(axe)
    return [str(one["id"]) for one in page.evaluate("axe.run().then((found) => found.violations)")]


def requests_of(browser: Any, report: Path) -> str:
    """Return a sentence: how many requests the report makes beside its own file, with the network switched off."""
    view = browser.new_context(offline=True)
    page = view.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.wait_for_timeout(500)
    others = [url for url in asked if not url.startswith(("file:", "data:"))]
    charts = page.locator(".chart, .drawing, .pictures").count()
    view.close()
    return f"The report in a file with the network switched off: {charts} pictures, {len(others)} requests."


def clicks_of(browser: Any, address: str) -> str:
    """Return a sentence: what a newcomer clicks from the list of runs to the evidence of a finding, and the seconds."""
    view = browser.new_context(viewport={"width": 1280, "height": 800})
    page = view.new_page()
    begun = time.perf_counter()
    page.goto(f"{address}/?token={TOKEN}")
    page.get_by_role("link", name="digits", exact=True).click()
    tensor = page.locator(".evidence a").first.inner_text()
    found = re.search(r"since step (\d+)", page.locator(".verdict").inner_text().lower())
    step = f"step {found[1] if found else '?'}"
    first, read = time.perf_counter() - begun, page.evaluate(WORDS_UNTIL, [tensor, step])
    page.locator(".evidence a").first.click()
    page.locator(".chart").first.wait_for()
    second, read_then = time.perf_counter() - begun, page.evaluate(WORDS_UNTIL, [tensor, step])
    view.close()
    return (
        f"From the address that `trackside serve` prints, in a window of 1280 x 800 and without scrolling: the first "
        f"click, on the run, names {tensor} and {step} after {first:.1f} s, {_words(read)}; the second, on its "
        f"evidence, shows the curves of that tensor around that step after {second:.1f} s, {_words(read_then)}. "
        "A program clicked: the reading of these words is not in the seconds."
    )


def _words(read: dict[str, float] | None) -> str:
    return f"as the word {read['words']:.0f} of the page" if read else "below what is seen"


def times_of(browser: Any, address: str, folder: Path) -> Iterator[tuple[str, float, float, float, float, float]]:
    """Yield what, first paint (ms), loaded (ms), median and longest move of the cursor (ms), heap (MB)."""
    for what, place in (
        ("200,000 steps, 41 tensors", f"{address}/runs/points"),
        ("1,000 of its steps", f"{address}/runs/points?steps=99500:100499"),
        ("200 layers over 2,000 steps", f"{address}/runs/heatmap"),
        ("1,000 of its steps", f"{address}/runs/heatmap?steps=500:1499"),
        ("the same as a report in a file", (folder / "heatmap.html").as_uri()),
    ):
        view = browser.new_context(viewport={"width": 1120, "height": 860}, bypass_csp=True)
        page = view.new_page()
        page.goto(f"{address}/?token={TOKEN}")
        page.goto(place)  # the server has read the run
        page.goto(place)
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length")
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        loaded = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        times = [page.evaluate(_MOVES, MOVES) for _ in range(TIMES)]
        heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
        # The longest of one time is that of the busiest moment of the machine.
        longest = statistics.median(map(max, times))
        yield what, paint, loaded, statistics.median(itertools.chain(*times)), longest, heap
        view.close()


_MOVES = """async (count) => {
  const charts = document.querySelectorAll(".chart"), box = charts[0].getBoundingClientRect(), took = [];
  for (let at = 0; at < count; at++) {
    const begun = performance.now();
    charts[0].dispatchEvent(new PointerEvent("pointermove", {
      clientX: box.left + box.width * (0.1 + 0.8 * at / count), clientY: box.top + 40, bubbles: true }));
    await new Promise(requestAnimationFrame);
    document.body.getBoundingClientRect();
    took.push(performance.now() - begun);
  }
  return took;
}"""


def violation_table(found: Sequence[tuple[str, str, list[str]]]) -> list[str]:
    """Return a row for each page: what axe found in each theme."""
    by_page: dict[str, dict[str, str]] = {}
    for name, theme, rules in found:
        by_page.setdefault(name, {})[theme] = ", ".join(rules) or "none"
    rows = [f"| {name} | {by_theme['light']} | {by_theme['dark']} |" for name, by_theme in by_page.items()]
    return [f"| page | violations ({AXE}), light | dark |", "|---|---|---|", *rows]


def budget_table(rows: Sequence[tuple[str, float, float, float, float, float]]) -> list[str]:
    """Return the times as a table, with the size of the script."""
    from trackside.views.dashboard.app import script

    size = len(gzip.compress(script().encode())) / 1e3
    lines = [
        f"| {what} | {paint:.0f} ms | {loaded:.0f} ms | {move:.0f} ms | {longest:.0f} ms | {heap:.0f} MB |"
        for what, paint, loaded, move, longest, heap in rows
    ]
    return [
        (
            "| page | first paint (goal 1,000) | loaded | a move of the cursors (goal 50) "
            "| longest of 60, median of 7 times | heap (goal 150) |"
        ),
        "|---|---|---|---|---|---|",
        *lines,
        "",
        f"The script of all pages is {size:.1f} kB, compressed (goal 60). {time.strftime('%d %B %Y', time.gmtime())}.",
    ]


if __name__ == "__main__":
    sys.exit(main())
