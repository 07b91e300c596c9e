"""Which steps have rows, in which mode, of which tensors: as each row says it, whatever order they come in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.records.block_file import Block
from trackside.records.modes import MODE_NAMES, MODE_NUMBERS
from trackside.records.statistics_segment import ROWS_KIND, Schema, StatisticColumn, encode_rows, read_rows
from trackside.trial.recorded import recorded_steps
from trackside.trial.recorded.recorded_steps import MOST_KINDS, RecordedSteps
from trackside.trial.recorded.statistic_rows import RowTable

TENSORS = ("a", "b", "c")
SCHEMA = Schema(tuple(StatisticColumn(tensor, name) for tensor in TENSORS for name in ("mean", "l2")))
EVERYTHING = frozenset(TENSORS)


def a_table(schema: Schema = SCHEMA, *, has_holes: bool = False) -> RowTable:
    return RowTable(schema, has_holes=has_holes, order=0)


def add(
    table: RowTable, steps: Sequence[int], *, modes: Sequence[str] = (), measured: Sequence[Sequence[str]] | None = None
) -> None:
    """Rows; `measured` are the tensors of which the l2 was, in each of them."""
    schema, numbers = table.schema, [MODE_NUMBERS[mode] for mode in modes or ["TRAIN"] * len(steps)]
    mask = None
    if measured is not None:
        columns = schema.columns
        mask = np.array([[c.statistic == "l2" and c.tensor in some for c in columns] for some in measured])
    payload = encode_rows(
        0,
        schema,
        steps=steps,
        mode_steps=steps,
        wall_times=[0.0] * len(steps),
        modes=numbers,
        values=np.zeros((len(steps), len(schema.columns))),
        measured=mask,
    )
    table.add(read_rows(Block(ROWS_KIND, 0, payload, 0), key="k"))


def test_steps_modes_and_tensors() -> None:
    table, steps = a_table(), RecordedSteps()
    steps.update({})
    assert (steps.between(-1, 99), steps.between(-1, 99), steps.mode_of(0)) == ([], [], None)
    add(table, [0, 2, 3], modes=["TRAIN", "EVAL", "TRAIN"])
    steps.update({"worker_0": [table]})
    assert steps.between(-1, 99) == [0, 2, 3]
    assert (steps.between(0, 2), steps.between(3, 9), steps.between(5, 1)) == ([2], [], [])
    assert [steps.mode_of(step) for step in range(5)] == ["TRAIN", None, "EVAL", "TRAIN", None]
    assert steps.tensors_at(2) == EVERYTHING
    assert steps.tensors_at(1) == steps.tensors_at(-1) == frozenset()
    add(table, [4, 5])
    steps.update({"worker_0": [table]})
    steps.update({"worker_0": [table]})
    assert steps.between(2, 99) == [3, 4, 5]
    assert steps.tensors_at(4) is steps.tensors_at(2)
    assert steps.last_by_worker == {"worker_0": 5}


def test_what_was_not_measured_does_not_count() -> None:
    table, steps = a_table(has_holes=True), RecordedSteps()
    add(table, [0, 1, 2, 3], measured=[["a"], ["a", "c"], [], ["a"]])
    steps.update({"worker_0": [table]})
    assert [sorted(steps.tensors_at(step)) for step in range(4)] == [["a"], ["a", "c"], [], ["a"]]


def test_two_tiers_and_two_workers_are_one_step() -> None:
    cheap, dear = (Schema((StatisticColumn(tensor, "mean"),)) for tensor in ("loss", "gradient"))
    tables = {"worker_0": [a_table(cheap), a_table(dear)], "worker_1": [a_table(cheap)]}
    add(tables["worker_0"][0], [0, 1, 2])
    add(tables["worker_0"][1], [0, 2])
    add(tables["worker_1"][0], [0, 1], modes=["EVAL", "EVAL"])
    steps = RecordedSteps()
    steps.update(tables)
    assert [sorted(steps.tensors_at(s)) for s in range(3)] == [["gradient", "loss"], ["loss"], ["gradient", "loss"]]
    assert [steps.mode_of(step) for step in range(3)] == ["TRAIN"] * 3
    assert steps.last_by_worker == {"worker_0": 2, "worker_1": 1}
    add(tables["worker_0"][1], [1, 7])  # late
    steps.update(tables)
    assert steps.between(-1, 99) == [0, 1, 2, 7]
    assert sorted(steps.tensors_at(1)) == ["gradient", "loss"]
    assert sorted(steps.tensors_at(7)) == ["gradient"]


def test_more_kinds_than_can_be_told_apart_leave_nothing_out() -> None:
    count = MOST_KINDS + 20
    tables = [a_table(Schema((StatisticColumn(f"t{number}", "mean"),))) for number in range(count)]
    steps = RecordedSteps()
    for number, table in enumerate(tables):
        add(table, [number])
        steps.update({"worker_0": tables[: number + 1]})
    for number in range(count):
        assert f"t{number}" in steps.tensors_at(number)
    assert steps.tensors_at(0) == {"t0"}


Row = tuple[int, str, frozenset[str]]
rows = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["TRAIN", "EVAL"]), st.frozensets(st.sampled_from(TENSORS))),
    max_size=12,
)


@settings(max_examples=120, deadline=None)
@given(
    batches=st.lists(st.tuples(st.sampled_from(["w0", "w1"]), rows), max_size=6),
    ascend=st.booleans(),
    block_steps=st.sampled_from([1, 2, 3, 1 << 14]),
)
def test_it_says_what_a_plain_walk_over_the_rows_says(
    batches: list[tuple[str, list[Row]]], ascend: bool, block_steps: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded_steps, "BLOCK_STEPS", block_steps)
        assert_plain_walk([(worker, sorted(some, key=lambda r: r[0]) if ascend else some) for worker, some in batches])


def assert_plain_walk(batches: list[tuple[str, list[Row]]]) -> None:
    tables = {"w0": [a_table(has_holes=True)], "w1": [a_table(has_holes=True)]}
    steps = RecordedSteps()
    seen: dict[int, tuple[int, frozenset[str]]] = {}
    for worker, some in batches:
        # At least one hole, or `encode_rows` would leave the marks out: none of these measures a mean.
        if some:
            add(tables[worker][0], [r[0] for r in some], modes=[r[1] for r in some], measured=[[*r[2]] for r in some])
        for step, mode, tensors in some:
            number, known = seen.get(step, (99, frozenset[str]()))
            seen[step] = min(number, MODE_NUMBERS[mode]), known | tensors
        steps.update(tables)
        assert steps.between(-1, 99) == sorted(seen)
        assert (len(steps), steps.first) == (len(seen), min(seen, default=None))
        for last in (-1, 0, 7, 15, 30, 99):
            assert steps.newest(last) == max((step for step in seen if step <= last), default=None)
            assert steps.between(last, last + 9) == sorted(step for step in seen if last < step <= last + 9)
        assert steps.mode_of(-1) is steps.mode_of(31) is None
    assert {step: steps.tensors_at(step) for step in seen} == {step: tensors for step, (_, tensors) in seen.items()}
    assert {step: steps.mode_of(step) for step in seen} == {step: MODE_NAMES[n] for step, (n, _) in seen.items()}


@pytest.mark.parametrize("step", [-5, 2**62])
def test_a_step_that_there_cannot_be_harms_nobody(step: int) -> None:
    table, steps = a_table(), RecordedSteps()
    add(table, [step, 3])
    steps.update({"worker_0": [table]})
    assert steps.between(-1, 10) == [3]
