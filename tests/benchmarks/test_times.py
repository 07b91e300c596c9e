"""The tables of docs/times.md: medians, fastest and slowest of what was measured, and a failure is not left out."""

from __future__ import annotations

import pytest

from benchmarks.engine.pages import replaced
from benchmarks.times import BUSY, END, FAULTY, HEALTHY, PAGE, QUIET, START, STOP, DemoRun, Measured, tables


def demo(seconds: float, stop: float) -> DemoRun:
    hops = {"tensors reach S3": stop / 2, STOP: stop}
    return DemoRun(seconds, 2.0, {FAULTY: hops, HEALTHY: {"training is complete": stop + 1}})


MEASURED = Measured(
    {QUIET: [demo(30, 9), demo(40, 11), demo(31, 10)], BUSY: [demo(70, 20), None]}, {"`make drill`": [16.0]}, "Here."
)


@pytest.mark.parametrize(
    "row",
    [
        "| `make demo`, quiet | 3 of 3 | 31.0 s | 30.0 s | 40.0 s |",
        "| `make demo`, both cores busy | 1 of 2 | 70.0 s | 70.0 s | 70.0 s |",
        "| of it from fault to stopped process | 3 of 3 | 10.0 s | 9.0 s | 11.0 s |",
        "| `make drill` | 1 of 1 | 16.0 s | 16.0 s | 16.0 s |",
        "| seconds since the job was created | quiet | both cores busy |",
        "| training is stopped | 10.0 (9.0 to 11.0) | 20.0 (20.0 to 20.0) |",
        "| training is complete | 11.0 (10.0 to 12.0) | 21.0 (21.0 to 21.0) |",
    ],
)
def test_a_table_has(row: str) -> None:
    assert row in tables(MEASURED).splitlines()


def test_a_failed_run_is_counted_and_fails_the_whole() -> None:
    assert not MEASURED.all_passed
    assert Measured({QUIET: MEASURED.demos[QUIET]}, {}, "").all_passed
    assert "| `make demo`, quiet | 0 of 1 | | | |" in tables(Measured({QUIET: [None]}, {}, ""))


def test_the_page_has_the_markers() -> None:
    replaced(PAGE.read_text(encoding="utf-8"), "new", begin=START, end=END)
