"""Several things for one event."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pytest

from lambdas.shared.decisions import Done
from lambdas.shared.each import each


@pytest.mark.parametrize(
    ("things", "done", "error"),
    [
        pytest.param([], [], None, id="nothing"),
        pytest.param([1, 2], [1, 2], None, id="all are done"),
        pytest.param([1, -2, 3], [1, 3], "-2", id="one that fails hides none after it"),
        pytest.param([-1, -2, 3], [3], "-1", id="the first error is told"),
    ],
)
def test_all_are_tried(things: Sequence[int], done: list[int], error: str | None) -> None:
    def act(thing: int) -> Iterator[Done]:
        if thing < 0:
            raise ValueError(str(thing))
        yield Done(str(thing))

    found: list[str] = []
    with pytest.raises(ValueError, match=error) if error else contextlib.nullcontext():
        found.extend(answer.what for answer in each(things, act) if isinstance(answer, Done))
    assert found == [str(one) for one in done]
