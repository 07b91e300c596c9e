"""The losses of a run in a list: the last value of each, and a curve of a few points."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.fields import Fields, read_number, write_number
from trackside.contracts.stored_fields import NUMBER, TEXT, Kind, nullable, record, stored

MOST_POINTS = 40  # of a curve that is as wide as a word
_NUMBERS = 7  # of a point

Point = tuple[float, ...]  # first and last step, lowest, mean and highest number, how many, 1 if one is not finite


def _read_points(fields: Fields, name: str, absent: Any) -> tuple[Point, ...]:
    given = fields.anything_in(name)
    rows = [[read_number(one) for one in row] if isinstance(row, list) else [] for row in given]
    found = [tuple([one for one in row if one is not None]) for row in rows]
    if not found or any(len(row) != _NUMBERS for row in found):
        fields.problem(name, f"must hold lists of {_NUMBERS} numbers.")
    return tuple(found)


_POINTS = Kind({"type": "array"}, _read_points, lambda points: [[write_number(one) for one in row] for row in points])


@dataclass(frozen=True)
class LastLoss:
    """A loss of the first process of a run.

    name    its tensor
    last    its last value, which may be no number
    points  parts of its curve that follow one another, few
    """

    name: str = field(metadata=stored(TEXT))
    last: float = field(metadata=stored(NUMBER))
    points: tuple[Point, ...] = field(metadata=stored(_POINTS))


@dataclass(frozen=True)
class LastLosses:
    """The losses of a run; None for one that it did not record.

    training    the first one of the training steps
    evaluation  the first one of the evaluations
    """

    training: LastLoss | None = field(default=None, metadata=stored(nullable(record(LastLoss))))
    evaluation: LastLoss | None = field(default=None, metadata=stored(nullable(record(LastLoss))))
