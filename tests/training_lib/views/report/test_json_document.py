"""report.json holds every number that the page shows: each run below is walked, number by number."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from tests.archives import unpack_archive
from tests.training_lib.views.dashboard.runs import HOSTILE, ISSUE, NODE, write_run
from tests.training_lib.views.report.model.boosted import OBJECTIVES, boost
from trackside.contracts.run_layout import REPORT_JSON_KEY, REPORT_JUNIT_KEY, REPORT_MARKDOWN_KEY, RunLocation
from trackside.storage.local import LocalStore
from trackside.trial.trial import open_trial
from trackside.views.report.at_the_end import store_report
from trackside.views.report.gathered import ReportData, gather
from trackside.views.report.json_document import report_document
from trackside.views.report.page import page_of

OLD = sorted(Path(__file__).with_name("golden").glob("run-*.tar.gz"))
NUMBER = re.compile(r"\d[\d,.]*")


class Page(HTMLParser):
    """The numbers that a page shows: those of its texts outside of drawings, and those behind its drawings."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.drawn: list[Any] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in {"svg", "style", "script", "head"}
        for name, value in attrs:
            if name in {"data-points", "data-values", "data-edges"}:
                self.drawn.append(json.loads(value or "[]"))

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"svg", "style", "script", "head"}

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words += NUMBER.findall(data)


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield name
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def data_of(run: Path) -> ReportData:
    return gather(str(run), open_trial(str(run)), clock=lambda: 2e9)


def write_faulty(folder: Path) -> None:
    write_run(folder, verdicts=(ISSUE,), tensors=(HOSTILE, "gradient/a"), has_weights=True, machines=("algo-1", NODE))


def write_old(folder: Path) -> None:
    unpack_archive(OLD[0], folder.parent / "old")
    (folder.parent / "old" / "run").rename(folder)


def write_empty(folder: Path) -> None:
    write_run(folder, steps=1)


RUNS = [
    pytest.param(write_faulty, id="hostile-names-machines-a-number-that-is-none"),
    pytest.param(write_old, id="of-an-older-version"),
    pytest.param(write_empty, id="one-step"),
    *(
        pytest.param(lambda folder, of=objective: boost(folder, of, rounds=6), id=objective)
        for objective in ("binary:logistic", "multi:softprob", "reg:squarederror")
        if objective in OBJECTIVES
    ),
]


@pytest.mark.parametrize("write", RUNS)
def test_each_number_of_the_page_is_in_the_document(write: Any, tmp_path: Path) -> None:
    write(tmp_path / "run")
    data = data_of(tmp_path / "run")
    page = Page()
    page.feed(page_of(data))
    document = json.loads(json.dumps(report_document(data), allow_nan=False))
    known = list(leaves(document))
    texts = {word for value in known if isinstance(value, str) for word in NUMBER.findall(value)}
    footer = set(NUMBER.findall(document["trackside_version"]))
    missing = {word for word in page.words if word not in texts and word.rstrip(".,") not in texts | footer}
    assert not missing
    assert page.words

    drawn = np.array([value for value in leaves(page.drawn) if isinstance(value, (int, float))], np.float64)
    numbers = np.unique([float(v) for v in known if isinstance(v, (int, float)) and not isinstance(v, bool)])
    places = np.clip(np.searchsorted(numbers, drawn), 1, len(numbers) - 1)
    off = np.minimum(np.abs(numbers[places] - drawn), np.abs(numbers[places - 1] - drawn))
    assert (off <= 0.005 * np.abs(drawn)).all(), "behind drawings numbers have three digits or four"
    assert all(math.isfinite(value) for value in known if isinstance(value, float))


def test_texts_and_tables_stand_in_their_sections(tmp_path: Path) -> None:
    write_faulty(tmp_path / "run")
    sections = {one["section"]: one for one in report_document(data_of(tmp_path / "run"))["sections"]}
    assert list(sections)[:2] == ["summary", "findings"]
    assert any(HOSTILE in cell for table in sections["findings"]["tables"] for row in table for cell in row)
    (rules,) = sections["rules"]["tables"]
    assert rules[0] == ["State", "Rule", "Steps", "Reason"]
    assert rules[1][1] == "vanishing-gradient"


def test_it_lies_beside_the_report_at_the_end_of_a_run(tmp_path: Path) -> None:
    write_faulty(tmp_path / "run")
    run = RunLocation(str(tmp_path / "run"))
    store_report(run, clock=lambda: 1.8e9, stores=LocalStore)
    output = LocalStore(run.rule_output)
    assert json.loads(output.get(REPORT_JSON_KEY))["schema_version"] == 1
    assert "vanishing-gradient" in output.get(REPORT_MARKDOWN_KEY).decode()
    (suite,) = ElementTree.fromstring(output.get(REPORT_JUNIT_KEY))  # noqa: S314 - of our own
    (failed,) = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == "vanishing-gradient"
