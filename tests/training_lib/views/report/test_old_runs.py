"""Reports of runs that older versions recorded: made again, nothing is lost, and the old files stay as they are."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from tests.archives import unpack_archive
from tests.training_lib.views.report.charts.test_markup import seen
from trackside.trial.trial import open_trial
from trackside.views.report.gathered import gather
from trackside.views.report.markdown import markdown_of
from trackside.views.report.page import page_of

OLD = sorted(Path(__file__).with_name("golden").glob("run-*.tar.gz"))


@pytest.mark.parametrize("archive", OLD, ids=lambda path: path.name.partition(".tar")[0])
def test_an_old_run_is_reported_with_all_that_it_recorded(archive: Path, tmp_path: Path) -> None:
    unpack_archive(archive, tmp_path)
    run = tmp_path / "run"
    before = digests(run)
    data = gather(str(run), open_trial(str(run)), clock=lambda: 2e9)
    page = str(page_of(data))
    text = seen(page).text
    linked = re.findall(r'<a href="#([\w-]+)">', page.partition("</nav>")[0])
    assert linked == re.findall(r'<section id="([\w-]+)" aria', page), "a link of the page leads nowhere"
    assert linked[0] == "findings"
    assert data.steps == (0, 239)
    assert "CRITICAL  loss-spike" in text
    assert "Since step 121" in text
    assert "train.py:" in text, "the facts of the program"
    assert {title for title, _ in data.charts} >= {"Learning rate", "Gradient norm"}
    assert {one.title for one in data.heatmaps} >= {"Gradient norm", "Weight norm"}
    assert "Sequential_0.weight" in {one.name for one in data.distributions if len(one.steps)}
    assert len(data.rules) > 20
    assert "not judged" not in text.lower()
    assert "loss-spike" in markdown_of(data)
    assert digests(run) == before


def test_there_is_a_run_of_a_version() -> None:
    assert OLD


def digests(run: Path) -> dict[str, str]:
    return {
        path.relative_to(run).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(run.rglob("*"))
        if path.is_file()
    }
