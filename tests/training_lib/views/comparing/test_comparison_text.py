"""The verdict on two runs in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from trackside.views.comparing.comparison import Comparison, LossDifference, PhaseDifference
from trackside.views.comparing.comparison_text import speed_lines, verdict_line

JUDGED: dict[str, Any] = {"is_judged_a": True, "is_judged_b": True}
TOGETHER = LossDifference("loss", 500, noise=0.1)
PARTED = LossDifference("loss", 500, noise=0.1, parts_from=301)


def compared(*losses: LossDifference, **fields: Any) -> Comparison:
    return Comparison("a", "b", (), losses, **fields)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        pytest.param(compared(), "", id="nothing-known"),
        pytest.param(compared(issues_a={"x": 1}), "", id="not-judged"),
        pytest.param(
            compared(issues_a={"x": 1}, is_judged_a=True),
            "A went wrong: x, since step 1. B is not judged.",
            id="one-judged",
        ),
        pytest.param(
            compared(is_judged_b=True), "No rule found an issue in B. A is not judged.", id="the-other-judged"
        ),
        pytest.param(compared(**JUDGED), "Neither run has an issue.", id="clean"),
        pytest.param(
            compared(PARTED, issues_b={"x": 302, "y": 301}, **JUDGED),
            "Only B went wrong: y, since step 301, and 1 more. The losses part at step 301.",
            id="one-failed",
        ),
        pytest.param(compared(issues_a={"x": 7}, **JUDGED), "Only A went wrong: x, since step 7.", id="the-other"),
        pytest.param(
            compared(issues_both={"x": (1, 2)}, issues_a={"y": 1}, **JUDGED), "Both runs have an issue.", id="both"
        ),
        pytest.param(
            compared(issues_a={"x": 1}, issues_b={"y": 2}, **JUDGED),
            "Both runs have an issue, and not the same one.",
            id="each-its-own",
        ),
        pytest.param(compared(TOGETHER, **JUDGED), "Neither run has an issue. The losses stay together.", id="alike"),
        pytest.param(compared(LossDifference("loss", 3)), "", id="too-few-steps"),
        pytest.param(compared(pace_a=100.0, pace_b=104.0), "By the clock both are as fast.", id="the-same-pace"),
        pytest.param(compared(pace_a=100.0, pace_b=50.0), "By the clock B is 50% slower.", id="slower-without-phases"),
        pytest.param(
            compared(
                pace_a=100.0,
                pace_b=159.0,
                phases=(PhaseDifference("data", 0.128, 0.008), PhaseDifference("forward", 0.001, 0.2)),
            ),
            "By the clock B is 59% faster, most of all in data: 128 ms a step in A, 8 ms in B.",
            id="faster-in-a-phase",
        ),
        pytest.param(
            compared(pace_a=100.0, pace_b=50.0, phases=(PhaseDifference("capture", 0.1, 9.0),)),
            "By the clock B is 50% slower.",
            id="our-own-cost-is-no-phase-of-the-training",
        ),
        pytest.param(
            compared(pace_a=100.0, pace_b=10.0, phases=(PhaseDifference("data", None, 0.1),)),
            "By the clock B is 90% slower.",
            id="a-phase-that-one-did-not-measure",
        ),
    ],
)
def test_the_verdict_comes_first(found: Comparison, says: str) -> None:
    assert verdict_line(found) == says


@pytest.mark.parametrize(
    ("phases", "lines"),
    [
        pytest.param((), [], id="nothing-measured"),
        pytest.param(
            (PhaseDifference("data", 0.1, 0.05), PhaseDifference("optimizer", None, 0.002)),
            [
                "speed: A input-bound, B compute-bound",
                "  data: A 100 ms a step, B 50 ms (-50%)",
                "  optimizer: A - a step, B 2 ms",
            ],
            id="two-phases",
        ),
    ],
)
def test_each_phase_is_compared(phases: tuple[PhaseDifference, ...], lines: list[str]) -> None:
    found = compared(speed_a="input-bound", speed_b="compute-bound", phases=phases)
    assert list(speed_lines(found)) == lines
