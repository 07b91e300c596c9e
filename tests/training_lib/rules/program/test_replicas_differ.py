"""replicas-differ: the workers' copies of one model are no longer the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training_lib.rules.tables import every_case
from trackside.rules.program.replicas_differ import ReplicasDiffer
from trackside.situation.replicas import spread
from trackside.testing.rule_case import RuleCase, assert_case, replay

W, B = "Net_fc.weight", "Net_fc.bias"


def norms(*of_workers: list[float], every: int = 10, name: str = W) -> dict[str, dict[str, dict[int, object]]]:
    steps = [{f"worker_{rank}": value for rank, value in enumerate(values)} for values in zip(*of_workers, strict=True)]
    return {name: {"l2": {every * place: value for place, value in enumerate(steps)}}}


SAME = [3.0, 3.1, 3.2, 3.3, 3.4]
DRIFTING = [3.0, 3.15, 3.3, 3.5, 3.8]

CASES = [
    RuleCase("drifting", recorded=norms(SAME, DRIFTING), fires=(W,)),
    RuleCase("another start", recorded=norms(SAME, [4.0] * 5), fires=(W,)),
    RuleCase("one of three", recorded=norms(SAME, SAME, DRIFTING), fires=(W,)),
    RuleCase("a bias", recorded=norms(SAME, DRIFTING, name=B), fires=(B,)),
    RuleCase("the most different first", recorded=norms(SAME, DRIFTING) | norms(SAME, [9.0] * 5, name=B), fires=(B, W)),
    RuleCase("the same", recorded=norms(SAME, SAME)),
    RuleCase("the same but for rounding", recorded=norms(SAME, [value * (1 + 1e-7) for value in SAME])),
    RuleCase("one worker", recorded=norms(DRIFTING)),
    RuleCase("together again", recorded=norms(SAME, [3.0, 3.1, 9.0, 9.0, 3.4])),
    RuleCase(
        "parts of one tensor",
        recorded={W: {**norms(SAME, DRIFTING)[W], "is_sharded": {0: {"worker_0": 1, "worker_1": 1}}}},
    ),
]

test_cases = every_case(ReplicasDiffer(), CASES)


def test_it_names_the_odd_worker_and_since_when() -> None:
    case = RuleCase("late", recorded=norms(SAME, SAME, [3.0, 3.1, 5.0, 5.0, 5.0]), fires=(W,))
    (finding,) = assert_case(ReplicasDiffer(), case)
    assert (finding.worker, finding.since_step) == ("worker_2", 20)


def test_only_steps_that_all_have_are_compared() -> None:
    steps = {0: (1.0, 1.0), 10: (2.0, 2.0), 20: (3.0, 3.0)}
    l2: dict[int, dict[str, float]] = {s: {"worker_0": a, "worker_1": b} for s, (a, b) in steps.items()}
    l2 |= {5: {"worker_0": 1.5}, 15: {"worker_1": 2.5}}
    assert_case(ReplicasDiffer(), RuleCase("measured at other steps", recorded={W: {"l2": l2}}))


def test_a_single_difference_is_not_told() -> None:
    recorded = norms([3.0] * 12, [*[3.0] * 9, 4.0, 3.0, 3.0])
    assert replay(ReplicasDiffer(), RuleCase("an odd one", recorded=recorded).trial) == ()


@given(values=st.lists(st.floats(0, 1e30), min_size=1, max_size=5), scale=st.floats(1e-3, 1e3))
def test_the_spread_has_no_unit(values: list[float], scale: float) -> None:
    found = spread(np.array(values))
    assert 0 <= found <= 1
    if max(values) == 0 or max(values) > 1e-200:
        assert spread(np.array(values) * scale) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("values", [[0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0], [2.0]], ids=str)
def test_what_cannot_be_compared_is_alike(values: list[float]) -> None:
    assert spread(np.array(values)) == 0.0
