"""growing-attention: the logits of attention grow far beyond their recent size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.training_lib.rules.columns import along
from tests.training_lib.rules.tables import every_case
from trackside.contracts.run.recorded_names import ATTENTION_ENTROPY, ATTENTION_LOGIT
from trackside.contracts.verdict import Severity
from trackside.rules.tensors.growing_attention import GrowingAttention
from trackside.testing.rule_case import RuleCase, assert_case

RATE = "hyperparameters/AdamW/group_0/lr"
_NOISE = np.random.default_rng(1).normal(0, 1, 1000)


def calm(count: int, *, size: float = 12.0, spread: float = 0.05) -> list[float]:
    return [size * (1 + spread * float(_NOISE[k])) for k in range(count)]


def growing(count: int, *, size: float = 12.0) -> list[float]:
    return [size * 1.3 ** (k + 1) for k in range(count)]


def case(
    name: str,
    logits: Sequence[float],
    entropies: Sequence[float],
    *,
    fires: bool = False,
    rates: Sequence[float] = (),
    every: int = 1,
) -> RuleCase:
    recorded = {
        "CrossEntropyLoss_output_0": {"mean": along([2.4] * len(logits), every=every)},
        ATTENTION_LOGIT: {"mean": along(logits, every=every)},
        ATTENTION_ENTROPY: {"mean": along(entropies, every=every)},
    }
    if rates:
        recorded[RATE] = {"mean": along(rates, every=every)}
    return RuleCase(name, recorded=recorded, fires=(ATTENTION_LOGIT,) if fires else ())


EVEN = calm(200, size=0.6)
FALLING = [0.4 * 0.8**k for k in range(6)]
CASES = [
    case("runs away", calm(200) + growing(6), EVEN + FALLING, fires=True),
    case("few looks", calm(200) + growing(6), EVEN + FALLING, every=10, fires=True),
    case("one key is all", calm(200) + growing(6), calm(190, size=0.6) + [0.0] * 16, fires=True),
    case("attention as even as ever", calm(200) + growing(6), EVEN + [0.6] * 6),
    case("learns to look", [*np.geomspace(0.5, 20, 200)], [*np.geomspace(1, 0.3, 200)]),
    case("where it has been before", calm(60) + [40.0] * 20 + calm(120) + [30.0] * 4, EVEN + FALLING[:4]),
    case("one high look", [*calm(200), 60.0, 12.0, 12.0], EVEN + FALLING[:3]),
    case("noisy", calm(220, spread=0.3), calm(220, size=0.6, spread=0.2)),
    case("too few looks", calm(60) + growing(6), calm(60, size=0.6) + FALLING),
]

test_cases = every_case(GrowingAttention(), CASES)


@pytest.mark.parametrize(("factor", "severity"), [(1.0, Severity.INFO), (1.3, Severity.WARNING)])
def test_a_risen_rate_makes_it_a_warning(factor: float, severity: Severity) -> None:
    rates = [1e-3] * 200 + [1e-3 * factor ** (k + 1) for k in range(6)]
    row = case("with a rate", calm(200) + growing(6), EVEN + FALLING, fires=True, rates=rates)
    findings = assert_case(GrowingAttention(), row)
    assert GrowingAttention().severity_of(findings) is severity
