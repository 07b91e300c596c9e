"""reward-without-progress: a reward that falls, stays, or says nothing; silent where a task is solved or just hard."""

from __future__ import annotations

from typing import Any

import pytest

from tests.training_lib.language.rules.courses import joined, kept, logged, noisy, to_a_level
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import (
    ANSWER_LENGTH,
    ENTROPY,
    EQUAL_GROUPS,
    KL,
    REWARD,
    REWARD_SPREAD,
    SOLVED_GROUPS,
    UNSOLVED_GROUPS,
)
from trackside.language.rules.reward_without_progress import RewardWithoutProgress
from trackside.testing.rule_case import RuleCase, assert_case

MEAN = REWARD.recorded
OPEN = {ENTROPY: noisy(1.5, 1.4), ANSWER_LENGTH: noisy(200, 210)}  # answers differ


def case(name: str, numbers: dict[Any, Any], *fires: str, every: int = 1) -> RuleCase:
    return RuleCase(name, recorded=logged(numbers, every=every), fires=fires)


FIRES = [
    (case("it falls from the start", {REWARD: noisy(0.4, 0.1), REWARD_SPREAD: noisy(0.2, 0.2)}, MEAN), Cause.LOSS_SIGN),
    (case("it falls, logged every tenth step", {REWARD: noisy(0.4, 0.1, 60)}, MEAN, every=10), Cause.LOSS_SIGN),
    (
        case(
            "it fell at once, and stays",
            {REWARD: to_a_level(0.2, 0.0, 160, noise=0.01), REWARD_SPREAD: kept(0.2, 160)},
            MEAN,
        ),
        Cause.LOSS_SIGN,
    ),
    (case("below zero it falls", {REWARD: noisy(-1, -3)}, MEAN), Cause.LOSS_SIGN),
    (
        case("it had risen and broke off", {REWARD: joined(noisy(0.1, 0.8, 80), noisy(0.2, 0.1, 40))}, MEAN),
        Cause.LEARNING_RATE_TOO_HIGH,
    ),
    (
        case("a verifier that takes all", {REWARD: kept(1.0), EQUAL_GROUPS: kept(1.0), **OPEN}, MEAN),
        Cause.UNINFORMATIVE_REWARD,
    ),
    (
        case("a verifier that takes none", {REWARD: kept(0.0), EQUAL_GROUPS: kept(1.0)}, MEAN),
        Cause.UNINFORMATIVE_REWARD,
    ),
    (
        case(
            "all are accepted, as groups say",
            {REWARD: kept(1.0), SOLVED_GROUPS: kept(1.0), UNSOLVED_GROUPS: kept(0.0), **OPEN},
            MEAN,
        ),
        Cause.UNINFORMATIVE_REWARD,
    ),
    (case("the same number each time, no groups", {REWARD: kept(1.0), **OPEN}, MEAN), Cause.UNINFORMATIVE_REWARD),
    (
        case(
            "rewards of other answers: the policy changes",
            {REWARD: noisy(0.3, 0.3), REWARD_SPREAD: noisy(0.3, 0.3), KL: noisy(0, 2), ENTROPY: noisy(2, 0.5)},
            MEAN,
        ),
        Cause.UNRELATED_REWARD,
    ),
    (
        case(
            "nothing moves",
            {REWARD: noisy(0.3, 0.3), REWARD_SPREAD: noisy(0.3, 0.3), KL: noisy(0, 0, noise=1e-4)},
            MEAN,
        ),
        Cause.LEARNING_RATE_TOO_LOW,
    ),
    (
        case("chance is rewarded", {REWARD: noisy(0.3, 0.1), ENTROPY: to_a_level(1.0, 2.5)}, ENTROPY.recorded),
        Cause.ENTROPY_TOO_HIGH,
    ),
]
SILENT = [
    case("it rises", {REWARD: noisy(0.1, 0.8), REWARD_SPREAD: noisy(0.2, 0.1)}),
    case("it rises to a level", {REWARD: to_a_level(0.1, 0.8), EQUAL_GROUPS: to_a_level(0, 0.9)}),
    case("solved: equal groups of equal answers", {REWARD: kept(1.0), EQUAL_GROUPS: kept(1.0), ENTROPY: kept(0.001)}),
    case(
        "became solved: the reward had risen",
        {REWARD: to_a_level(0.2, 1.0, noise=0.005), EQUAL_GROUPS: kept(1.0), **OPEN},
    ),
    case(
        "sparse: few groups have a right answer",
        {REWARD: noisy(0.01, 0.03, noise=0.01), EQUAL_GROUPS: kept(0.9), **OPEN},
    ),
    case("a stricter judge: it falls once and rises again", {REWARD: joined(noisy(0.1, 0.8, 60), noisy(0.4, 0.7, 60))}),
    case(
        "some groups solved, some not yet",
        {REWARD: noisy(0.4, 0.45), SOLVED_GROUPS: kept(0.4), UNSOLVED_GROUPS: kept(0.4), **OPEN},
    ),
    case(
        "sparse: most steps have no right answer, and one in eight a few",
        {
            REWARD: [0.06 * (k % 8 == 3) for k in range(120)],
            EQUAL_GROUPS: [1 - 0.25 * (k % 8 == 3) for k in range(120)],
            **OPEN,
        },
    ),
    case("noise", {REWARD: noisy(0.5, 0.5, 60, noise=0.3)}),
    case("too few logs", {REWARD: noisy(0.5, 0.1, 20)}),
    case("it rises slowly under much noise", {REWARD: noisy(0.2, 0.5, noise=0.1), REWARD_SPREAD: kept(0.5)}),
    case("of one answer to each prompt nothing is known of groups", {REWARD: noisy(0.2, 0.6)}),
]


@pytest.mark.parametrize(("case", "cause"), FIRES, ids=str)
def test_it_fires_and_suspects(case: RuleCase, cause: Cause) -> None:
    rule = RewardWithoutProgress()
    findings = assert_case(rule, case)
    assert next(iter(rule.suspicions(findings, case.window))).cause is cause
    assert rule.sentence(findings).endswith(".")


test_it_is_silent = every_case(RewardWithoutProgress(), SILENT)


def test_groups_that_are_all_right_are_told_from_those_all_wrong() -> None:
    for solved, word in ((1.0, "all are accepted"), (0.0, "none is accepted")):
        groups = {SOLVED_GROUPS: kept(solved), UNSOLVED_GROUPS: kept(1 - solved)}
        told = case(word, {REWARD: kept(solved), EQUAL_GROUPS: kept(1.0), **groups, **OPEN}, MEAN)
        findings = assert_case(RewardWithoutProgress(), told)
        assert word in next(iter(RewardWithoutProgress().suspicions(findings, told.window))).because
