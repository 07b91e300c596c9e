"""gamed-reward: the reward rises and the held-out one falls."""

from __future__ import annotations

from tests.training_lib.language.rules.courses import logged, noisy, to_a_level
from tests.training_lib.rules.tables import every_case
from trackside.contracts.run.language_numbers import CUT_SHARE, HELD_OUT_REWARD, REWARD
from trackside.language.rules.gamed_reward import GamedReward
from trackside.testing.rule_case import RuleCase

HELD_OUT = HELD_OUT_REWARD.recorded


def case(name: str, reward: list[float], held_out: list[float], *, fires: bool = False) -> RuleCase:
    """A reward at each step, a held-out one at every tenth."""
    recorded = {**logged({REWARD: reward}), **logged({HELD_OUT_REWARD: held_out}, every=10)}
    return RuleCase(name, recorded=recorded, fires=(HELD_OUT,) if fires else (), step=len(reward) - 1)


def by_length(name: str, reward: list[float], cut: list[float], *, fires: bool = False) -> RuleCase:
    """A reward, and the share of answers cut off, at each step."""
    fired = (CUT_SHARE.recorded,) if fires else ()
    return RuleCase(name, recorded=logged({REWARD: reward, CUT_SHARE: cut}), fires=fired, step=len(reward) - 1)


CASES = [
    case("from the start", noisy(0.1, 0.9), noisy(0.4, 0.05, 12), fires=True),
    case("after a gain", noisy(0.1, 0.9), [0.2, 0.4, 0.5, 0.5, 0.4, 0.3, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1], fires=True),
    case("of another scale", noisy(0.1, 0.9), noisy(40, 10, 12, noise=1), fires=True),
    case("both rise", noisy(0.1, 0.9), noisy(0.1, 0.7, 12)),
    case("the held-out one rises to a level", noisy(0.1, 0.9), to_a_level(0.1, 0.4, 12)),
    case("both fall", noisy(0.9, 0.1), noisy(0.8, 0.1, 12)),
    case("the held-out one is noise", noisy(0.1, 0.9), noisy(0.5, 0.5, 12, noise=0.1)),
    case("a slight loss at the end", noisy(0.1, 0.9), [*noisy(0.1, 0.8, 10), 0.78, 0.77]),
    by_length("it is for length", to_a_level(0.1, 0.9), to_a_level(0.1, 0.98, noise=0.01), fires=True),
    by_length("long answers that end", noisy(0.1, 0.9), to_a_level(0.1, 0.6)),
    by_length("the policy still learns", noisy(0.1, 0.9), to_a_level(0.1, 0.98, noise=0.01)),
    by_length("most were cut off from the start", noisy(0.1, 0.9), to_a_level(0.7, 0.98, noise=0.01)),
    by_length("cut off, and nothing is gained", noisy(0.5, 0.5), to_a_level(0.1, 0.98, noise=0.01)),
    case("too few evaluations", noisy(0.1, 0.9), [0.5, 0.4, 0.1]),
]

test_cases = every_case(GamedReward(), CASES)
