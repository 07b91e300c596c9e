"""repeated-data: the training gets the same data again and again instead of all data in turn."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.training_lib.rules.columns import along, steady
from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, ProgramFacts
from trackside.contracts.observations import SHARED_RANDOMNESS
from trackside.contracts.run.recorded_names import BATCH, BATCH_OF_ONE_ROW, BATCH_REPEATED, ROWS_REPEATED, SAME_VIEWS
from trackside.rules.data.repeated_data import WORKERS_ALIKE, RepeatedData
from trackside.testing.rule_case import RuleCase, Statistics, assert_case


def noted(name: str, values: Mapping[int, object]) -> Statistics:
    return {name: {"mean": values}}


def ranks(*, same: float, count: int = 40) -> Statistics:
    """Fingerprints of two ranks, the same at this share of the steps."""
    return noted(
        BATCH,
        {s: {"worker_0": float(s), "worker_1": float(s if s % 10 < same * 10 else s + 1000)} for s in range(count)},
    )


def parallel(kind: str = "DDP", ranks: int = 2) -> ModelFacts:
    return ModelFacts(program=ProgramFacts(world_size=ranks, data_parallel=kind))


CASES = [
    RuleCase("each batch", recorded=noted(BATCH_REPEATED, along([0] + [1] * 30)), fires=(BATCH_REPEATED,)),
    RuleCase("every other batch", recorded=noted(BATCH_REPEATED, along([0, 1] * 20)), fires=(BATCH_REPEATED,)),
    RuleCase("batches of one row", recorded=noted(BATCH_OF_ONE_ROW, steady(1)), fires=(BATCH_OF_ONE_ROW,)),
    RuleCase("the same on both ranks", recorded=ranks(same=1), facts=parallel(), fires=(BATCH,)),
    RuleCase("the same on both shards", recorded=ranks(same=1), facts=parallel("FSDP2"), fires=(BATCH,)),
    RuleCase(
        "a generator that workers copy",
        recorded=noted(BATCH_REPEATED, steady(0)),
        facts=ModelFacts(program=ProgramFacts(observed={SHARED_RANDOMNESS: "Crops.rng"})),
        fires=(WORKERS_ALIKE,),
    ),
    RuleCase("a few rows", recorded=noted(ROWS_REPEATED, along([0.0] * 9 + [0.9] * 20)), fires=(ROWS_REPEATED,)),
    RuleCase("the same two views", recorded=noted(SAME_VIEWS, along([1] * 4)), fires=(SAME_VIEWS,)),
    RuleCase("two views, now and then the same", recorded=noted(SAME_VIEWS, along([1, 1, 0, 1, 1]))),
    RuleCase("two views, too few looks", recorded=noted(SAME_VIEWS, along([1] * 3))),
    RuleCase("drawn with weights", recorded=noted(ROWS_REPEATED, steady(0.5))),
    RuleCase("no batch", recorded=noted(BATCH_REPEATED, steady(0))),
    RuleCase("now and then", recorded=noted(BATCH_REPEATED, along([0, 0, 0, 1] * 10))),
    RuleCase("too early to tell", recorded=noted(BATCH_REPEATED, steady(1, 19))),
    RuleCase("one batch in two of one row", recorded=noted(BATCH_OF_ONE_ROW, along([0, 1] * 20))),
    RuleCase("other batches on the ranks", recorded=ranks(same=0), facts=parallel()),
    RuleCase("half of them the same", recorded=ranks(same=0.5), facts=parallel()),
    RuleCase("ranks that share their data by design", recorded=ranks(same=1), facts=parallel("")),
    RuleCase("the other ranks are not recorded", recorded=ranks(same=1), facts=parallel(ranks=4)),
    RuleCase("nothing recorded of it", recorded={"Loss_output_0": {"mean": steady(1)}}),
    RuleCase("a program without workers", recorded=noted(BATCH_REPEATED, steady(0)), facts=ModelFacts()),
]

test_cases = every_case(RepeatedData(), CASES)


def test_the_copied_generator_is_the_evidence() -> None:
    case = CASES[5]
    (suspicion,) = RepeatedData().suspicions(assert_case(RepeatedData(), case), case.window)
    assert (suspicion.cause, suspicion.because) == (Cause.REPEATED_DATA, "every worker copies Crops.rng")


@pytest.mark.parametrize(("count", "lacks"), [(19, True), (20, False)])
def test_what_it_lacks(count: int, lacks: bool) -> None:
    case = RuleCase("a run", recorded=noted(BATCH, steady(3, count)))
    assert bool(RepeatedData().lacks(case.window)) is lacks
