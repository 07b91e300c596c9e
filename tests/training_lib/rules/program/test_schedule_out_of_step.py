"""schedule-out-of-step: the learning-rate schedule is stepped too often, too seldom or never."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.training_lib.rules.columns import along
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts, ProgramFacts
from trackside.contracts.observations import SCHEDULE, ScheduleFacts
from trackside.contracts.run.recorded_names import EPOCH
from trackside.rules.program.schedule_out_of_step import ScheduleOutOfStep, turns_of_warm_up
from trackside.testing.rule_case import RuleCase, assert_case

RATE, STEPS, PER_EPOCH = "hyperparameters/SGD/group_0/lr", 400, 40
WARM = np.minimum(1.0, np.arange(1, STEPS + 1) / 100)


def case(
    name: str,
    rates: Sequence[float] | np.ndarray,
    *,
    calls: int = 1,
    highest: float = 1.0,
    ranks: int = 1,
    epochs: bool = True,
    schedule: bool = True,
    length: int = 0,
    fires: bool = False,
) -> RuleCase:
    schedules = ScheduleFacts("LambdaLR", highest, calls, length) if schedule else None
    facts = ModelFacts(
        optimizers=(OptimizerFacts("SGD", "SGD", line="train.py:9", observed={SCHEDULE: schedules}),),
        program=ProgramFacts(world_size=ranks),
    )
    recorded = {RATE: {"mean": along(rates)}}
    if epochs:
        recorded[EPOCH] = {"mean": along([float(step // PER_EPOCH) for step in range(len(rates))])}
    return RuleCase(name, recorded=recorded, facts=facts, fires=("SGD",) if fires else ())


def by_epoch(turns: int, *, begin: float = 0.0) -> np.ndarray:
    """Return the rates of a warm-up of so many turns that is stepped once per epoch."""
    return begin + (1 - begin) * np.minimum(1.0, (1 + np.arange(STEPS) // PER_EPOCH) / turns)


def cosine(length: int, *, batches: int = 1) -> np.ndarray:
    """Return the rates of a cosine of so many steps, of one for so many batches."""
    return 0.5 + 0.5 * np.cos(np.pi * (np.arange(STEPS) // batches) / length)


CASES = [
    case("ten places at a time", 0.5 + 0.5 * np.cos(np.arange(STEPS)), calls=10, fires=True),
    case("two places at a time, at the highest rate", np.ones(STEPS), calls=2, fires=True),
    case("more than there are ranks", WARM, calls=4, ranks=2, fires=True),
    case("a warm-up that is never stepped", np.full(STEPS, 0.01), calls=0, fires=True),
    case("one cycle that is never stepped", np.full(STEPS, 0.04), calls=0, fires=True),
    case("never, in a loop by hand", np.full(600, 0.01), calls=0, epochs=False, fires=True),
    case("a warm-up of a hundred batches by epochs", by_epoch(100), fires=True),
    case("the same from a tenth on", by_epoch(100, begin=0.1), fires=True),
    case("a warm-up by batches", WARM),
    case("a cosine", 0.5 + 0.5 * np.cos(np.pi * np.arange(STEPS) / STEPS)),
    case("a rate for each rank", WARM, calls=2, ranks=2),
    case("never stepped at the highest rate", np.ones(STEPS), calls=0),
    case("never stepped within the first epoch", np.full(60, 0.01), calls=0),
    case("never stepped, in a loop by hand of few steps", np.full(60, 0.01), calls=0, epochs=False),
    case("a factor that stays", np.full(STEPS, 0.1)),
    case("a warm-up of ten epochs", by_epoch(10)),
    case("a warm-up of twenty epochs", by_epoch(20)),
    case("its first five epochs", by_epoch(100)[: 5 * PER_EPOCH]),
    case("epochs of a decay", 0.9 ** (np.arange(STEPS) // PER_EPOCH)),
    case("a rate of unknown height", np.full(STEPS, 0.01), calls=0, highest=0.0),
    case("no schedule", np.full(STEPS, 0.01), calls=0, schedule=False),
    case("a cosine of ten epochs by batches", cosine(10), length=10, fires=True),
    case("a cosine of half a pass by batches", cosine(PER_EPOCH // 2), length=PER_EPOCH // 2, fires=True),
    case("a cosine of ten epochs by epochs", cosine(10, batches=PER_EPOCH), length=10),
    case("a cosine of three epochs by epochs, which goes up again", cosine(3, batches=PER_EPOCH), length=3),
    case("a cosine of all batches", cosine(STEPS), length=STEPS),
    case("a cosine of one pass, by batches, which goes up again", cosine(PER_EPOCH), length=PER_EPOCH),
    case("a cosine of ten epochs by batches, within the second pass", cosine(10)[: 2 * PER_EPOCH], length=10),
    case("rates for factors", 1e-4 * (0.5 + 0.5 * np.cos(np.arange(STEPS) / STEPS)), highest=0.01, fires=True),
    case("the same after a warm-up", 1e-4 * WARM, highest=0.01, fires=True),
    case("the same, still rising", 1e-4 * WARM[:110], highest=0.01),
    case("a warm-up that passes the square", 0.01 * WARM, highest=0.01),
    case("a hundredth for good", np.full(STEPS, 1e-4 * 1.01), highest=0.01),
    case("a cosine of ten epochs by batches, in a loop by hand", cosine(10), length=10, epochs=False),
]

test_cases = every_case(ScheduleOutOfStep(), CASES)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (CASES[-6], "by a rate, 0.01"),
        (CASES[0], "10 places"),
        (CASES[3], "never stepped"),
        (CASES[6], "once per epoch"),
    ],
    ids=["square", "often", "never", "seldom"],
)
def test_the_message_names_the_pace(case: RuleCase, words: str) -> None:
    (finding,) = assert_case(ScheduleOutOfStep(), case)
    assert words in ScheduleOutOfStep().sentence([finding])
    assert finding.place == "train.py:9"
    assert ScheduleOutOfStep().suspicions([finding], case.window)[0].cause is Cause.LEARNING_RATE_SCHEDULE


@pytest.mark.parametrize(
    ("facts", "is_judged"),
    [
        (ModelFacts(optimizers=(OptimizerFacts("SGD", "SGD", observed={SCHEDULE: ScheduleFacts("StepLR")}),)), True),
        (ModelFacts(optimizers=(OptimizerFacts("SGD", "SGD"),)), False),
    ],
    ids=["schedule", "none"],
)
def test_what_can_be_judged(facts: ModelFacts, is_judged: bool) -> None:
    assert (not ScheduleOutOfStep().nothing_to_judge(facts)) is is_judged


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e3])
def test_the_turns_have_no_unit(scale: float) -> None:
    turns = turns_of_warm_up(scale * by_epoch(50), highest=scale)
    assert turns == pytest.approx(49, rel=1e-6)
