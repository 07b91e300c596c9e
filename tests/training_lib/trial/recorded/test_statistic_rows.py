"""Rows in memory: block numbers as runs; columns that share their steps, forgotten when they are too many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.records.statistics_segment import Rows, Schema, StatisticColumn, encode_rows
from trackside.trial.recorded import statistic_rows
from trackside.trial.recorded.statistic_rows import BlockNumbers, RowTable, StatisticColumns, in_step_order

EVERYTHING = 2**62
THREE = Schema((StatisticColumn("a", "l2"), StatisticColumn("b", "l2"), StatisticColumn("c", "l2")))


@given(st.lists(st.integers(0, 40), unique=True), st.integers(0, 40), st.integers(0, 40))
def test_runs_of_numbers_are_the_numbers(numbers: list[int], first: int, last: int) -> None:
    runs = BlockNumbers()
    for number in numbers:
        assert not runs.covers(number, number)
        assert runs.add(number)
    known = set(numbers)
    missing = sorted(set(range(max(numbers, default=-1) + 1)) - known)
    if first <= last:
        assert runs.covers(first, last) == (set(range(first, last + 1)) <= known)
    assert runs.missing == len(missing)
    if missing:
        gap_first, gap_last = runs.first_gap
        assert gap_first == missing[0]
        assert set(range(gap_first, gap_last + 1)) <= set(missing)
        assert gap_last + 1 in known


def test_gaps_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistic_rows, "MOST_GAPS", 10)
    runs = BlockNumbers()
    added = [runs.add(number) for number in range(100, 0, -2)]
    assert added == [True] * 11 + [False] * 39
    assert runs.add(99)


def table_of(steps: range, *, order: int = 0, schema: Schema = THREE) -> RowTable:
    table = RowTable(schema, has_holes=False, order=order)
    add(table, steps)
    return table


def add(table: RowTable, steps: range) -> None:
    count, columns = len(steps), len(table.schema.columns)
    values = np.arange(count * columns, dtype=np.float32).reshape(count, columns)
    payload = encode_rows(
        0,
        table.schema,
        steps=list(steps),
        mode_steps=list(steps),
        wall_times=list(steps),
        modes=[1] * count,
        values=values,
    )
    table.add(Rows(0, count, False, memoryview(payload)[12:]))


def test_rows_are_found_from_any_place_on_across_slabs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistic_rows, "_SLAB_BYTES", 100)  # two rows
    table = table_of(range(3))
    add(table, range(3, 10))
    for start in range(11):
        assert [step for rows in table.rows_from(start) for step in rows["step"].tolist()] == list(range(start, 10))


def test_columns_measured_together_share_their_steps() -> None:
    tables = {"worker_0": [table_of(range(100))]}
    columns = StatisticColumns(1 << 20)
    found = [
        columns.of(name, "l2", "TRAIN", tables=tables, version=version, last_step=EVERYTHING)[0]
        for version in range(2)
        for name in "abc"
    ]
    assert all(np.shares_memory(found[0].steps, column.steps) for column in found)
    add(tables["worker_0"][0], range(50, 150))  # counted anew
    again = [columns.of(name, "l2", "TRAIN", tables=tables, version=2, last_step=EVERYTHING)[0].steps for name in "abc"]
    assert all(np.shares_memory(again[0], steps) for steps in again)
    assert not np.shares_memory(again[0], found[0].steps)
    assert again[2].tolist() == list(range(150))


def test_the_longest_unused_columns_are_forgotten() -> None:
    tables = {"worker_0": [table_of(range(1000))]}
    columns = StatisticColumns(20_000)  # two columns of 1,000 values and their reserve
    for name in "abab":
        columns.of(name, "l2", None, tables=tables, version=1, last_step=EVERYTHING)
    held = {name: columns.of(name, "l2", None, tables=tables, version=1, last_step=5)[0] for name in "ab"}
    assert columns.of("c", "l2", None, tables=tables, version=1, last_step=5)[0].steps.tolist() == [0, 1, 2, 3, 4, 5]
    again = {name: columns.of(name, "l2", None, tables=tables, version=1, last_step=5)[0] for name in "ba"}
    assert np.shares_memory(held["b"].values, again["b"].values)
    assert not np.shares_memory(held["a"].values, again["a"].values)
    assert again["a"].values.tolist() == held["a"].values.tolist()


def test_a_mode_that_there_is_not_holds_nothing() -> None:
    tables = {"worker_0": [table_of(range(3))]}
    columns = StatisticColumns(1 << 20)
    assert columns.of("a", "l2", "NONE", tables=tables, version=1, last_step=EVERYTHING) == ()


@pytest.mark.parametrize("has_disk", [pytest.param(True, id="in-a-file"), pytest.param(False, id="disk-full")])
def test_a_long_table_gives_the_rows_of_one_in_memory(monkeypatch: pytest.MonkeyPatch, has_disk: bool) -> None:
    monkeypatch.setattr(statistic_rows, "_SLAB_BYTES", 100)  # two rows
    monkeypatch.setattr(statistic_rows, "MOST_SLABS", 2)
    if not has_disk:

        def full() -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tempfile.TemporaryFile", full)
    table = table_of(range(0))
    for first in range(0, 40, 5):
        add(table, range(first, first + 5))
    for start in range(41):
        assert [step for rows in table.rows_from(start) for step in rows["step"].tolist()] == list(range(start, 40))
    columns = StatisticColumns(1 << 20)
    (found,) = columns.of("b", "l2", "TRAIN", tables={"worker_0": [table]}, version=0, last_step=EVERYTHING)
    assert found.steps.tolist() == list(range(40))
    assert found.values.tolist() == [1.0 + 3 * (step % 5) for step in range(40)]
    assert table.is_in_order
    for first, last in ((0, 39), (7, 7), (13, 30), (39, 90), (40, 90)):
        rows = [r for part in in_step_order([table, table], first=first, last=last) for _, r in part]
        ascending = sorted(step for some in rows for step in some["step"].tolist())
        assert ascending == sorted([*range(first, min(last, 39) + 1)] * 2)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param([range(4), range(4, 9)], True, id="ascending"),
        pytest.param([range(4), range(3, 9)], True, id="a-step-twice"),
        pytest.param([range(4), range(2, 9)], False, id="again-after-a-restart"),
        pytest.param([range(4, 9), range(4)], False, id="backwards"),
        pytest.param([], True, id="no-row"),
    ],
)
def test_a_table_is_in_order_if_no_step_goes_back(parts: list[range], expected: bool) -> None:
    table = table_of(range(0))
    for part in parts:
        add(table, part)
        assert table.is_in_order or not expected
    assert table.is_in_order == expected
