"""Is a training's step slower than before? The steps of some runs beside those of others, with an interval. Pure.

1. The time of a step is the training's own: without evaluations, without our own cost, and without the time in which
   other work on the machine had the processor.
2. Looked at are calm steps: those in which, and in the step before, the thread hardly waited for a processor. What
   other work leaves behind (cold caches) makes a step after a wait up to twice as long. A run with too few calm steps
   is looked at with all of its steps. Steps of less than half the usual time are of another kind (an odd last batch).
3. A number of each run is compared, in three ways (`change_of_runs` has the interval). Other work and a machine's
   changing pace make steps longer, never shorter:
   - *quick steps*: a low percentile of the steps. It is what a run does when it is left alone, and nearly the same in
     runs whose medians are tens of percent apart.
   - *quick steps in units of a phase*: the pace of the machine is the same in all phases, and divides out. The unit is
     the phase that changed as the middle one of the phases. So a change of some phases is seen beside the others, even
     on a machine that changes its pace, and a change of all phases alike is not.
   - *the average step*, in units of a phase if the phases are known: it has also what only some steps do. It varies
     most, so its whole interval must be above the limit.
4. Slower: one of them is sure to be slower, by more than the limit. Within: the quick steps are not slower by more than
   the limit. Undecided: they are, and nothing is sure. More runs on each side narrow the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from trackside.speed.performance.change_of_runs import FEWEST_TURNS, Change, Values, change_of, turns_of

FIRST_STEPS = 10  # left out: memory is allocated, kernels are chosen
FEWEST_STEPS = 30
CALM_SHARE = 0.01  # of a step, without a processor
BUSY_SHARE = 0.1  # of a run without a processor: the machine was busy
QUICK_OF_CALM, QUICK_OF_ALL = 0.01, 0.1  # the quantile that stands for a run; waits are not known well enough for less
OTHER_KIND = 0.5  # of the lower quartile: shorter steps are of another kind
BLOCKS = 8  # of a run, whose times of a step show how sure its own one is
KNOWN_DEVIATION = 0.015  # of the steps of runs of one program, on a machine of their own
KNOWN_OF_BUSY = 0.02  # more of it, for runs that never had a processor
KNOWN_OF_UNITS = 0.012  # of steps in units of a phase
KNOWN_OF_AVERAGE = 0.06  # of average steps
KNOWN_OF_AVERAGE_UNITS = 0.02  # of average steps in units of a phase
KNOWN_OF_PAIR = 0.05  # of a single pair, which shows nothing of it: 1 of 100 recorded pairs was 26 % apart
UNKNOWN_OF_PAIR = 0.25  # of a single pair that never had a processor; in proportion for less other work
FEWEST_PHASES = 3  # to tell the one that changed
LEAST_PHASE = 0.05  # of a step: a shorter phase is no unit
PHASE_STEPS = 0.9  # of the steps have a phase that is a unit
REST = "forward and the rest"  # of a step, outside of the timed phases


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
        phases: Seconds of each step in phases of its own part that exclude each other, float64 of shape (n,); NaN at a
            step without the phase. What is left of `own` is in none of them.
    """

    name: str
    seconds: Values
    own: Values
    waits: Values
    began_at: float = math.nan
    phases: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True)
