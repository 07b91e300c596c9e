"""A loss that has risen: for how long, and the reasons that show it to hurt. Pure functions of a window."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np

from trackside.situation.constants import (
    BEYOND,
    ENOUGH_STEPS,
    HALF_AS_MUCH_AGAIN,
    LOOKED_BACK,
    NEWEST,
    SEVERAL,
    SHORT_STRETCH,
)
from trackside.situation.losses.losses import error_of_median
from trackside.situation.losses.spikes import (
    Losses,
    first_loss,
    first_of_spike,
    highest_level,
    level_left,
    level_of,
    rise_allowed,
)
from trackside.situation.measurements import Evidence
from trackside.situation.medians import median
from trackside.situation.update_growth import (
    growth_of_updates,
    is_driven,
    is_mostly_of_classes,
    main_term_rose,
    may_move,
    risen_rate,
)
from trackside.trial.window import Column, Window


class Reason(IntEnum):
    """The evidence that a spike hurts the training. The numbers stand in verdicts and in stored progress."""

    UNKNOWN = 0
    BY_UPDATES = 1
    BY_RATE = 2
    LOST = 3
    BROKEN_LOSS = 4
    MOVED = 5


class MainTerm(IntEnum):
    """The course of the largest term of a sum. The numbers stand in verdicts."""

    STAYS = 0
    RISEN = 1
    NOT_SEEN = 2


DRIVEN = frozenset([Reason.BY_UPDATES, Reason.BY_RATE])


@dataclass(frozen=True)
class Spike:
    """A spike that a loss has not come back from.

    since    first step
    level    level before
    allowed  rise above it that is none
    highest  highest level of the run before
    reason   evidence that the training is being hurt
    broken   number of newest losses in a row that are not finite
    """

    since: int
    level: float
    allowed: float
    highest: float
    reason: Reason = Reason.UNKNOWN
    broken: int = 0


@dataclass(frozen=True)
class OpenSpikes:
    """The spikes that the losses have not come back from.

    by_loss  the spike of each "<tensor> <worker>"
    began    step at which the newest part of the model began to train; 0 without one that began late
    """

    by_loss: Mapping[str, Spike] = field(default_factory=dict)
    began: int = 0


def new_spike(
    column: Column,
    *,
    threshold: float,
    rise_percent: float,
    window_losses: int,
    level_times: float,
    is_looking: bool,
) -> Spike | None:
    """Return the spike that the newest loss completes; None without one.

    Args:
        column: The losses.
        threshold: The sum of deviations above which it is one.
        rise_percent: The least rise above the recent level, in percent.
        window_losses: The number of losses that make up the recent level.
        level_times: How many times the lowest level of the run the newest losses must be, else.
        is_looking: False to leave the latter out where the run is longer than `window_losses`.
    """
    values, steps, allowed = column.values, column.steps, rise_percent / 100
    at = first_of_spike(values, threshold=threshold, rise_percent=rise_percent, window_losses=window_losses)
    if at is not None and not (values < 0).any():
        level = min(level_of(values[max(0, end - window_losses) : end]) for end in (at, len(values) - 1))
        return Spike(int(steps[at]), level, rise_allowed(level, values, allowed), highest_level(values[:at]))
    best = level_left(values, times=level_times) if is_looking or len(values) <= window_losses else None
    if best is None:
        return None
    at = int(np.flatnonzero(values <= level_times * best)[-1]) + 1
    return Spike(int(steps[at]), best, rise_allowed(best, values, allowed), highest_level(values[:at]))


def broken_spike(column: Column, spike: Spike | None) -> Spike:
    """Return the spike of a loss that is not finite."""
    values = column.values
    sound = np.flatnonzero(np.isfinite(values))
    in_a_row = int(len(values) - 1 - sound[-1]) if sound.size else len(values)
    if spike is None:
        level = level_of(values[-101:-1])
        spike = Spike(int(column.steps[-1]), 0.0 if math.isnan(level) else level, 0.0, highest_level(values))
    return replace(spike, reason=Reason.BROKEN_LOSS, broken=in_a_row)


def is_back(values: Losses, spike: Spike) -> bool:
    newest = values[-SHORT_STRETCH:]
    return bool(np.isfinite(newest).all()) and median(newest) <= spike.level + spike.allowed


def is_regime(column: Column, spike: Spike, window: Window) -> bool:
    """Return True if a higher rate has begun a training of its own: it stays, and the loss falls by it.

    Most of what was learned must be kept. A rate that was raised by mistake leaves the loss where it threw it.
    """
    risen = column.values[column.steps >= spike.since]
    if spike.reason is not Reason.BY_RATE or len(risen) < ENOUGH_STEPS or not np.isfinite(risen).all():
        return False
    if any(np.ptp(rate.values[rate.steps > spike.since]) > 0 for rate in Evidence(window).learning_rates):
        return False
    third = len(risen) // 3
    first, newest = risen[:third], risen[-third:]
    fall = median(first) - median(newest)
    is_kept = median(newest) < (spike.level + first_loss(column.values)) / 2
    return is_kept and fall > 2 * math.hypot(error_of_median(first), error_of_median(newest))


def main_term_of(window: Window, column: Column, since: int) -> MainTerm | None:
    """Return what the looks at the terms of a sum show; None for a loss without looks."""
    rose = main_term_rose(window, column.tensor, worker=column.worker, since=since)
    if rose is not None:
        return MainTerm.RISEN if rose else MainTerm.STAYS
    has_looks = main_term_rose(window, column.tensor, worker=column.worker, since=SEVERAL) is not None
    return MainTerm.NOT_SEEN if has_looks else None


def steps_above(window: Window, column: Column, level: float) -> int:
    """Return the number of newest watched steps at which the loss was above a level, or not finite."""
    below = np.flatnonzero(column.values <= level)
    return window.watched_since(int(column.steps[below[-1]])) if below.size else 0


def reason_of(column: Column, spike: Spike, window: Window, *, times: float) -> Reason:
    """Return why a spike hurts the training; `Reason.UNKNOWN` where nothing but the loss shows it."""
    growth = growth_of_updates(window, worker=column.worker)
    by_updates = growth is not None and growth.now > BEYOND * growth.peak
    by_rate = not by_updates and risen_rate(window, before=spike.since - LOOKED_BACK) is not None
    far, now = (float(column.values[-count:].min()) for count in (NEWEST, SHORT_STRETCH))
    many_times = max(times * spike.level, 2 * first_loss(column.values))
    is_lost = far > HALF_AS_MUCH_AGAIN * spike.highest or now > spike.highest or far > many_times
    loss, worker = column.tensor, column.worker
    if (is_lost or by_updates or by_rate) and may_move(window, loss, worker=worker):
        hurts = is_lost and is_driven(window, worker=worker)
        if not hurts and not ((by_updates or by_rate) and is_mostly_of_classes(window, loss, worker=worker)):
            return Reason.UNKNOWN
    if by_updates or by_rate:
        return Reason.BY_UPDATES if by_updates else Reason.BY_RATE
    return Reason.LOST if is_lost else Reason.UNKNOWN
