"""The tutorial and the picture of the card: they show what their commands print today."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from docs import pictures, tutorial
from trackside.cli.terminal.views.card import VerdictCard
from trackside.contracts.issue_group import group_of_one
from trackside.runs.source_text import SourceText
from trackside.runs.verdict_feed import read_verdicts

SHOWN = tutorial.PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def walked() -> Iterator[tuple[str, Path]]:
    """Yield the page as its commands print it now, and their folder, with the script of the first run."""
    with tempfile.TemporaryDirectory() as place:  # a short name: a long one is broken into lines
        folder = Path(place).resolve()
        now = tutorial.written_again(SHOWN, folder)
        script = folder / "train.py"
        script.write_text(tutorial.first_file(SHOWN), encoding="utf-8")
        os.utime(script, (1, 1))  # as if it had never been mended
        yield now, folder


def test_its_commands_print_what_it_shows(walked: tuple[str, Path]) -> None:
    assert tutorial.shape(walked[0]) == tutorial.shape(SHOWN), "python -m docs.tutorial"


@pytest.mark.parametrize(
    ("shown", "command"),
    [
        pytest.param(pictures.first_card(SHOWN), "python -m docs.tutorial", id="page"),
        pytest.param(
            pictures.first_card("\n".join(pictures.lines_in((pictures.IMAGES / "card.svg").read_text("utf-8")))),
            "python -m docs.pictures card",
            id="picture",
        ),
    ],
)
def test_its_card_is_the_one_of_today(
    walked: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, shown: str, command: str
) -> None:
    # The first card that is printed depends on how far the training is by then: this is the verdict that it is about.
    monkeypatch.chdir(walked[1])
    run = sorted((walked[1] / ".trackside/runs").iterdir())[0]
    verdicts = read_verdicts((run / "rule-output/verdicts.jsonl").read_bytes())
    first = next(one for one in verdicts if one.configuration_name == "gradients-not-cleared" and one.findings)
    console = Console(width=pictures.COLUMNS, file=io.StringIO(), color_system=None, record=True)
    console.print(VerdictCard(group_of_one(first), sources=SourceText(str(run))))
    assert tutorial.shape(console.export_text()) == tutorial.shape(shown), command


PAGE = """<!-- file: a.py -->
```python
print("one", 1)
```
<!-- replace: a.py: "one" by "two" -->
<!-- runs -->
```console
$ python a.py
{output}
```
"""


@pytest.mark.parametrize(
    ("shown", "is_current"),
    [
        pytest.param("two 1", True, id="what-it-prints"),
        pytest.param("two 2", True, id="another-number"),
        pytest.param("one 1", False, id="before-the-change"),
        pytest.param("two 1\nand more", False, id="more"),
    ],
)
def test_a_page_that_shows_something_else_is_out_of_date(tmp_path: Path, shown: str, is_current: bool) -> None:
    now = tutorial.written_again(PAGE.format(output=shown), tmp_path)
    assert now == PAGE.format(output="two 1")
    assert (tutorial.shape(now) == tutorial.shape(PAGE.format(output=shown))) == is_current


def test_of_a_watched_run_the_last_line_counts() -> None:
    shown = "```console\n$ trackside run -- python a.py\nat first\ntrackside: 1 problem\n$ trackside runs\na\n```\n"
    assert tutorial.shape(shown) == tutorial.shape(shown.replace("at first\n", "a card\n\nand another\n"))
    assert tutorial.shape(shown) != tutorial.shape(shown.replace("1 problem", "no issue"))
