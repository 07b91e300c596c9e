"""What a notebook shows of a run, a finding and layers: executed by Jupyter, exported by Jupyter, read in Chromium.

No extension of Jupyter is installed, and the exported page has no network.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.browser import IN_A_BROWSER
from tests.patience import HANGS_SECONDS
from tests.training_lib.views.dashboard.runs import HOSTILE, ISSUE, write_run

pytestmark = IN_A_BROWSER

# Runs in the notebook's environment: a real kernel, then Jupyter's own export to a page.
EXPORT = """
import sys
import nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter

cells = [
    "import trackside\\nrun = trackside.judge('run')\\ntrial = trackside.open_trial('run')",
    "run",
    "run.findings",
    "run.findings[0]",
    "trial",
    "trial.heatmap()",
    "trial.heatmap('gradient_norm', steps=(100, 199))",
    "trial.heatmap('gradients')",
]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
NotebookClient(book, timeout=600, allow_errors=True, kernel_name="python3").execute()
page, _ = HTMLExporter(template_name="basic").from_notebook_node(book)
open("page.html", "w").write("<!doctype html><meta charset=utf-8>" + page)
"""


@pytest.fixture(scope="module")
def shown(notebook_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("displays")
    write_run(folder / "run", verdicts=(ISSUE,), tensors=(HOSTILE, "gradient/Net_fc.bias"))
    done = subprocess.run(
        [notebook_python, "-W", "ignore", "-c", EXPORT],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "page.html"


@pytest.fixture(scope="module")
def page(shown: Path, browser: Any) -> Any:
    opened = browser.new_context(offline=True).new_page()
    opened.set_default_timeout(HANGS_SECONDS * 1000)
    opened.on("dialog", lambda dialog: pytest.fail(f"a name became a script: {dialog.message}"))
    opened.goto(shown.as_uri())
    return opened


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("hardly judged, as most rules had too little data", id="the-run"),
        pytest.param("warning loss-spike, since step 123", id="a-finding"),
        pytest.param("2 tensors over steps", id="the-layers"),
        pytest.param(HOSTILE, id="a-hostile-name-as-it-is"),
    ],
)
def test_displays_hold_what_they_are_about(page: Any, text: str) -> None:
    shown = page.inner_text("body") + " ".join(image.get_attribute("alt") for image in page.query_selector_all("img"))
    assert text in shown


def test_a_cell_of_the_picture_has_the_color_of_its_number(page: Any) -> None:
    """Rows fall from bright to dark, and within a row from left to right: the norms do."""
    pictures = page.query_selector_all("img[alt^='Gradient norm']")
    assert len(pictures) == 2
    whole, part = (
        page.evaluate(
            """image => {
                const canvas = document.createElement("canvas");
                canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
                const context = canvas.getContext("2d");
                context.drawImage(image, 0, 0);
                const light = (x, y) => {
                    const [r, g, b] = context.getImageData(x, y, 1, 1).data;
                    return r + g + b;
                };
                const last = image.naturalWidth - 1;
                return {wide: image.naturalWidth, rows: [0, 1].map(y => [light(0, y), light(last, y)])};
            }""",
            picture,
        )
        for picture in pictures
    )
    (first, middle), (same, last) = whole["rows"]
    assert first > middle > last
    assert first > same > last
    # The second row begins with the number that the first one ends with. A canvas keeps colors times opacity, so that a
    # faded cell is off by one in each of three channels.
    assert abs(middle - same) <= 3
    (first, second), (third, fourth) = part["rows"]
    assert first > second > third > fourth
    assert part["wide"] == 100, "a step has a column"


def test_a_wrong_name_is_told_with_the_right_one(page: Any) -> None:
    assert "gradient_norm" in page.inner_text(".jp-OutputArea-output:last-of-type, .output_error, body")
    assert "ConfigurationError" in page.inner_text("body")


def test_nothing_is_loaded_from_elsewhere(page: Any) -> None:
    sources = [image.get_attribute("src") for image in page.query_selector_all("img")]
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert page.query_selector_all("script[src], link, iframe, [onerror]") == []
