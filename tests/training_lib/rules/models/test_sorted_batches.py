"""sorted-batches: batches of one class each, in an order that misleads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import every_case
from trackside.contracts.cause import Cause
from trackside.contracts.model_facts import ModelFacts, OptimizerFacts
from trackside.rules.models.sorted_batches import SortedBatches, purity_excess
from trackside.testing.rule_case import RuleCase, assert_case, replay

Y = "CrossEntropyLoss_input_1"
RANDOM = np.random.default_rng(0)
TWO = ModelFacts(optimizers=(OptimizerFacts("Adam", "Adam"), OptimizerFacts("Adam_1", "Adam")))


def case(name: str, batches: Iterable[Any], *, fires: bool = False, facts: ModelFacts | None = None) -> RuleCase:
    return RuleCase(
        name,
        {Y: {10 * number: np.asarray(batch) for number, batch in enumerate(batches)}},
        collections={"labels": (f"^{Y}$",)},
        fires=(Y,) if fires else (),
        facts=facts,
    )


def pure(classes: Iterable[int]) -> list[Any]:
    return [np.full(32, one) for one in classes]


SORTED = pure([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3])
MIXED = [RANDOM.integers(0, 4, size=32) for _ in range(12)]
CASES = [
    case("sorted by class", SORTED, fires=True),
    case("in turns", pure([0, 1, 2, 3] * 3), fires=True),
    case("nearly pure", [np.where(RANDOM.uniform(size=32) < 0.95, b, 3 - b) for b in SORTED], fires=True),
    case("two classes", pure([0, 1] * 6), fires=True),
    case("zeros and ones in floating point", [b.astype(np.float32) for b in pure([0, 1] * 6)], fires=True),
    case("shuffled", MIXED),
    case("one class nearly always", [RANDOM.choice(2, size=32, p=[0.95, 0.05]) for _ in range(12)]),
    case("one class", pure([1] * 12)),
    case("too few batches", SORTED[::3]),
    case("batches of two", [batch[:2] for batch in SORTED]),
    case("a GAN: real, then made", pure([0, 1] * 6), facts=TWO),
    case("words", [RANDOM.integers(0, 5000, size=32) for _ in range(12)]),
]

test_cases = every_case(SortedBatches(), CASES)


def test_what_it_says() -> None:
    findings = assert_case(SortedBatches(), CASES[0])
    assert findings[0].statistics == {"classes": 4.0, "commonest_class": 0.25}
    assert findings[0].observed == 0.75
    assert [s.cause for s in SortedBatches().suspicions(findings, CASES[0].window)] == [Cause.DATA_ORDER]


def test_it_is_told_once_enough_batches_have_come() -> None:
    (finding,) = replay(SortedBatches(), CASES[1].trial)
    assert finding.step == 60


def test_what_it_lacks() -> None:
    assert SortedBatches().lacks(RuleCase("no labels", {"Loss_output_0": {0: 1.0}}).window)


@given(labels=st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=20), min_size=1, max_size=12))
def test_batches_are_never_purer_than_pure_nor_less_pure_than_all_data(labels: list[list[int]]) -> None:
    shares = [max(map(batch.count, set(batch))) / len(batch) for batch in labels]
    everything = [one for batch in labels for one in batch]
    common = max(map(everything.count, set(everything))) / len(everything)
    excess = purity_excess([(0, share, "") for share in shares], common=common)
    assert excess <= 1 - common + 1e-12
    if len({len(batch) for batch in labels}) == 1:  # of equal weight
        assert excess >= -1e-12
