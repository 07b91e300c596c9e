"""Changes at some steps: every recorded number against the steps right before, the most unusual first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.trial.tensors.buckets import Buckets
from trackside.trial.trial import Trial
from trackside.views.report.machine import machine_curves

BASELINE = 4  # times as many steps as the window, right before it
PIECES = 8  # of the window; the baseline has as many pieces of the same length as fit
FEWEST_PIECES = 4  # of a baseline, without which nothing is compared
MOST_CHANGES = 40
UNUSUAL = 4.0  # spreads of the baseline from which on a number has changed
_PLAIN = 100.0  # spreads from which on a change is plain: of those the earliest stands first
_LOG_FLOOR, _FLOOR = 0.01, 1e-3  # least spread: decades of a positive number, or share of its size

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Change:
    """One number that is not as it was.

    name        of the tensor, or of the metric of a machine
    statistic   "" for a machine's
    worker      name of the process; "" for a machine's
    before, here   median of the means of pieces
    low, high   least and most in the window
    score       distance of the window from the baseline, in spreads of the baseline; infinite for a number that is no
                longer finite
    first_step  first step of the window at which the number is beyond the baseline
    """

    name: str
    statistic: str
    worker: str
    before: float
    here: float
    low: float
    high: float
    score: float
    first_step: int


@dataclass(frozen=True)
class Changes:
    """The changes at `steps`, against `baseline` (first and last step of each), the most unusual first.

    compared   number of series with numbers in both
    left_out   changes beyond `MOST_CHANGES`
    """

    steps: tuple[int, int]
    baseline: tuple[int, int]
    found: tuple[Change, ...]
    compared: int
    left_out: int = 0


def changes(trial: Trial, steps: tuple[int, int]) -> Changes | None:
    """Return the changes at these steps; None if too few steps lie before them.

    Args:
        trial: The run.
        steps: First and last training step of the window.
    """
    first, last = steps
    length = last - first + 1
    size = max(1, math.ceil(length / PIECES))
    pieces = min(BASELINE * math.ceil(length / size), first // size)
    if pieces < FEWEST_PIECES:
        return None
    begin = first - pieces * size
    edges = np.unique(np.concatenate([np.arange(begin, first, size), np.arange(first, last + 1, size), [last + 1]]))
    compared, found = 0, []
    for name, statistic, worker, numbers in _series(trial, edges):
        change = _change(numbers, first)
        if change is None:
            continue
        compared += 1
        before, here, low, high, score, at = change
        if score >= UNUSUAL:
            found.append(Change(name, statistic, worker, before, here, low, high, score, at))
    found.sort(key=lambda one: (-min(one.score, _PLAIN), one.first_step, one.name, one.statistic))
    shown = tuple(found[:MOST_CHANGES])
    return Changes(steps, (begin, first - 1), shown, compared, len(found) - len(shown))


def _series(trial: Trial, edges: NDArray[np.int64]) -> Iterator[tuple[str, str, str, Buckets]]:
    by_statistic: dict[str, list[str]] = {}
    columns = trial.parts.columns
    known = set(trial.names)
    for name, statistics in columns.recorded_statistics().items():
        for statistic in statistics if name in known else ():
            by_statistic.setdefault(statistic, []).append(name)
    several = len(trial.workers) > 1
    for statistic, names in sorted(by_statistic.items()):
        for name, by_worker in columns.in_buckets(sorted(names), statistic, edges, mode="TRAIN").items():
            for worker, numbers in by_worker.items():
                yield name, statistic, worker if several else "", numbers
    for title, numbers in machine_curves(trial, (int(edges[0]), int(edges[-1]) - 1)):
        yield title, "", "", numbers


def _change(numbers: Buckets, first: int) -> tuple[float, float, float, float, float, int] | None:
    """Return before, here, least, most, score and the first step beyond; None without numbers in both parts."""
    is_here = numbers.first >= first
    if not is_here.any():
        return None
    before, here = numbers.mean[~is_here], numbers.mean[is_here]
    is_known = np.isfinite(before)
    if is_known.sum() < FEWEST_PIECES:
        return None
    broken = numbers.is_broken & is_here
    if not np.isfinite(here).any():
        at = int(numbers.first[broken][0])
        return float(np.median(before[is_known])), math.nan, math.nan, math.nan, math.inf, at
    low, high = float(np.nanmin(numbers.low[is_here])), float(np.nanmax(numbers.high[is_here]))
    middle = float(np.median(before[is_known]))
    now = float(np.median(here[np.isfinite(here)]))
    if broken.any() and not numbers.is_broken[~is_here].any():
        return middle, now, low, high, math.inf, int(numbers.first[broken][0])
    distances = np.zeros(int(is_here.sum()))
    for each, sign in ((numbers.mean, 0), (numbers.high, 1), (numbers.low, -1)):
        distances = np.fmax(distances, _distances(each[~is_here], each[is_here], sign))
    at = int(np.argmax(distances >= UNUSUAL)) if (distances >= UNUSUAL).any() else int(np.argmax(distances))
    return middle, now, low, high, float(distances.max()), int(numbers.first[is_here][at])


def _distances(before: Numbers, here: Numbers, sign: int) -> Numbers:
    """Return how far each piece is from the baseline, in its spreads; `sign`: 1 above, -1 below, 0 either."""
    is_positive = bool(np.all(before[np.isfinite(before)] > 0)) and bool(np.all(here[np.isfinite(here)] > 0))
    with np.errstate(all="ignore"):
        known, those = (np.log10(before), np.log10(here)) if is_positive else (before, here)
    known = known[np.isfinite(known)]
    if not len(known):
        return np.zeros(len(here))
    middle = float(np.median(known))
    deviation = 1.4826 * float(np.median(np.abs(known - middle)))
    reach = float(np.abs(known - middle).max()) * 2 / UNUSUAL  # unusual is twice as far as the baseline itself went
    floor = _LOG_FLOOR if is_positive else _FLOOR * max(abs(middle), 1e-12)
    with np.errstate(all="ignore"):
        distances = (those - middle) / max(deviation, reach, floor)
    distances = np.abs(distances) if sign == 0 else distances * sign
    return np.where(np.isfinite(distances), np.maximum(distances, 0.0), 0.0)
