"""Losses that are stuck, or rise. Pure functions of losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trackside.situation.constants import AGAIN, AS_GUESSING, LEARNS, NEWEST_LOSSES, SLOWLY, TWICE
from trackside.situation.losses.losses import error_of_median
from trackside.situation.medians import median, medians_of_rows

Losses = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """The fault of a sequence of losses.

    kind           `rising` or `stuck`
    percent        the rise over `compared_with`, or the fall from it
    error_percent  the error of `percent`
    level          the present level
    compared_with  the lowest level (rising), or the level before (stuck)
    since          index of the first loss that belongs to the fault
    learned        share of the start, or of guessing, that was learned (stuck)
    is_guessing    the level is that of guessing (stuck)
    """

    kind: str
    percent: float
    error_percent: float
    level: float
    compared_with: float
    since: int
    learned: float = 0.0
    is_guessing: bool = False


def judge_losses(
    losses: Losses,
    *,
    window: int,
    diff_percent: float,
    increase_threshold_percent: float,
    guessing: float | None = None,
    level_of_guessing: Callable[[], float | None] = lambda: None,
    has_ended: bool = False,
    evenly: NDArray[np.bool_] | None = None,
) -> Answer | None:
    """Return the fault of these losses (finite, oldest first, shape (n,)), rising or stuck; None without a fault.

    window             number of losses in a window
    guessing           the loss of guessing, if validation losses were never better than that
    level_of_guessing  returns the loss of guessing (infinite: it is known to be learned); called if losses stand still
    has_ended          no further losses come
    evenly             which losses to take for halves and quarters of the run, shape (n,); None for all
    """
    if len(losses) < window:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # losses near the largest float: an infinite mean is an answer
        rising = _rising(losses, window, increase_threshold_percent)
        if rising is not None:
            return rising
        places = np.arange(len(losses)) if evenly is None else np.flatnonzero(evenly)
        stuck = _stuck(
            losses[places],
            window if len(places) == len(losses) else max(NEWEST_LOSSES, min(window, len(places) // 4)),
            between=(-increase_threshold_percent, diff_percent),
            has_ended=has_ended,
            guessing=guessing,
            level_of_guessing=level_of_guessing,
        )
        return None if stuck is None else replace(stuck, since=int(places[stuck.since]))


def _rising(losses: Losses, window: int, threshold_percent: float) -> Answer | None:
    newest = losses[-window:]
    level = median(newest)
    if level <= losses[0] - LEARNS * abs(losses[0]):
        return None
    whole = losses[: len(losses) // window * window].reshape(-1, window)
    lowest = float(medians_of_rows(whole).min())
    if losses[0] < lowest and level > TWICE * abs(losses[0]):  # it has been rising ever since
        lowest = float(losses[0])
    limit = lowest + threshold_percent / 100 * abs(lowest)
    if not newest.min() > limit:
        return None
    below = np.flatnonzero(losses <= limit)
    since = int(below[-1]) + 1 if below.size else 0
    if level < TWICE * abs(losses[0]) and _falls_again(losses[since:]):
        return None
    return Answer(
        kind="rising",
        percent=_percent(level - lowest, lowest),
        error_percent=0.0,
        level=level,
        compared_with=lowest,
        since=since,
    )


def _falls_again(risen: Losses) -> bool:
    """Return True if losses certainly fell from the first third to the last, by more than a twentieth."""
    third = len(risen) // 3
    if third < 2:
        return False
    decrease, error = _decrease(risen[:third], risen[-third:])
    return decrease - 2 * error > AGAIN


def _stuck(
    losses: Losses,
    window: int,
    *,
    between: tuple[float, float],
    has_ended: bool,
    guessing: float | None,
    level_of_guessing: Callable[[], float | None],
) -> Answer | None:
    if len(losses) < 2 * window:
        return None
    half = max(window, len(losses) // 4)
    before, after = losses[-2 * half : -half], losses[-half:]
    decrease, error = _decrease(before, after)
    largest, newest = decrease + 2 * error, median(losses[-window:])
    if has_ended and decrease < between[1] <= largest and (guessing is not None or not _certainly_fell(losses)):
        guess = level_of_guessing()
        largest = decrease if guess is None or guessing is not None or newest >= AS_GUESSING * guess else largest
    if not between[0] <= largest < between[1]:
        return None
    if guessing is None and _learns_slowly(losses, half, decrease - 2 * error):
        return None
    start = start_of(losses, window)
    if guessing is not None:
        start = min(start, guessing)
    is_guessing = False
    if fell(start, newest):
        guess = level_of_guessing()
        if guess is None or newest < AS_GUESSING * guess:
            return None
        start, is_guessing = guess, True
    return Answer(
        kind="stuck",
        percent=decrease,
        error_percent=error,
        level=median(after),
        compared_with=median(before),
        since=len(losses) - 2 * half,
        learned=(start - newest) / abs(start) if start else 0.0,
        is_guessing=is_guessing,
    )


def _certainly_fell(losses: Losses) -> bool:
    """Return True if the loss fell from the first quarter of the run to the last, by more than two standard errors."""
    quarter = len(losses) // 4
    decrease, error = _decrease(losses[:quarter], losses[-quarter:])
    return decrease > 2 * error


def _learns_slowly(losses: Losses, half: int, certain: float) -> bool:
    """Return True for a certain decrease in the newest half, or from the second quarter to the last.

    certain  the least decrease in percent over the newest half that noise allows
    """
    if certain > SLOWLY:
        return True
    if len(losses) < 4 * half:
        return False
    decrease, error = _decrease(losses[-3 * half : -2 * half], losses[-half:])
    return decrease - 2 * error > 2 * SLOWLY  # over twice the steps


def _decrease(before: Losses, after: Losses) -> tuple[float, float]:
    """Return the decrease of the median in percent of the earlier one, and its standard error."""
    first = median(before)
    error = math.hypot(error_of_median(before), error_of_median(after))
    return _percent(first - median(after), first), _percent(error, first)


def start_of(losses: Losses, window: int) -> float:
    return max(float(losses[0]), median(losses[:window]))


def fell(start: float, level: float) -> bool:
    return start - level >= LEARNS * abs(start)


def has_learned(losses: Losses, window: int) -> bool:
    return fell(start_of(losses, window), median(losses[-window:]))


def had_learned(losses: Losses, window: int) -> bool:
    """Return True if some window was a tenth below the start, whatever the loss is now."""
    whole = losses[: len(losses) // window * window].reshape(-1, window)
    return bool(len(whole)) and fell(start_of(losses, window), float(medians_of_rows(whole).min()))


def _percent(difference: float, of: float) -> float:
    return 100 * difference / abs(of) if of else math.copysign(math.inf, difference) if difference else 0.0


Steps = NDArray[np.int64]
