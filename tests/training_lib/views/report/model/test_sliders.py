"""The sliders, in a real browser, offline and with the page's own policy; skipped where that is missing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sklearn import metrics

from tests.browser import IN_A_BROWSER
from tests.training_lib.views.report.model.boosted import boost, validation_of
from trackside.trial.trial import open_trial
from trackside.views.report.gathered import gather
from trackside.views.report.page import page_of

playwright = pytest.importorskip("playwright.sync_api")
pytestmark = IN_A_BROWSER
BINARY, CLASSES = "binary:logistic", "multi:softprob"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Path]]:
    """Models, and the reports on their trainings."""
    folder = tmp_path_factory.mktemp("boosted")
    found = {}
    for objective in (BINARY, CLASSES, "reg:squarederror"):
        run = folder / objective.replace(":", "-")
        model = boost(run, objective, rounds=11)
        page = folder / f"{run.name}.html"
        page.write_text(page_of(gather(str(run), open_trial(str(run)), clock=lambda: 2e9)), encoding="utf-8")
        found[objective] = (model, page)
    return found


def opened(browser: Any, path: Path, complaints: list[str], **options: Any) -> Any:
    page = browser.new_context(offline=True, **options).new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    return page


@pytest.mark.parametrize(
    "moves", [pytest.param(0, id="half"), pytest.param(-30, id="lower"), pytest.param(40, id="higher")]
)
def test_the_cut_tells_what_the_model_does_there(browser: Any, trained: dict[str, Any], moves: int) -> None:
    complaints: list[str] = []
    model, path = trained[BINARY]
    page = opened(browser, path, complaints)
    page.locator(".slider input").focus()
    for _ in range(abs(moves)):
        page.keyboard.press("ArrowRight" if moves > 0 else "ArrowLeft")
    rows = validation_of(BINARY)
    cut = (50 + moves) / 100
    taken = model.predict(rows) >= cut
    expected = metrics.confusion_matrix(rows.get_label(), taken)
    text = page.locator(".slider output").inner_text()
    assert text.startswith(f"{cut:.2f}: ")
    shown = [int(number) for number in re.findall(r"\d+", text.partition(": ")[2].partition(" Precision")[0])]
    found, missed, mistaken, others = (n for place, n in enumerate(shown) if place not in {1, 4})
    assert [[others, mistaken], [missed, found]] == expected.tolist()
    assert f"recall {metrics.recall_score(rows.get_label(), taken):.3f}" in text
    assert complaints == []


def test_the_confusion_matrix_of_each_saved_step_is_shown(browser: Any, trained: dict[str, Any]) -> None:
    complaints: list[str] = []
    page = opened(browser, trained[CLASSES][1], complaints)
    box = page.locator(".stepped")
    last = box.locator("tbody").inner_text()
    box.locator("input").focus()
    page.keyboard.press("Home")
    playwright.expect(box.locator("output")).to_have_text("0")
    assert box.locator("tbody").inner_text() != last
    assert len(box.locator("tbody td[class^=share-]").all()) == len(box.locator("tbody td").all())
    page.keyboard.press("End")
    assert box.locator("tbody").inner_text() == last, "the table without a script, again"
    assert complaints == []


@pytest.mark.parametrize("objective", [BINARY, CLASSES])
def test_without_its_script_the_tables_stand_alone(browser: Any, trained: dict[str, Any], objective: str) -> None:
    page = opened(browser, trained[objective][1], [], java_script_enabled=False)
    assert page.locator("input[type=range]:visible").count() == 0
    assert page.locator("#model .confusion").is_visible()
    assert page.get_by_text("At some cuts").count() == (objective == BINARY)


def test_a_model_of_numbers_has_no_slider(browser: Any, trained: dict[str, Any]) -> None:
    page = opened(browser, trained["reg:squarederror"][1], [])
    assert page.locator("input[type=range]").count() == 0
