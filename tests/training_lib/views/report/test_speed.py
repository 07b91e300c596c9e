"""The report's section on speed, from verdicts of several kinds."""

from __future__ import annotations

import html
import re

import pytest

from trackside.speed.performance.causes import Cause, Line
from trackside.speed.performance.verdict import Bottleneck, PerformanceVerdict, PhaseShare
from trackside.views.report.speed import speed_section

LINE = Line("train.py:5", "slow_collate", "time.sleep(0.02) # <script>", 0.98)
SLOW = Cause(
    "input-bound",
    "80 % of the step waits for a batch",
    0.8,
    8.0,
    "DataLoader at train.py:8",
    "num_workers=1",
    0.02,
    (LINE,),
)
BOUND = PerformanceVerdict(
    Bottleneck.INPUT,
    SLOW.headline,
    100,
    10.0,
    (PhaseShare("data", 0.08, 0.8, 100), PhaseShare("forward", 1.5, 15.0, 100)),
    (SLOW,),
)
BALANCED = PerformanceVerdict(
    Bottleneck.BALANCED, "no part can be shortened", 100, 5.0, (PhaseShare("data", 0.01, 0.2, 9),)
)
INCOMPLETE = PerformanceVerdict(Bottleneck.INCOMPLETE, "no step was timed", 0, 0.0, missing=("the phases of steps",))


def words_of(*verdicts: PerformanceVerdict) -> str:
    section = speed_section([(f"worker_{place}", verdict) for place, verdict in enumerate(verdicts)])
    assert "<script" not in section
    return html.unescape(re.sub(r"<[^>]+>", " ", section))


@pytest.mark.parametrize(
    ("verdict", "shown", "hidden"),
    [
        (BOUND, ["input-bound: 80 %", "8 s at most: a step takes 100 ms now, 20 ms then", "train.py:5 in slow_collate",
                 "num_workers=1", "80 ms", "1.5 s", "100 steps"], ["not measured", "also", "worker_0"]),
        (BALANCED, ["balanced: no part", "20 %"], ["gain", "change", "not measured"]),
        (INCOMPLETE, ["incomplete: no step", "not measured: the phases of steps"], ["gain", "Phase", "steps of"]),
    ],
)  # fmt: skip
def test_a_verdict_is_shown_with_what_it_has(verdict: PerformanceVerdict, shown: list[str], hidden: list[str]) -> None:
    words = words_of(verdict)
    assert [one for one in shown if one not in words] == []
    assert [one for one in hidden if one in words] == []


def test_a_share_above_one_fills_its_bar_and_no_more() -> None:
    section = speed_section([("worker_0", BOUND)])
    assert re.findall(r'value="([\d.]+)"', section) == ["0.800", "1.000"]


def test_of_many_processes_the_slowest_are_shown_and_the_rest_is_counted() -> None:
    words = words_of(BOUND, *[BALANCED] * 5)
    assert "worker_0: input-bound" in words
    assert "worker_4" not in words
    assert "2 faster processes left out" in words
