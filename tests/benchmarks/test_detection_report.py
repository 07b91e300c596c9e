"""The report on the rules' quality: it can be ended and started again, and leaves alone what it did not write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.detection import report
from benchmarks.detection.card import Judged, Told
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Severity

JUDGED = Judged(
    name="wine-mlp/nan-in-data/0",
    program="wine-mlp",
    kind="nan-in-data",
    causes=frozenset({Cause.NON_FINITE_DATA}),
    effect_step=0,
    told=(Told("exploding-tensor", Severity.CRITICAL, 4, "a", (Cause.NON_FINITE_DATA,), "NaN."),),
    not_evaluated=("overfit",),
    crashed=(),
    seconds=0.5,
)
CHOICE = ["--split", "tune", "--seeds", "1", "--only", "cancer-logistic", "--processes", "1", "--presets", "calibrated"]


def test_what_was_said_of_a_run_survives() -> None:
    document = json.loads(json.dumps(report.to_document(JUDGED)))
    assert report.from_document(document) == JUDGED


@pytest.mark.parametrize(
    ("before", "kept"),
    [
        pytest.param(None, "# How well the rules do", id="no-file"),
        pytest.param("# By hand\n\nWords.\n", "# By hand\n\nWords.", id="no-marker"),
        pytest.param(f"# By hand\n\n{report.MARKER}\nold tables\n", "# By hand", id="written-before"),
    ],
)
def test_words_above_the_marker_stay(tmp_path: Path, before: str | None, kept: str) -> None:
    page = tmp_path / "page.md"
    if before is not None:
        page.write_text(before)
    report.write(page, [report.MARKER, "", "new tables"])
    assert page.read_text() == f"{kept}\n\n{report.MARKER}\n\nnew tables\n"


def test_it_goes_on_where_it_was_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = [*CHOICE, "--root", str(tmp_path), "--write", str(tmp_path / "page.md")]
    assert report.main(choice) == 0
    assert capsys.readouterr().err.startswith("1 trained")
    page = (tmp_path / "page.md").read_text()
    assert "1 of 1 runs of the split `tune` (1 clean, 0 faulty, 1 seeds of each)" in page

    (kept,) = tmp_path.glob("*/clean/*/judged-calibrated.json")
    said = json.loads(kept.read_text())
    told = report.to_document(JUDGED)["told"]
    kept.write_text(json.dumps({**said, "judged": {**said["judged"], "told": told}}))
    assert report.main(choice) == 0
    assert capsys.readouterr().err.startswith("0 trained")
    again = (tmp_path / "page.md").read_text()
    assert "alarmed at critical level: 1/1" in again  # what was kept holds

    for damaged in ("{", json.dumps({"key": "of other rules", "judged": said["judged"]})):
        kept.write_text(damaged)
        assert report.main(choice) == 0
        assert (tmp_path / "page.md").read_text() == page
