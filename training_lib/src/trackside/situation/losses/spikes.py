"""Spikes of a loss: where it left its recent level, and its levels. Pure functions of losses."""

from __future__ import annotations

import math
import statistics

import numpy as np
from numpy.typing import NDArray

from trackside.situation.constants import (
    A_HAIR,
    CERTAIN,
    ENOUGH_STEPS,
    LOOKED_BACK,
    MAD_TO_DEVIATION,
    NEWEST,
    ONE_DEVIATION,
)
from trackside.situation.medians import medians_of_three

Losses = NDArray[np.float64]


def first_of_spike(losses: Losses, *, threshold: float, rise_percent: float, window_losses: int = 100) -> int | None:
    """Return the index of the first loss of the spike that the newest loss completes; None without one.

    Args:
        losses: The losses, oldest first, shape (n,).
        threshold: The sum of deviations above which it fires.
        rise_percent: The least rise above the recent level, in percent.
        window_losses: The number of losses that make up the recent level.
    """
    end = len(losses)
    if end <= ENOUGH_STEPS or not _is_above(losses, end - 1, rise_percent / 100, window_losses):
        return None
    total, first = 0.0, end - 1
    begin = max(ENOUGH_STEPS, end - LOOKED_BACK)
    levels = _levels_before(losses, begin, window_losses)
    for at, (level, spread) in enumerate(levels, begin):
        deviation = MAD_TO_DEVIATION * spread
        above = (float(losses[at]) - level) / deviation if deviation > 0 else math.copysign(CERTAIN, losses[at] - level)
        if not math.isfinite(above):
            return None
        if total == 0.0:
            first = at
        total = max(0.0, total + min(CERTAIN, max(-CERTAIN, above)) - ONE_DEVIATION)
    return first if total > threshold else None


def _levels_before(losses: Losses, begin: int, window_losses: int) -> list[tuple[float, float]]:
    """Return for each loss from `begin` on the median of the losses before, and that of their distances from it."""
    seen = losses[max(0, begin - window_losses) : -1]
    if begin < window_losses or not np.isfinite(seen).all():
        windows = [losses[max(0, at - window_losses) : at] for at in range(begin, len(losses))]
        return [(level := level_of(before), level_of(np.abs(before - level))) for before in windows]
    half, every = window_losses // 2, np.lib.stride_tricks.sliding_window_view(seen, window_losses)
    levels = np.partition(every, half, axis=1)[:, half]
    spreads = np.partition(np.abs(every - levels[:, None]), half, axis=1)[:, half]
    return list(zip(levels.tolist(), spreads.tolist(), strict=True))


def level_left(losses: Losses, *, times: float) -> float | None:
    """Return the lowest level of the losses, if the newest ones are many times as large; else None.

    A level is the median of three successive losses. The newest three must all be above `times` the lowest, and half of
    the way from the first loss down to it.

    Args:
        losses: The losses, oldest first, shape (n,); none is negative.
        times: How many times the lowest level they must be.
    """
    finite = losses[np.isfinite(losses)]
    if len(finite) < 2 * NEWEST - 1 or float(finite.min()) < 0:
        return None
    now = float(finite[-NEWEST:].min())
    if now <= times * float(finite.min()):  # the lowest level is no lower
        return None
    best = float(medians_of_three(finite).min())
    return best if now > times * best and now > (best + first_loss(finite)) / 2 else None


def _is_above(losses: Losses, at: int, allowed: float, window_losses: int) -> bool:
    before, loss = losses[max(0, at - window_losses) : at], float(losses[at])
    if _is_half_above(before, _highest_level_below(loss, first_loss(losses), allowed)):  # as at most steps
        return False
    level = level_of(before)
    return loss > level + rise_allowed(level, losses, allowed)


def _highest_level_below(loss: float, first: float, allowed: float) -> float:
    """Return a level from which on a loss does not stand above it by `rise_allowed`; a little more, for rounding."""
    by_level = loss / (1 + allowed) if loss > 0 else loss
    by_first = (loss - allowed * first) / (1 - allowed) if allowed < 1 else by_level
    return min(by_level, by_first) + A_HAIR * (abs(loss) + abs(first))


def _is_half_above(losses: Losses, level: float) -> bool:
    """Return True if `level_of` of the losses is surely `level` or more. Counting is quicker than sorting."""
    count = len(losses)
    if np.count_nonzero(losses >= level) < count - count // 2:
        return False
    return int(np.count_nonzero(np.isfinite(losses))) == count


def rise_allowed(level: float, losses: Losses, allowed: float) -> float:
    """Return the rise above a level that is no spike: a share of it, and of all that was learned so far."""
    return allowed * max(abs(level), first_loss(losses) - level)


def first_loss(losses: Losses) -> float:
    """Return the loss at which the run began: the first one, or the median of the first three if that is larger."""
    first = [loss for loss in losses[:NEWEST].tolist() if math.isfinite(loss)]
    if len(first) == NEWEST:
        return float(max(first[0], sorted(first)[1]))
    return max(first[0], statistics.median(first)) if first else 0.0


def highest_level(losses: Losses) -> float:
    """Return the largest level of the finite losses: of medians of three successive ones."""
    finite = losses[np.isfinite(losses)]
    if len(finite) < NEWEST:
        return float(finite.max()) if len(finite) else math.inf
    return float(medians_of_three(finite).max())


def level_of(losses: Losses) -> float:
    """Return the median of the finite losses; NaN for none."""
    finite = losses if np.isfinite(losses).all() else losses[np.isfinite(losses)]
    if not len(finite):
        return math.nan
    half, ordered = len(finite) // 2, finite.copy()
    ordered.partition(half)
    return float(ordered[half])
