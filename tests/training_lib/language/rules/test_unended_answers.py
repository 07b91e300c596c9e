"""unended-answers: none ends, or nearly none and nothing is learned."""

from __future__ import annotations

from tests.training_lib.language.rules.courses import kept, logged, noisy, to_a_level
from tests.training_lib.rules.tables import every_case
from trackside.contracts.run.language_numbers import CUT_SHARE, REWARD
from trackside.language.rules.unended_answers import UnendedAnswers
from trackside.testing.rule_case import RuleCase

RISING, FLAT = noisy(0.1, 0.8), noisy(0.1, 0.1)
EVER_MORE = [*noisy(0.6, 0.97, 80), *noisy(0.97, 0.97, 40)]


def case(name: str, cut: list[float], reward: list[float], *, fires: bool = False) -> RuleCase:
    recorded = logged({CUT_SHARE: cut, REWARD: reward})
    return RuleCase(name, recorded=recorded, fires=(CUT_SHARE.recorded,) if fires else ())


CASES = [
    case("none ends", kept(1.0), FLAT, fires=True),
    case("none ends, and the reward rises", kept(1.0), RISING, fires=True),
    case("none ends any more", [*noisy(0.2, 0.9, 80), *kept(1.0, 40)], RISING, fires=True),
    case("hardly any ends, and nothing is learned", noisy(0.95, 0.95), FLAT, fires=True),
    case("ever more are cut off as the reward rises", noisy(0.7, 0.93), RISING),
    case("hardly any ends, and the reward rises", noisy(0.94, 0.94), RISING),
    case("the reward rose with the share cut off", EVER_MORE, to_a_level(0.1, 0.9), fires=True),
    case("it still rises with them", EVER_MORE, RISING),
    case("half are cut off", noisy(0.5, 0.5), FLAT),
    case("ever fewer are cut off", noisy(1.0, 0.9, noise=0.005), FLAT),
    case("longer answers, most end", noisy(0.0, 0.3), RISING),
    case("too few logs", kept(1.0, 12), kept(0.1, 12)),
]

test_cases = every_case(UnendedAnswers(), CASES)
