"""The report of what was lost: a round trip, and files that are none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.contracts.errors import RecordError
from trackside.records.capture_report import CaptureReport, LostStep, decode_report, encode_report

counts = st.integers(0, 2**53)
reports = st.builds(
    CaptureReport, counts, counts, st.lists(st.builds(LostStep, counts, st.text(max_size=20)), max_size=5).map(tuple)
)


@given(reports)
def test_a_report_survives(report: CaptureReport) -> None:
    assert decode_report(encode_report(report), key="k") == report


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"saved_steps":-1,"lost_steps":0,"lost":[]}', b"\xff"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match="k, byte"):
        decode_report(data, key="k")
