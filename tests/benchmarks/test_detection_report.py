"""The report on the rules' quality: it can be ended and started again, and keeps what was said of a run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.detection import report
from benchmarks.engine.judge import Alarm
from trackside.contracts.cause import Cause
from trackside.contracts.verdict import Severity

ALARM = Alarm("exploding-tensor", Severity.CRITICAL, 4, causes=(Cause.NON_FINITE_DATA,), message="NaN.")
CHOICE = ["--split", "tune", "--seeds", "1", "--only", "cancer-logistic", "--processes", "1", "--presets", "calibrated"]


def test_it_goes_on_where_it_was_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# By hand\n\n{report.MARKER}\n")
    choice = [*CHOICE, "--root", str(tmp_path), "--write", str(page)]
    assert report.main(choice) == 0
    assert capsys.readouterr().err.startswith("1 trained")
    assert "1 of 1 runs of the split `tune` (1 clean, 0 faulty, 1 seeds of each)" in page.read_text()

    (kept,) = tmp_path.glob("*/clean/*/judged-calibrated.json")
    said = json.loads(kept.read_text())
    kept.write_text(json.dumps({**said, "judged": {**said["judged"], "alarms": [asdict(ALARM)]}}))
    assert report.main(choice) == 0
    assert capsys.readouterr().err.startswith("0 trained")
    again = page.read_text()
    assert "alarmed at critical level: 1/1" in again  # what was kept holds

    for damaged in ("{", json.dumps({"key": "of other rules", "judged": said["judged"]})):
        kept.write_text(damaged)
        assert report.main(choice) == 0
        assert "alarmed at critical level: 0/1" in page.read_text()
