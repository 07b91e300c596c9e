"""Is a training's step slower than before? The steps of some runs beside those of others, with an interval. Pure.

1. The time of a step is the training's own: without evaluations, without our own cost, and without the time in which
   other work on the machine had the processor.
2. Looked at are calm steps: those in which, and in the step before, the thread hardly waited for a processor. What
   other work leaves behind (cold caches) makes a step after a wait up to twice as long. A run with too few calm steps
   is looked at with all of its steps.
3. A run has the median of these steps. If one of the runs met a busy machine, all of them have the 10th percentile in
   its place, the quick steps: beside other work even calm steps are slower, more or less of them from run to run.
4. Runs of one program differ beyond the noise of their steps: by the memory that they were given, by other work. That
   deviation is estimated from all runs, together with what was measured before (`KNOWN_DEVIATION`, `KNOWN_OF_BUSY`),
   which counts as much as `KNOWN_RUNS` runs. Runs that differ by far more show another machine: then they count alone.
   The interval is Student's, for the deviation is an estimate too. Of programs that ran in turns, each run is compared
   with its neighbour in time: both met much the same machine.
5. Slower: the change is above the limit, and its interval is above 0. Within: the change is not above the limit.
   Undecided: the change is above the limit, and its interval contains 0. More runs on each side narrow the interval.
   A single pair does not show how far runs differ: more is allowed for then, and far more beside much other work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

FIRST_STEPS = 10  # left out: memory is allocated, kernels are chosen
FEWEST_STEPS = 30
CALM_SHARE = 0.01  # of a step, without a processor
BUSY_SHARE = 0.1  # of a run without a processor: the machine was busy
MEDIAN = 0.5
QUICK = 0.1  # the quantile that stands for a run on a busy machine
BLOCKS = 8  # of a run, whose times of a step show how sure its own one is
KNOWN_DEVIATION = 0.015  # of the steps of runs of one program, on a machine of their own
KNOWN_OF_BUSY = 0.02  # more of it, for runs that never had a processor
KNOWN_RUNS = 6
FEWEST_TURNS = 3  # of both programs, one after the other, to compare each run with its neighbour
FAR_MORE = 2.0  # times the known deviation: what is known does not hold here
KNOWN_OF_PAIR = 0.025  # of a single pair, which shows nothing of it: equal processes were seen 13 % apart
UNKNOWN_OF_PAIR = 0.25  # of a single pair that never had a processor; in proportion for less other work
# Student's t: 99 of 100 changes of runs of one program are within so many deviations, by degrees of freedom from 1 on.
SURE = (
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
    2.898, 2.878, 2.861, 2.845,
)  # fmt: skip


class GateVerdict(Enum):
    """The answers of the gate."""

    WITHIN = "within"
    SLOWER = "slower"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class TimedRun:
    """The steps of a run, oldest first.

    Attributes:
        name: Its name.
        seconds: Seconds of each step, with all that belongs to it, float64 of shape (n,).
        own: Seconds of each step without evaluations and our own cost, float64 of shape (n,).
        waits: Seconds of each step without a processor, float64 of shape (n,); NaN where they are unknown.
        began_at: Its start, in seconds since the epoch; NaN if unknown.
    """

    name: str
    seconds: Values
    own: Values
    waits: Values
    began_at: float = math.nan


@dataclass(frozen=True)
class RunStep:
    """The step of one run.

    Attributes:
        run: Its name.
        milliseconds: The quantile of the steps that were looked at.
        quantile: 0.5, the median; or 0.1 beside other work.
        error: The standard error of `milliseconds`, as a share of it.
        steps: Number of steps that were looked at.
        of: Number of steps that were measured.
        is_calm: True if only calm steps were looked at.
        waiting: Share of the run without a processor; None if it is unknown.
        began_at: Its start, in seconds since the epoch; NaN if unknown.
    """

    run: str
    milliseconds: float
    quantile: float
    error: float
    steps: int
    of: int
    is_calm: bool
    waiting: float | None
    began_at: float = math.nan


@dataclass(frozen=True)
class Gate:
    """The answer.

    Attributes:
        verdict: The answer.
        limit: The change that is allowed: 0.05.
        change: The step of the later runs over that of the earlier ones, minus 1; None if they are not comparable.
        low: The lower end of the interval of the change.
        high: Its upper end.
        before: The earlier runs.
        after: The later runs.
        reasons: Why the runs are not comparable.
        notes: Observations that change no verdict.
    """

    verdict: GateVerdict
    limit: float
    change: float | None = None
    low: float | None = None
    high: float | None = None
    before: tuple[RunStep, ...] = ()
    after: tuple[RunStep, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def judge_step_time(before: Sequence[TimedRun], after: Sequence[TimedRun], *, limit: float) -> Gate:
    """Return whether the later runs are slower than the earlier ones.

    Args:
        before: Runs of the program as it was.
        after: Runs of the program as it is.
        limit: The change that is allowed: 0.05 for 5 %.
    """
    short = [
        f"{run.name} has {len(run.seconds)} timed steps; {FIRST_STEPS + FEWEST_STEPS} are needed"
        for run in (*before, *after)
        if len(run.seconds) < FIRST_STEPS + FEWEST_STEPS
    ]
    if short:
        return Gate(GateVerdict.NOT_COMPARABLE, limit, reasons=tuple(short))
    is_calm = all(int(_is_calm(run).sum()) >= FEWEST_STEPS for run in (*before, *after))
    is_busy = any((waiting_share(run) or 0.0) >= BUSY_SHARE for run in (*before, *after))
    quantile = QUICK if is_busy else MEDIAN
    earlier, later = ([_step(run, quantile, is_calm=is_calm) for run in runs] for runs in (before, after))
    change, margin = _change(earlier, later)
    low, high = change - margin, change + margin
    if change <= math.log1p(limit):
        verdict = GateVerdict.WITHIN
    else:
        verdict = GateVerdict.SLOWER if low > 0 else GateVerdict.UNDECIDED
    return Gate(
        verdict,
        limit,
        change=math.expm1(change),
        low=math.expm1(low),
        high=math.expm1(high),
        before=tuple(earlier),
        after=tuple(later),
    )


def _is_calm(run: TimedRun) -> NDArray[np.bool_]:
    """Return True for each step, without the first ones, that had the processor, as did the step before."""
    shares = np.divide(run.waits, run.seconds, out=np.ones(len(run.seconds)), where=run.seconds > 0)
    had = ~(shares >= CALM_SHARE)  # unknown waits are none
    found: NDArray[np.bool_] = (had[1:] & had[:-1])[FIRST_STEPS - 1 :]
    return found


def waiting_share(run: TimedRun) -> float | None:
    """Return the share of a run in which other work had the processor; None if it is unknown."""
    seconds, waits = run.seconds[FIRST_STEPS:], run.waits[FIRST_STEPS:]
    if not np.isfinite(waits).any() or seconds.sum() <= 0:
        return None
    return float(np.nansum(waits) / seconds.sum())


def _step(run: TimedRun, quantile: float, *, is_calm: bool) -> RunStep:
    seconds, waits = run.seconds[FIRST_STEPS:], run.waits[FIRST_STEPS:]
    shares = np.divide(np.nan_to_num(waits), seconds, out=np.zeros(len(seconds)), where=seconds > 0)
    own = run.own[FIRST_STEPS:] * np.clip(1 - shares, 0, 1)
    looked_at = own[_is_calm(run)] if is_calm else own
    of_run = float(np.quantile(looked_at, quantile))
    blocks = [float(np.quantile(block, quantile)) for block in np.array_split(looked_at, BLOCKS)]
    waiting = waiting_share(run)
    return RunStep(
        run=run.name,
        milliseconds=1000 * of_run,
        quantile=quantile,
        error=float(np.std(blocks, ddof=1)) / math.sqrt(BLOCKS) / of_run if of_run > 0 else 0.0,
        steps=len(looked_at),
        of=len(seconds),
        is_calm=is_calm and waiting is not None,
        waiting=waiting,
        began_at=run.began_at,
    )


def _change(before: Sequence[RunStep], after: Sequence[RunStep]) -> tuple[float, float]:
    """Return the logarithm of the change, and the half of its interval."""
    busy = float(np.mean([run.waiting or 0.0 for run in (*before, *after)]))
    known = (KNOWN_DEVIATION + KNOWN_OF_BUSY * busy) ** 2
    turns = _turns(before, after)
    if turns:
        changes = np.array([_logarithm(later) - _logarithm(earlier) for earlier, later in turns])
        squares, freedom = float(((changes - changes.mean()) ** 2).sum()), len(turns) - 1
        between, freedom = _between(squares, freedom, known=2 * known)
        return float(changes.mean()), _margin(between / len(turns), freedom)
    if len(before) + len(after) == 2:
        known = max(KNOWN_OF_PAIR, UNKNOWN_OF_PAIR * max(run.waiting or 0.0 for run in (*before, *after))) ** 2
    sides = [np.array([_logarithm(run) for run in side]) for side in (before, after)]
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides)
    between, freedom = _between(squares, len(before) + len(after) - 2, known=known)
    variance = sum(sum(between + run.error**2 for run in side) / len(side) ** 2 for side in (before, after))
    return float(sides[1].mean() - sides[0].mean()), _margin(variance, freedom)


def _turns(before: Sequence[RunStep], after: Sequence[RunStep]) -> list[tuple[RunStep, RunStep]]:
    """Return the pairs of runs that followed one another, if both programs ran in turns; else []."""
    by_time = sorted([*((run, 0) for run in before), *((run, 1) for run in after)], key=lambda one: one[0].began_at)
    couples = list(zip(by_time[::2], by_time[1::2], strict=False))
    is_in_turns = len(before) == len(after) >= FEWEST_TURNS and all(one[1] != other[1] for one, other in couples)
    if not is_in_turns or not all(math.isfinite(run.began_at) for run, _ in by_time):
        return []
    return [(one[0], other[0]) if one[1] == 0 else (other[0], one[0]) for one, other in couples]


def _logarithm(run: RunStep) -> float:
    return math.log(max(run.milliseconds, 1e-9))


def _between(squares: float, freedom: int, *, known: float) -> tuple[float, int]:
    """Return the variance between runs and its degrees of freedom, from the sum of squares and what is known."""
    if freedom and squares / freedom > FAR_MORE**2 * known:
        return squares / freedom, freedom
    return (KNOWN_RUNS * known + squares) / (KNOWN_RUNS + freedom), KNOWN_RUNS + freedom


def _margin(variance: float, freedom: int) -> float:
    return SURE[min(freedom, len(SURE)) - 1] * math.sqrt(variance)
