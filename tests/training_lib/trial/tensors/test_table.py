"""A table is the same whether its rows come one by one, in blocks, or late; and what was given away stays as it was."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.trial.tensors.statistics import STATISTICS, Values, summarise, widened
from trackside.trial.tensors.table import Table

PLACES = {name: place for place, name in enumerate(STATISTICS)}
VALUE = st.floats() | st.sampled_from([0.0, math.nan, math.inf])
ROW = VALUE | st.lists(VALUE, min_size=2, max_size=3)  # a tensor of one element, or of some


def summary(row: float | list[float]) -> float | Values:
    found = summarise(np.array(row))
    assert found is not None
    return found


def whole(row: float | list[float]) -> Values:
    found = summary(row)
    return widened(np.array([[found]]))[:, 0] if isinstance(found, float) else found


@given(st.lists(st.tuples(st.integers(0, 99), ROW), unique_by=lambda row: row[0]), st.data())
def test_rows_in_any_order_and_grouping_make_the_same_columns(
    rows: list[tuple[int, float | list[float]]], data: st.DataObject
) -> None:
    table, seen = Table("t", "worker_0"), dict[int, Values]()
    while rows:
        count = data.draw(st.integers(1, len(rows)))
        some, rows = sorted(rows[:count]), rows[count:]
        kinds = {isinstance(row, float) for _, row in some}
        if len(kinds) == 1 and data.draw(st.booleans()):
            numbers = np.array([summary(row) for _, row in some]).reshape(len(some), -1).T
            table.extend(np.array([step for step, _ in some]), numbers)
        else:
            for step, row in some:
                table.append(step, summary(row))
        seen.update((step, whole(row)) for step, row in some)
        last_step = data.draw(st.integers(0, 99))
        name = data.draw(st.sampled_from([*STATISTICS]))
        steps = sorted(step for step in seen if step <= last_step)
        column = table.column(PLACES[name], last_step)
        assert (column.steps.tolist() if column else []) == steps
        if column:
            np.testing.assert_array_equal(column.values, [seen[step][PLACES[name]] for step in steps])
    assert len(table) == len(seen)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("row", [2.5, [1.0, 3.0]], ids=["scalar", "tensor"])
def test_a_column_is_read_only_and_does_not_change(name: str, row: float | list[float]) -> None:
    table = Table("t", "worker_0")
    for step in range(10, 20):
        table.append(step, summary(row))
    column = table.column(PLACES[name], 99)
    assert column is not None
    before = column.values.copy()
    for step in (20, 5, 12345, *range(30, 100)):  # at the end, late, and until there is no room
        table.append(step, summary([9.0, 9.5]))
        table.column(PLACES[name], 10**6)
    assert column.steps.tolist() == [*range(10, 20)]
    np.testing.assert_array_equal(column.values, before)
    for array in (column.steps, column.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_an_empty_table_has_no_columns() -> None:
    table = Table("t", "worker_0")
    table.extend(np.array([], np.int64), np.empty((1, 0)))
    assert table.column(0, 99) is None
    table.append(5, 1.0)
    assert table.column(0, 4) is None
