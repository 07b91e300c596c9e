"""off-policy-rollouts: sampler and trainer disagree, rollouts are old, ratios are clipped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training_lib.language.rules.courses import logged, noisy
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import (
    CLIPPED_SHARE,
    LARGEST_GAP,
    SAMPLER_GAP,
    SAMPLER_KL,
    STALENESS,
    UPDATE_KL,
)
from trackside.language.rules.off_policy_rollouts import OffPolicyRollouts
from trackside.testing.rule_case import RuleCase, assert_case

AGES = [float(step % 40) for step in range(120)]
NO_AGE = [0.0] * 120


def case(name: str, numbers: dict[Any, Any], *fires: Any) -> RuleCase:
    return RuleCase(name, recorded=logged(numbers), fires=tuple(number.recorded for number in fires))


FIRES = [
    (
        case("another temperature", {SAMPLER_GAP: noisy(0.5, 0.5), STALENESS: NO_AGE}, SAMPLER_GAP),
        Cause.SAMPLER_DIFFERS,
    ),
    (case("divergence of prime-rl", {SAMPLER_KL: noisy(0.3, 0.3)}, SAMPLER_KL), Cause.SAMPLER_DIFFERS),
    (
        case("the older the further", {SAMPLER_GAP: [0.02 * x for x in AGES], STALENESS: AGES}, SAMPLER_GAP, STALENESS),
        Cause.STALE_ROLLOUTS,
    ),
    (case("old alone", {STALENESS: noisy(40, 40)}, STALENESS), Cause.STALE_ROLLOUTS),
    (
        case("half of the ratios are clipped", {CLIPPED_SHARE: noisy(0.5, 0.6)}, CLIPPED_SHARE),
        Cause.LEARNING_RATE_TOO_HIGH,
    ),
    (case("a few tokens far apart", {LARGEST_GAP: noisy(12, 14)}, LARGEST_GAP), Cause.SAMPLER_DIFFERS),
    (case("updates go far", {UPDATE_KL: noisy(0.1, 0.8)}, UPDATE_KL), Cause.LEARNING_RATE_TOO_HIGH),
]
SILENT = [
    case("half precision", {SAMPLER_GAP: noisy(0.015, 0.02, noise=0.002), SAMPLER_KL: noisy(0.001, 0.001, noise=1e-4)}),
    case(
        "a few updates old", {STALENESS: [float(k % 4) for k in range(120)], SAMPLER_GAP: noisy(0.05, 0.05, noise=0.01)}
    ),
    case("the largest of many tokens", {LARGEST_GAP: noisy(1.5, 3)}),
    case("a fifth is clipped", {CLIPPED_SHARE: noisy(0.1, 0.2)}),
    case("a few broken steps", {SAMPLER_GAP: [*noisy(0.02, 0.02, 115, noise=0.001), 3.0, 3.0, 0.02, 0.02, 0.02]}),
    case("the usual updates", {UPDATE_KL: noisy(0.005, 0.02, noise=0.003)}),
    case("too few logs", {SAMPLER_GAP: [0.5] * 8}),
]


@pytest.mark.parametrize(("case", "cause"), FIRES, ids=str)
def test_it_fires_and_suspects(case: RuleCase, cause: Cause) -> None:
    rule = OffPolicyRollouts()
    findings = assert_case(rule, case)
    assert [one.cause for one in rule.suspicions(findings, case.window)] == [cause]
    assert rule.sentence(findings).endswith(".")


test_it_is_silent = every_case(OffPolicyRollouts(), SILENT)
