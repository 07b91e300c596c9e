"""The report of what was lost: a round trip, and files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.records.capture_report import CaptureReport, LostStep, decode_report, encode_report

GOLDEN = Path(__file__).parent / "golden" / "capture-report.json"
REPORT = CaptureReport(
    120,
    2,
    (
        LostStep(17, "storage is slower than what is to be saved"),
        LostStep(2**40, "No space left on device: \u201eevents/\u2026\u201c"),
    ),
)

counts = st.integers(0, 2**53)
reports = st.builds(
    CaptureReport, counts, counts, st.lists(st.builds(LostStep, counts, st.text(max_size=20)), max_size=5).map(tuple)
)


def test_version_1_never_changes() -> None:
    assert decode_report(GOLDEN.read_bytes(), key="k") == REPORT
    assert encode_report(REPORT) == GOLDEN.read_bytes()


def test_fields_that_are_not_known_are_passed_over() -> None:
    data = GOLDEN.read_bytes().replace(b'"step": 17', b'"step": 17, "bytes": 3').replace(b"{", b'{"later": [], ', 1)
    assert decode_report(data, key="k") == REPORT


@given(reports)
def test_a_report_survives(report: CaptureReport) -> None:
    assert decode_report(encode_report(report), key="k") == report


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"saved_steps":-1,"lost_steps":0,"lost":[]}', b"\xff"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match="k, byte"):
        decode_report(data, key="k")
