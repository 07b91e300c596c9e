"""From the card in the terminal to the first bad layer and its step: two clicks, few words, and no scrolling.

A person with a watch is not to be had in a test. It counts what he would have to do and to read, in the order of the
page, at the size of a small notebook's window.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.browser import WORDS_UNTIL
from tests.browser import IN_A_BROWSER, Visitor
from tests.patience import HANGS_SECONDS
from tests.training_lib.views.dashboard.served import Served, served
from trackside.environment import inherited

pytestmark = IN_A_BROWSER
EXAMPLE = Path(__file__).resolve().parents[2] / "examples/digits/train.py"
LAYER, STEP = "gradient/DigitClassifier_hidden.0.weight", "step 0"
MOST_WORDS = 40  # on a way; people read two hundred in a minute, and look for their place meanwhile
WIDTH, HEIGHT = 1280, 800


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with the run of an example whose gradients vanish, and what the terminal shows of it."""
    folder = tmp_path_factory.mktemp("newcomer")
    command = [sys.executable, "-m", "trackside", "run", "--on-issue", "stop", "--", sys.executable, str(EXAMPLE)]
    done = subprocess.run(
        [*command, "--fault", "vanishing", "--epochs", "20"],
        cwd=folder,
        env={**inherited(), "NO_COLOR": "1", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    return folder, f"{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def server(trained: tuple[Path, str]) -> Iterator[Served]:
    with served(trained[0]) as running:
        yield running


def test_the_card_in_the_terminal_names_the_layer_and_leads_to_the_page(trained: tuple[Path, str]) -> None:
    _, output = trained
    begin = min(output.index(word) for word in ("▲ WARNING", "✖ CRITICAL") if word in output)
    words = output[begin:].replace("─", " ").split()
    card = " ".join(words[:MOST_WORDS])
    assert LAYER in card
    assert STEP in card
    assert output.rstrip().endswith("trackside serve"), "the last line leads on"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_two_clicks_lead_to_the_layer_and_the_step(server: Served, browser: Any, theme: str) -> None:
    visitor = Visitor(browser, width=WIDTH, height=HEIGHT, color_scheme=theme)
    page = visitor.enter(server)
    run = page.locator(".runs tbody td:nth-child(2) a").first
    assert run.bounding_box()["y"] < HEIGHT, "the run is in view"
    run.click()
    page.locator(".evidence a").first.wait_for()  # the page comes in parts
    assert_answered(page)
    evidence = page.locator(".evidence a", has_text=LAYER).first
    box = evidence.bounding_box()
    assert box["y"] + box["height"] <= HEIGHT, "the way on is in view"
    assert evidence.inner_text() == LAYER
    evidence.click()
    page.locator(".chart").first.wait_for()
    assert_answered(page)
    chart = page.locator(".chart").first.bounding_box()
    assert chart["y"] + chart["height"] <= HEIGHT, "the curve of the bad layer is in view"
    assert page.locator(".chart .span").count() > 0, "the steps of the issue are shaded"
    assert "below the limit of" in page.locator(".found").first.inner_text(), "why it is bad"
    visitor.close()
    assert visitor.complaints == []


def assert_answered(page: Any) -> None:
    """Assert that few words lead to the layer and its step, and that they are seen without scrolling."""
    found = page.evaluate(WORDS_UNTIL, [LAYER, STEP])
    assert found is not None, f"{LAYER} and {STEP!r} are not seen without scrolling"
    assert found["words"] <= MOST_WORDS
    assert found["bottom"] <= HEIGHT
    assert found["right"] <= WIDTH
