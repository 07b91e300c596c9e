"""The dashboard in a real browser: Debian's Chromium, driven by Playwright. Skipped where either is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import pytest

from tests.browser import IN_A_BROWSER, Visitor
from tests.training_lib.views.dashboard.runs import HOSTILE, ISSUE, NODE, WEIGHT, write_run
from tests.training_lib.views.dashboard.served import Served, served
from tests.training_lib.views.dashboard.test_live import judge
from trackside.views.report.page import _SIGNS

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = IN_A_BROWSER


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


def draw_over(page: Any, picture: Any, first: float, last: float) -> None:
    """Draw over a picture, from one share of its width to another."""
    box = picture.bounding_box()
    page.mouse.move(box["x"] + box["width"] * first, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * last, box["y"] + 60, steps=5)
    page.mouse.up()


def lines_of(picture: Any) -> Any:
    return picture.locator("polyline").evaluate_all("(all) => all.map((one) => one.getAttribute('points'))")


def test_steps_are_chosen_by_drawing_and_back_undoes_it(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/right")
    chart = page.locator(".chart").first
    draw_over(page, chart, 0.3, 0.6)
    page.wait_for_url("**steps=*")
    playwright.expect(chart).not_to_have_attribute("data-steps", "0,399")
    first, last = map(int, chart.get_attribute("data-steps").split(","))
    assert 50 < first < 150 < last < 300
    assert page.get_by_role("textbox", name="Steps").input_value() == str(first)
    page.go_back()
    playwright.expect(chart).to_have_attribute("data-steps", "0,399")
    page.go_forward()
    playwright.expect(chart).to_have_attribute("data-steps", f"{first},{last}")
    assert visitor.complaints == []


def test_the_curve_that_was_drawn_over_stays_where_it_is(server: Served, visitor: Visitor) -> None:
    """The page was loaded anew, and began at its top, two screens above the curve."""
    page = visitor.enter(server, "/runs/right")
    chart = page.locator("#machine .chart").first
    chart.scroll_into_view_if_needed()
    page.evaluate("window.mark = 'the same page'")
    before = chart.bounding_box()["y"]
    assert page.evaluate("scrollY") > 300
    draw_over(page, chart, 0.3, 0.6)
    page.locator("#changes").wait_for(state="attached")  # a section that stands above the curve
    assert abs(chart.bounding_box()["y"] - before) < 2
    page.go_back()
    page.locator("#changes").wait_for(state="detached")
    assert abs(chart.bounding_box()["y"] - before) < 2
    assert page.evaluate("window.mark") == "the same page"
    assert visitor.complaints == []


@pytest.mark.parametrize(
    ("path", "picture"),
    [
        pytest.param("/runs/right", ".chart", id="run"),
        pytest.param(f"/runs/faulty/tensor?{urlencode({'name': HOSTILE})}", ".chart", id="tensor"),
        pytest.param("/compare?run=faulty&run=right", ".drawing", id="two-runs"),
        pytest.param("/compare?run=faulty&run=right&run=torn", ".drawing", id="three-runs"),
    ],
)
def test_steps_scale_and_smoothing_are_chosen_in_place(
    server: Served, browser: Any, visitor: Visitor, path: str, picture: str
) -> None:
    page = visitor.enter(server, path)
    page.evaluate("window.mark = 'the same page'")
    drawing = page.locator(f"{picture}[data-steps]").first
    whole = drawing.get_attribute("data-steps")
    drawing.scroll_into_view_if_needed()
    draw_over(page, drawing, 0.3, 0.6)
    playwright.expect(drawing).not_to_have_attribute("data-steps", whole)
    chosen = drawing.get_attribute("data-steps")
    plain = lines_of(drawing)
    page.get_by_label("Smooth").select_option("over 40 points")
    page.wait_for_url("**smooth=40*")
    page.get_by_label("Scale").select_option("logarithmic")
    page.wait_for_url("**scale=log*")
    page.locator("[aria-busy]").wait_for(state="detached")
    assert drawing.get_attribute("data-steps") == chosen
    assert lines_of(drawing) != plain
    fresh = Visitor(browser)
    again = fresh.enter(server, page.url.removeprefix(server.address))
    assert lines_of(again.locator(f"{picture}[data-steps]").first) == lines_of(drawing)
    fresh.close()
    page.get_by_role("link", name="All steps").click()
    playwright.expect(drawing).to_have_attribute("data-steps", whole)
    assert "smooth=40" in page.url
    assert page.evaluate("window.mark") == "the same page"
    assert visitor.complaints == []


def test_steps_are_chosen_with_the_keyboard(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/right")
    page.locator(".chart").first.focus()
    page.keyboard.press("ArrowRight")
    answers(page, "step")
    page.keyboard.press("+")
    page.wait_for_url("**steps=*")
    playwright.expect(page.locator(".chart").first).to_have_attribute("data-steps", "99,300")


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
        answers(page, "step")  # new curves do, too
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


# Words of few letters in a table that stand on more than one line.
BROKEN_WORDS = """() => {
    const found = [], range = document.createRange();
    for (const cell of document.querySelectorAll("th, td")) {
        const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode()) {
            for (const word of node.textContent.matchAll(/(?<![^ ])[A-Za-z0-9]{2,8}(?![^ ,.:;])/g)) {
                range.setStart(node, word.index);
                range.setEnd(node, word.index + word[0].length);
                if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) found.push(word[0]);
            }
        }
    }
    return found;
}"""


@pytest.mark.parametrize("width", [360, 390, 760, 1010])
@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/runs/faulty",
        "/runs/faulty/timeline",
        f"/runs/faulty/tensor?{urlencode({'name': HOSTILE, 'expression': 'l2'})}",
        f"/runs/faulty/difference?{urlencode({'name': WEIGHT})}",
        f"/runs/faulty/incident?{urlencode({'of': ISSUE.group})}",
        "/compare?run=faulty&run=right",
        "/compare?run=faulty&run=right&run=torn",
        "/runs/faulty/tensors",
        "/runs/right/machine",
    ],
)
def test_a_page_of_any_width_needs_no_scrolling_sideways_and_breaks_no_short_word(
    server: Served, browser: Any, path: str, width: int
) -> None:
    visitor = Visitor(browser, width=width, height=700)
    page = visitor.enter(server, path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(BROKEN_WORDS) == []
    visitor.close()


def test_an_expression_is_typed_drawn_and_kept_in_the_address(server: Served, browser: Any, visitor: Visitor) -> None:
    page = visitor.enter(server, f"/runs/faulty/tensor?{urlencode({'name': HOSTILE, 'steps': '100:300'})}")
    before = page.locator(".chart").count()
    page.get_by_text("Compute from statistics").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("log10(l2) /")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="character 12").wait_for()
    assert page.locator(".chart").count() == before, "the others stay"
    page.get_by_role("textbox", name="Compute").fill('log10(l2 / "gradient/Net_fc.bias")')
    page.keyboard.press("Enter")
    page.locator("figcaption", has_text="log10(l2 /").wait_for()
    assert page.locator(".chart").count() == before + 1
    fresh = Visitor(browser)
    again = fresh.enter(server, page.url.removeprefix(server.address))
    assert again.get_by_role("textbox", name="Compute").input_value() == 'log10(l2 / "gradient/Net_fc.bias")'
    assert again.locator(".chart").first.get_attribute("data-steps") == page.locator(".chart").first.get_attribute(
        "data-steps"
    )
    fresh.close()
    assert [said for said in visitor.complaints if "400" not in said] == []


@pytest.mark.parametrize(
    "path",
    [
        "/?q=fault",
        "/?state=finished&worst=critical&rule=vanishing-gradient",
        "/runs/faulty?steps=100:200",
        f"/runs/faulty/tensor?{urlencode({'name': HOSTILE, 'steps': '0:100'})}",
        f"/runs/faulty/difference?{urlencode({'name': WEIGHT, 'steps': '100:300'})}",
        "/runs/faulty/timeline?steps=27:127",
        f"/runs/right/machine?{urlencode({'node': NODE, 'steps': '100:300'})}",
        "/runs/faulty/tensors?q=gradient&of=mean",
        "/compare?run=faulty&run=right&run=torn",
    ],
)
def test_an_address_restores_the_view_in_a_fresh_browser(server: Served, browser: Any, path: str) -> None:
    seen_by = []
    for _ in range(2):
        visitor = Visitor(browser)
        page = visitor.enter(server, path)
        assert unquote(page.url) == unquote(f"{server.address}{path}")
        seen_by.append(page.locator("header, main").all_inner_texts())  # the note on the stream comes when it comes
        assert visitor.complaints == []
        visitor.close()
    assert seen_by[0] == seen_by[1]


def test_runs_are_filtered_by_keyboard_and_the_address_keeps_it(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server)
    page.keyboard.press("/")
    page.keyboard.press("Tab")
    page.keyboard.type("finished")
    page.keyboard.press("Tab")
    page.keyboard.type("critical")
    page.keyboard.press("Tab")
    page.keyboard.type("vanishing-gradient")
    page.keyboard.press("Enter")
    page.wait_for_url("**rule=vanishing-gradient")
    playwright.expect(page.locator(".runs tbody tr")).to_have_count(1)
    page.reload()
    assert page.get_by_label("State").input_value() == "finished"
    assert page.get_by_label("Worst").input_value() == "critical"
    page.get_by_role("link", name="All runs").click()
    playwright.expect(page.locator(".runs tbody tr")).to_have_count(3)
    assert visitor.complaints == []


def test_every_flow_goes_by_keyboard_alone(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server)
    page.keyboard.press("/")
    page.keyboard.type("fault")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=fault")
    tab_to(page, "faulty")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="faulty").wait_for()
    page.keyboard.press("]")
    assert "CRITICAL" in focused(page)
    tab_to(page, HOSTILE)
    page.keyboard.press("Enter")
    page.wait_for_url("**tensor?**steps=*")
    page.keyboard.press("0")
    page.wait_for_url(lambda url: "steps" not in url)
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url(f"{server.address}/")
    assert visitor.complaints == []


def test_the_cursor_stands_at_one_step_in_curves_over_time(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/right")
    page.keyboard.press("x")
    page.wait_for_url("**axis=time")
    box = page.locator(".chart").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60)
    # 480 of 960 places, of which 72 and 12 are no steps: 46.6 % of 400 seconds, a step each.
    answers(page, "step 186:")
    cursors = page.locator(".chart .cursor")
    place = str(cursors.first.get_attribute("x1"))
    last = page.locator(".chart").last
    assert last.bounding_box()["y"] > 900 + 200, "below what is seen"
    last.scroll_into_view_if_needed()
    playwright.expect(cursors.last).to_have_attribute("x1", place)
    assert set(cursors.evaluate_all("(all) => all.map((one) => one.getAttribute('x1'))")) <= {place, "0"}
    assert visitor.complaints == []


def answers(page: Any, words: str) -> None:
    """Wait until the first chart says what is at its cursor, which it does once a frame."""
    playwright.expect(page.locator("output.readout").first).to_contain_text(words)


def test_moves_of_a_frame_are_drawn_once_and_only_where_they_are_seen(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/right")
    answered = page.evaluate(
        """async () => {
          const charts = [...document.querySelectorAll(".chart")], box = charts[0].getBoundingClientRect();
          let changes = 0;
          new MutationObserver((found) => { changes += found.length; }).observe(
            document.body, { subtree: true, attributeFilter: ["x1"] });
          await new Promise(requestAnimationFrame);
          for (let at = 0; at < 20; at++) charts[0].dispatchEvent(new PointerEvent("pointermove",
            { clientX: box.left + 200 + at, clientY: box.top + 40, bubbles: true }));
          await new Promise(requestAnimationFrame);
          await new Promise(requestAnimationFrame);
          const seen = charts.filter((one) => one.getBoundingClientRect().top < innerHeight + 200).length;
          return [changes, seen, charts.length];
        }"""
    )
    changes, seen, charts = answered
    assert seen < charts, "some are out of sight"
    assert changes == seen


def test_keys_go_to_sections_and_can_be_switched_off(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/faulty")
    page.keyboard.press("g")
    page.keyboard.press("r")
    assert page.evaluate("document.activeElement.id") == "rules"
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    page.get_by_role("button", name="Switch keys off").click()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("g")
    page.keyboard.press("l")
    assert page.evaluate("document.activeElement.id") != "layers"


def tab_to(page: Any, text: str) -> None:
    for _ in range(80):
        page.keyboard.press("Tab")
        if focused(page) == text:
            return
    raise AssertionError(f"{text!r} is not reached by Tab")


def focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.innerText")).strip()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_five_states_of_rules_differ_without_color(server: Served, browser: Any, theme: Any) -> None:
    visitor = Visitor(browser, color_scheme=theme)
    page = visitor.enter(server, "/runs/faulty")
    words = page.locator("#rules .state").all_inner_texts()
    assert words
    assert all(word.split()[0] in "✖▲⚠✔◌▶–" and len(word.split()) > 1 for word in words), "a sign and a word"
    assert len({sign for sign, _ in _SIGNS.values()} | {"▲"}) >= 6
    visitor.close()


def test_it_prints_whole_and_light(server: Served, browser: Any, tmp_path: Path) -> None:
    visitor = Visitor(browser, color_scheme="dark")
    page = visitor.enter(server, "/runs/faulty")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("nav").first.is_visible()
    page.set_viewport_size({"width": 700, "height": 1000})  # A4 between its margins
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    page.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    visitor.close()


def test_the_report_in_a_file_needs_no_network(folder: Path, browser: Any, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    run = folder / ".trackside/runs/faulty"
    subprocess.run([sys.executable, "-m", "trackside", "report", str(run), "-o", str(target)], check=True)
    visitor = Visitor(browser, offline=True)
    visitor.page.goto(target.as_uri())
    visitor.page.locator(".chart").first.focus()
    visitor.page.keyboard.press("ArrowRight")
    answers(visitor.page, "step")
    assert [url for url in visitor.asked if not url.startswith(("file:", "data:"))] == []
    assert visitor.complaints == []
    visitor.close()


def test_pixels_of_known_cells_have_their_colors(server: Served, visitor: Visitor) -> None:
    """The norms of the gradients fall with the steps: the first cell is brighter than the last one."""
    page = visitor.enter(server, "/runs/faulty")
    image = first_row(page, "#layers .picture-0")
    light = [sum(pixel[:3]) for pixel in image if pixel[3] == 255]
    assert light[0] > light[len(light) // 2] > light[-1]
    assert page.locator("#training .chart .broken").count() == 1, "the loss that is not a number, once"


def first_row(page: Any, selector: str, *, row: int = 0) -> list[list[int]]:
    """Return the pixels of one row of a picture: red, green, blue, opacity."""
    found: list[list[int]] = page.evaluate(
        """([image, row]) => {
          const canvas = document.createElement("canvas");
          canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
          const pen = canvas.getContext("2d", { willReadFrequently: true });
          pen.drawImage(image, 0, 0);
          return [...Array(image.naturalWidth).keys()].map((x) => [...pen.getImageData(x, row, 1, 1).data]);
        }""",
        [page.locator(selector).first.element_handle(), row],
    )
    return found


def test_a_core_that_is_busy_from_half_of_the_run_on_is_bright_from_there(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/right/machine")
    busy, idle = first_row(page, ".picture-0", row=11), first_row(page, ".picture-0", row=3)
    half = len(busy) // 2
    assert sum(busy[half + 3][:3]) > 3 * sum(busy[half - 3][:3])
    assert idle[half + 3] == idle[half - 3] == busy[half - 3]
    assert page.locator(".picture-0").is_visible(), "one picture needs no choice"
    page.get_by_role("link", name=NODE).click()
    page.get_by_role("heading", level=1, name=NODE).wait_for()
    assert visitor.complaints == []


def test_a_tensor_is_found_in_the_tree_and_opened_by_keyboard(server: Served, visitor: Visitor) -> None:
    page = visitor.enter(server, "/runs/faulty/tensors")
    box = page.locator(".small-chart").first.bounding_box()
    assert box["width"] > 120
    assert box["height"] > 30
    page.keyboard.press("/")
    page.keyboard.type("fc.bias")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=fc.bias**")
    playwright.expect(page.locator(".small-chart")).to_have_count(1)
    page.locator(".branch summary").first.focus()
    page.keyboard.press("Enter")  # folds it up
    playwright.expect(page.locator(".small-chart")).to_be_hidden()
    page.keyboard.press("Enter")
    tab_to(page, "bias")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="gradient/Net_fc.bias").wait_for()
    assert visitor.complaints == []
