"""unlike-gradients: one rank's own gradients, before they are averaged, are unlike those of the others."""

from __future__ import annotations

import math

from tests.training_lib.rules.tables import every_case
from trackside.contracts.run.recorded_names import LOCAL_GRADIENT
from trackside.rules.program.unlike_gradients import UnlikeGradients
from trackside.testing.rule_case import RuleCase, Statistics

W = "Net_fc.weight"
EVEN = [1.0, 1.3, 0.8, 1.1, 0.9, 1.0, 1.2, 0.7, 1.0, 0.9]


def ranks(*of_workers: list[float], weights: tuple[float, ...] = ()) -> Statistics:
    def column(rows: list[tuple[float, ...]]) -> dict[int, object]:
        return {20 * at: {f"worker_{rank}": v for rank, v in enumerate(row)} for at, row in enumerate(rows)}

    held = weights or tuple(3.0 for _ in of_workers)
    rows = list(zip(*of_workers, strict=True))
    return {LOCAL_GRADIENT: {"l2": column(rows)}, W: {"l2": column([held] * len(rows))}}


def times(factor: float) -> list[float]:
    return [factor * value for value in EVEN[::-1]]


NAN = [*EVEN[:6], math.nan, *EVEN[7:]]
NAMED = (LOCAL_GRADIENT,)
CASES = [
    RuleCase("a rank that breaks", recorded=ranks(EVEN, NAN), fires=NAMED),
    RuleCase("a rank without gradients", recorded=ranks(EVEN, [0.0] * 10), fires=NAMED),
    RuleCase("a rank of other data", recorded=ranks(EVEN, times(12)), fires=NAMED),
    RuleCase("a rank far below two", recorded=ranks(EVEN, EVEN, times(0.05)), fires=NAMED),
    RuleCase("all alike", recorded=ranks(EVEN, times(1))),
    RuleCase("all break", recorded=ranks(NAN, NAN)),
    RuleCase("no gradient anywhere", recorded=ranks([0.0] * 10, [0.0] * 10)),
    RuleCase("twice as large", recorded=ranks(EVEN, times(2))),
    RuleCase("now and then", recorded=ranks(EVEN, [*times(9)[:7], 1.0, *times(9)[8:]])),
    RuleCase("two looks without", recorded=ranks(EVEN, [*EVEN[:8], 0.0, 0.0])),
    RuleCase("parts of one model", recorded=ranks(EVEN, times(12), weights=(3.0, 5.0))),
    RuleCase("one process", recorded=ranks(times(12))),
]

test_cases = every_case(UnlikeGradients(), CASES)