class RunStep:
    """The step of one run.

    Attributes:
        run: Its name.
        milliseconds: The quantile of the steps that were looked at.
        quantile: That quantile: 0.01; 0.1 where no step had the processor.
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


class Measure(Enum):
    """Ways of comparing runs."""

    QUICK = "quick steps"
    UNITS = "quick steps in units of a phase"
    AVERAGE = "average steps"


@dataclass(frozen=True)
class Compared:
    """One way of comparing the runs.

    Attributes:
        measure: The way.
        change: The change, with its interval.
        phase: The phase that is the unit; "" for other ways.
    """

    measure: Measure
    change: Change
    phase: str = ""


@dataclass(frozen=True)
class Gate:
    """The answer.

    Attributes:
        verdict: The answer.
        limit: The change that is allowed: 0.05.
        change: The step of the later runs over that of the earlier ones, minus 1; None if they are not comparable.
        low: The lower end of the interval of the change.
        high: Its upper end.
        compared: All ways in which the runs were compared. The first one has decided: it has `change`.
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
    compared: tuple[Compared, ...] = ()
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
    sides = [[_looked_at(run, is_calm=is_calm) for run in runs] for runs in (before, after)]
    ways = tuple(_compared(sides[0], sides[1], limit))
    is_sure = [way for way in ways if way.change.is_sure and way.change.change > limit]
    if is_sure:
        verdict = GateVerdict.SLOWER
    else:
        verdict = GateVerdict.WITHIN if ways[0].change.change <= limit else GateVerdict.UNDECIDED
    decisive = is_sure[0] if is_sure else ways[0]
    return Gate(
        verdict,
        limit,
        change=decisive.change.change,
        low=decisive.change.low,
        high=decisive.change.high,
        compared=(decisive, *(way for way in ways if way is not decisive)),
        before=tuple(one.step for one in sides[0]),
        after=tuple(one.step for one in sides[1]),
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


@dataclass(frozen=True)
class _Times:
    """Times of a run, in seconds.

    Attributes:
        step: The step.
        phases: Each long phase, and the rest of the step.
    """

    step: float
    phases: Mapping[str, float]


@dataclass(frozen=True)
class _LookedAt:
    """A run.

    Attributes:
        step: The steps that are looked at.
        quick: The quantile of their times.
        average: The means of their times.
    """

    step: RunStep
    quick: _Times
    average: _Times


def _looked_at(run: TimedRun, *, is_calm: bool) -> _LookedAt:
    seconds, waits = run.seconds[FIRST_STEPS:], run.waits[FIRST_STEPS:]
    shares = np.divide(np.nan_to_num(waits), seconds, out=np.zeros(len(seconds)), where=seconds > 0)
    had = np.clip(1 - shares, 0, 1)
    own = run.own[FIRST_STEPS:] * had
    chosen = _is_calm(run) if is_calm else np.ones(len(own), np.bool_)
    chosen &= own >= OTHER_KIND * float(np.quantile(own[chosen], 0.25))
    quantile = QUICK_OF_CALM if is_calm else QUICK_OF_ALL
    steps = own[chosen]
    phases = {name: (each[FIRST_STEPS:] * had)[chosen] for name, each in run.phases.items()}
    phases[REST] = steps - sum((np.nan_to_num(each) for each in phases.values()), np.zeros(len(steps)))
    quick = _times(steps, phases, lambda times: float(np.quantile(times, quantile)))
    blocks = [float(np.quantile(block, quantile)) for block in np.array_split(steps, BLOCKS)]
    waiting = waiting_share(run)
    step = RunStep(
        run=run.name,
        milliseconds=1000 * quick.step,
        quantile=quantile,
        error=float(np.std(blocks, ddof=1)) / math.sqrt(BLOCKS) / quick.step if quick.step > 0 else 0.0,
        steps=len(steps),
        of=len(seconds),
        is_calm=is_calm and waiting is not None,
        waiting=waiting,
        began_at=run.began_at,
    )
    return _LookedAt(step, quick, _times(steps, phases, lambda times: float(times.mean())))


def _times(steps: Values, phases: Mapping[str, Values], of: Callable[[Values], float]) -> _Times:
    """Return one number for the steps, and for each phase that nearly all of them have."""
    step, every = of(steps), PHASE_STEPS * len(steps)
    known = {name: each[np.isfinite(each)] for name, each in phases.items()}
    found = {name: of(each) for name, each in known.items() if len(each) >= every}
    return _Times(step, {name: time for name, time in found.items() if time >= LEAST_PHASE * step > 0})


def _compared(before: Sequence[_LookedAt], after: Sequence[_LookedAt], limit: float) -> Iterator[Compared]:
    """Yield each way in which the runs can be compared, the quick steps first."""
    every = (*before, *after)
    turns = turns_of([one.step.began_at for one in before], [one.step.began_at for one in after])
    waiting = [one.step.waiting or 0.0 for one in every]
    busy = KNOWN_OF_BUSY * float(np.mean(waiting))
    known = KNOWN_DEVIATION + busy
    if len(every) == 2:
        known = max(KNOWN_OF_PAIR, UNKNOWN_OF_PAIR * max(waiting))
    quick = [_logarithms([one.quick.step for one in side]) for side in (before, after)]
    errors = sum(one.step.error**2 for one in every)
    whole = change_of(*quick, known=known, errors=errors, turns=turns)
    yield Compared(Measure.QUICK, whole)
    paces = quick[0], quick[1]
    unit, sides = _in_units([one.quick for one in before], [one.quick for one in after])
    if unit:
        change = change_of(*sides, known=KNOWN_OF_UNITS + busy, turns=turns, paces=paces)
        # A step that is no longer by the clock either has quicker phases, and no slower one.
        yield Compared(Measure.UNITS, replace(change, is_sure=change.is_sure and whole.change > 0), unit)
    if min(len(before), len(after)) >= FEWEST_TURNS:
        unit, sides = _in_units([one.average for one in before], [one.average for one in after])
        known = KNOWN_OF_AVERAGE_UNITS if unit else KNOWN_OF_AVERAGE
        change = change_of(*sides, known=known + busy, turns=turns, paces=paces if unit else None)
        yield Compared(Measure.AVERAGE, replace(change, is_sure=change.is_sure and change.low > limit), unit)


def _in_units(before: Sequence[_Times], after: Sequence[_Times]) -> tuple[str, list[Values]]:
    """Return the phase that is the unit, and logarithms of steps in it; without three phases "", and of plain ones."""
    sides = before, after
    steps = [_logarithms([one.step for one in side]) for side in sides]
    names = [name for name in before[0].phases if all(name in one.phases for one in (*before, *after))]
    if len(names) < FEWEST_PHASES:
        return "", steps
    rows = [np.array([_logarithms([one.phases[name] for name in names]) for one in side]) for side in sides]
    # A run's own pace is in all of its phases.
    own = [(side - side.mean(axis=1, keepdims=True)).mean(axis=0) for side in rows]
    unit = int(np.argsort(own[1] - own[0])[len(names) // 2])
    return names[unit], [step - side[:, unit] for step, side in zip(steps, rows, strict=True)]


def _logarithms(values: Sequence[float]) -> Values:
    found: Values = np.log(np.maximum(values, 1e-12))
    return found
