"""How much did a number change between some runs and others, and how sure is it? Pure.

1. Other work on a machine makes a run slower, never quicker. So each side stands for the mean of its quicker runs, just
   over half of them.
2. Runs of one program differ. By how much is estimated from the same runs, together with what was measured before,
   which counts as much as `KNOWN_RUNS` runs. Runs that differ by far more show another machine: then they count alone.
   The interval is Student's, for the deviation is an estimate too.
3. Two more intervals are made where they can be: of all runs of both sides; and, of programs that ran in turns, of each
   run and its neighbour in time, which met much the same machine. The narrowest counts.
4. A change is sure if its interval is above 0. For the quicker runs, hardly any later run may be quicker than an
   earlier one, by their ranks: so runs of two paces are not taken for two programs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

KNOWN_RUNS = 6
FEWEST_TURNS = 3  # of both programs, one after the other, to compare each run with its neighbour
FAR_MORE = 2.0  # times the known deviation: what is known does not hold here
# The quicker runs lie closer together than all of them do: with this factor, 199 of 200 changes upwards of equal runs
# are within the interval, for normal, exponential and lognormal deviations and for some runs far off, from 3 a side on.
OF_QUICKER = 1.5
RANKS_SURE = 2.054  # standard deviations of a rank sum that 2 of 100 draws exceed, on one side
# Student's t: 99 of 100 changes of runs of one program are within so many deviations, by degrees of freedom from 1 on.
SURE = (
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
    2.898, 2.878, 2.861, 2.845,
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """The change of a number from some runs to others.

    Attributes:
        change: The later runs over the earlier ones, minus 1.
        low: The lower end of its interval.
        high: Its upper end.
        is_sure: True if the number has grown beyond doubt.
    """

    change: float
    low: float
    high: float
    is_sure: bool


def change_of(
    before: Values,
    after: Values,
    *,
    known: float,
    errors: float = 0.0,
    turns: Sequence[tuple[int, int]] = (),
    paces: tuple[Values, Values] | None = None,
) -> Change:
    """Return the change of a number.

    Args:
        before: Logarithms of the number in the earlier runs, float64 of shape (n,).
        after: The same of the later runs, float64 of shape (m,).
        known: The standard deviation of these logarithms from run to run, as it was measured before.
        errors: The variance of the change of a single pair by the noise within its runs.
        turns: Places of (earlier, later) runs that followed one another; empty if they did not run in turns.
        paces: Logarithms of a time of the earlier and the later runs, by which the quicker ones are chosen, if the
            number does not itself become larger beside other work; None for the number.
    """
    by_pace = zip((before, after), paces or (before, after), strict=True)
    quicker = [side[np.argsort(pace)[: len(side) // 2 + 1]] for side, pace in by_pace]
    in_order = paces is not None or _quicker_share(before, after) <= _allowed_share(len(before), len(after))
    ways = [(*_sides(*quicker, known=known, factor=1.0 if paces else OF_QUICKER), in_order)]
    if len(before) + len(after) == 2:
        ways = [(ways[0][0], _sure(KNOWN_RUNS) * math.sqrt(2 * known**2 + errors), in_order)]
    elif min(len(before), len(after)) > FEWEST_TURNS:
        ways.append((*_sides(before, after, known=known, factor=1.0), True))
    if len(turns) >= FEWEST_TURNS:
        ways.append((*_neighbours(before, after, known, turns), True))
    middle, margin, may_be_sure = min(ways, key=lambda way: way[1])
    is_sure = may_be_sure and middle - margin > 0
    return Change(math.expm1(middle), math.expm1(middle - margin), math.expm1(middle + margin), is_sure)


def _sides(before: Values, after: Values, *, known: float, factor: float) -> tuple[float, float]:
    sides = before, after
    squares = factor**2 * sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    between, freedom = _between(squares, sum(len(side) - 1 for side in sides), known=known**2)
    margin = _sure(freedom) * math.sqrt(between * sum(1 / len(side) for side in sides))
    return float(after.mean() - before.mean()), margin


def _quicker_share(before: Values, after: Values) -> float:
    """Return the share of the pairs of a later and an earlier run in which the later one is the quicker one."""
    differences = np.subtract.outer(after, before)
    return float(np.mean((differences < 0) + 0.5 * (differences == 0)))


def _allowed_share(before: int, after: int) -> float:
    """Return the share that 2 of 100 draws of equal runs do not exceed (Mann and Whitney); 0 for few runs."""
    return max(0.0, 0.5 - RANKS_SURE * math.sqrt((before + after + 1) / (12 * before * after)))


def _neighbours(before: Values, after: Values, known: float, turns: Sequence[tuple[int, int]]) -> tuple[float, float]:
    changes = np.array([after[later] - before[earlier] for earlier, later in turns])
    between, freedom = _between(float(((changes - changes.mean()) ** 2).sum()), len(turns) - 1, known=2 * known**2)
    return float(changes.mean()), _sure(freedom) * math.sqrt(between / len(turns))


def _between(squares: float, freedom: int, *, known: float) -> tuple[float, int]:
    """Return the variance between runs and its degrees of freedom, from the sum of squares and what is known."""
    if freedom and squares / freedom > FAR_MORE**2 * known:
        return squares / freedom, freedom
    return (KNOWN_RUNS * known + squares) / (KNOWN_RUNS + freedom), KNOWN_RUNS + freedom


def _sure(freedom: int) -> float:
    return SURE[min(freedom, len(SURE)) - 1]


def turns_of(before: Sequence[float], after: Sequence[float]) -> list[tuple[int, int]]:
    """Return the places of (earlier, later) runs that followed one another, if both programs ran in turns; else [].

    Args:
        before: The starts of the runs of the program as it was, in seconds; NaN if unknown.
        after: The starts of the others.
    """
    by_time = sorted([*((at, 0, k) for k, at in enumerate(before)), *((at, 1, k) for k, at in enumerate(after))])
    couples = list(zip(by_time[::2], by_time[1::2], strict=False))
    is_in_turns = len(before) == len(after) and all(one[1] != other[1] for one, other in couples)
    if not is_in_turns or not all(math.isfinite(at) for at, _, _ in by_time):
        return []
    return [(one[2], other[2]) if one[1] == 0 else (other[2], one[2]) for one, other in couples]
