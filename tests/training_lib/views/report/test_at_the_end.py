from __future__ import annotations

import json
from pathlib import Path

import pytest

from trackside.contracts.errors import StorageUnavailableError
from trackside.contracts.run_layout import REPORT_KEY, RULE_OUTPUT, RunLocation, old_report_key
from trackside.storage.local import LocalStore
from trackside.testing.fake_trial import end_run, write_collections, write_tensors
from trackside.views.report.at_the_end import store_report


class FullStore(LocalStore):
    """Takes nothing."""

    def put(self, key: str, data: bytes | bytearray | memoryview) -> None:
        raise StorageUnavailableError("the disk is full")


@pytest.fixture
def run(tmp_path: Path) -> RunLocation:
    place = RunLocation(str(tmp_path / "a"))
    tensors = LocalStore(place.tensors)
    write_collections(tensors)
    write_tensors(tensors, 0, {"CrossEntropyLoss_output_0": 2.0})
    end_run(tensors)
    return place


def test_it_lies_beside_the_verdicts(run: RunLocation) -> None:
    store_report(run, clock=lambda: 1.8e9, stores=LocalStore)
    page = LocalStore(run.rule_output).get(REPORT_KEY).decode()
    assert page.startswith("<!DOCTYPE html>")
    assert "Written on 2027-01-15 08:00 UTC" in page


def test_it_lies_at_the_key_of_the_original_where_the_profiler_report_does(run: RunLocation) -> None:
    output, old = LocalStore(run.rule_output), "ProfilerReport-1800000000/profiler-output/profiler-report"
    for rule in ("BatchSize", "Dataloader"):
        output.put(old_report_key(rule, started_at=1_800_000_000), b"{}")
    output.put("ProfilerReport-of-mine/notes.json", b"{}")
    store_report(run, clock=lambda: 1.8e9, stores=LocalStore)
    assert output.get(f"{old}.html") == output.get(REPORT_KEY)
    others = [key for key in output.list("ProfilerReport-") if key.endswith((".html", ".ipynb"))]
    assert others == [f"{old}.html", f"{old}.ipynb"]
    cells = json.loads(output.get(f"{old}.ipynb"))["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert f"RUN = {run.uri!r}" in cells[1]["source"]


def test_a_store_that_takes_nothing_is_logged_and_harms_nobody(
    run: RunLocation, caplog: pytest.LogCaptureFixture
) -> None:
    def stores(uri: str) -> LocalStore:
        return FullStore(uri) if uri.endswith(RULE_OUTPUT) else LocalStore(uri)

    store_report(run, clock=lambda: 1.8e9, stores=stores)
    assert caplog.messages == ["report.html was not written: the disk is full"]
