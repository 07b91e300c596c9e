"""entropy-collapse: certain and not right; silent where certainty comes with the reward."""

from __future__ import annotations

from typing import Any

from tests.training_lib.language.rules.courses import kept, logged, noisy, to_a_level
from tests.training_lib.rules.tables import every_case
from trackside.contracts.run.language_numbers import ENTROPY, EQUAL_GROUPS, REWARD, REWARD_SPREAD
from trackside.language.rules.entropy_collapse import EntropyCollapse
from trackside.testing.rule_case import RuleCase

GONE = to_a_level(2.0, 0.1)
NONE_LEFT = {REWARD_SPREAD: to_a_level(0.25, 0.01, noise=0.001), EQUAL_GROUPS: to_a_level(0.1, 0.9)}


def case(name: str, numbers: dict[Any, Any], *, fires: bool = False) -> RuleCase:
    return RuleCase(name, recorded=logged(numbers), fires=(ENTROPY.recorded,) if fires else ())


CASES = [
    case("the reward stays", {REWARD: noisy(0.2, 0.2, noise=0.05), ENTROPY: GONE, **NONE_LEFT}, fires=True),
    case("it gains a little", {REWARD: to_a_level(0.2, 0.3, noise=0.05), ENTROPY: GONE, **NONE_LEFT}, fires=True),
    case("of rewards far from zero", {REWARD: noisy(3.2, 3.2, noise=0.05), ENTROPY: GONE, **NONE_LEFT}, fires=True),
    case("no groups are logged", {REWARD: noisy(0.2, 0.2, noise=0.05), ENTROPY: GONE}, fires=True),
    case("the reward rises with it", {REWARD: to_a_level(0.2, 0.95), ENTROPY: GONE, **NONE_LEFT}),
    case("it is solved", {REWARD: to_a_level(0.9, 1.0, noise=0.001), ENTROPY: GONE, **NONE_LEFT}),
    case("the reward still rises", {REWARD: noisy(0.2, 0.4, noise=0.01), ENTROPY: GONE, **NONE_LEFT}),
    case("the groups still differ", {REWARD: noisy(0.2, 0.2, noise=0.05), ENTROPY: GONE, EQUAL_GROUPS: kept(0.2)}),
    case("the entropy falls by half", {REWARD: noisy(0.2, 0.2, noise=0.05), ENTROPY: noisy(2, 1), **NONE_LEFT}),
    case("an entropy of a supervised training", {ENTROPY: GONE}),
]

test_cases = every_case(EntropyCollapse(), CASES)
