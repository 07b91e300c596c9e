"""hidden-loss: a loss that was NaN, and a log that shows a number."""

from __future__ import annotations

import math

from tests.training_lib.rules.columns import along
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.run.language_numbers import SHOWN_LOSS
from trackside.contracts.run.recorded_names import LABELLED_TOKENS
from trackside.language.rules.hidden_loss import HiddenLoss
from trackside.testing.rule_case import RuleCase, assert_case

LOSS = "ForCausalLMLoss_output_0"
STEPS = 40


def case(name: str, *broken: int, shown: dict[int, float], fires: bool = False) -> RuleCase:
    """A run with losses that are broken at these steps, and what the trainer logged."""
    losses = along([math.nan if step in broken else 1.0 for step in range(STEPS)])
    counts = along([float(step in broken) for step in range(STEPS)])
    recorded = {LOSS: {"mean": losses, "nonfinite_count": counts}, SHOWN_LOSS.recorded: {"mean": shown}}
    return RuleCase(name, recorded=recorded, fires=(LOSS,) if fires else (), step=STEPS - 1)


EACH = along([1.0] * STEPS)
CASES = [
    case("one step", 7, shown=EACH, fires=True),
    case("logged every ten steps", 13, shown={9: 1.0, 19: 1.0, 29: 1.0}, fires=True),
    case("all from a step on", *range(20, 40), shown=EACH, fires=True),
    case("the log shows it", 7, shown={**EACH, 7: math.nan}),
    case("none is broken", shown=EACH),
    case("broken after the newest log", 35, shown={9: 1.0, 19: 1.0, 29: 1.0}),
]

test_cases = every_case(HiddenLoss(), CASES)


def test_without_a_log_of_a_trainer_it_is_silent() -> None:
    run = {LOSS: {"mean": along([1.0] * 9), "nonfinite_count": along([1.0] * 9)}}
    assert_case(HiddenLoss(), RuleCase("no log", recorded=run))


def test_a_batch_without_a_label_is_the_cause() -> None:
    broken = case("one step", 7, shown=EACH, fires=True)
    looks = along([0.0 if step == 7 else 0.5 for step in range(STEPS)])
    seen = RuleCase("no label", recorded={**broken.recorded, LABELLED_TOKENS: {"mean": looks}}, fires=(LOSS,))
    for one, cause in ((broken, Cause.HIDDEN_LOSS), (seen, Cause.LABEL_MASK)):
        findings = assert_case(HiddenLoss(), one)
        assert [each.cause for each in HiddenLoss().suspicions(findings, one.window)] == [cause]
