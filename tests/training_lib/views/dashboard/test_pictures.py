"""The pictures of pages in the docs show the parts, columns and numbers that the pages have today."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from docs.pictures import FACTS, TAGS, facts_in
from tests.training_lib.views.dashboard.runs import ISSUE, write_run
from tests.training_lib.views.dashboard.served import served

SHOWN: dict[str, list[str]] = json.loads(FACTS.read_text("utf-8"))


@pytest.mark.parametrize(("name", "path"), [("runs", "/"), ("dashboard", "/runs/a")])
def test_a_picture_names_what_its_page_names(tmp_path: Path, name: str, path: str) -> None:
    for run in "ab":  # which fail alike, as in the picture
        write_run(tmp_path / ".trackside/runs" / run, verdicts=(ISSUE,), has_weights=True)
    with served(tmp_path) as server:
        today = facts_in(server.page(path), TAGS[name])
    assert len(today) > 5
    assert today == SHOWN[name], "python -m docs.pictures"


@pytest.mark.parametrize(
    ("page", "tags", "facts"),
    [
        pytest.param("<th scope='col'>Run</th><th><a>Loss<span> ▲</span></a></th>", "th", ["Run", "Loss"], id="heads"),
        pytest.param("<h2>A</h2><h2>A</h2><dt>b &amp; c</dt>", "h2|dt", ["A", "b & c"], id="each-once"),
        pytest.param("<thead><p>x</p></thead>", "th", [], id="no-such-element"),
    ],
)
def test_facts_are_the_words_of_elements(page: str, tags: str, facts: list[str]) -> None:
    assert facts_in(page, tags) == facts
