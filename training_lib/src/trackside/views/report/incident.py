"""How a problem began: the recorded signals in the order in which each left its own baseline.

A baseline is a straight line through the numbers before the problem, with their spread; a number that is not finite is
always outside. What left first is nearest to the cause. Pure but for the reading of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import ConfigurationError
from trackside.contracts.issue_group import IssueGroup
from trackside.contracts.run.checkpoint import Checkpoint, newest_before
from trackside.contracts.run.recorded_names import BATCH, BATCH_NUMBER, EPOCH, STEP_SECONDS
from trackside.trial.tensors.buckets import Buckets, edges_of
from trackside.trial.trial import Trial

MOST_INCIDENTS = 6
MOST_POINTS = 600  # of a signal; a longer run is read in buckets of several steps
MOST_BATCHES = 8
_FEWEST = 8  # numbers of a baseline
_SPREADS = 6.0  # so many from the line is outside
_LEAST_DECADES = 0.15  # or less than this, for a positive signal: a factor of 1.4
_LEAST_SHARE = 0.25  # of its size, for another signal
_STAYS = 0.8  # share of the numbers from there to the problem that are outside, too
_AFTER = 0.25  # of the steps before the problem: so far after its detection signals are followed
_LEAST_AFTER = 10
_SETTINGS = "hyperparameters/"

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Signal:
    """One recorded number over the steps around a problem.

    name        the tensor, or a word
    statistic   the number of it
    left        first and last step of the numbers with which it left its baseline; None if it stayed
    before      its size on the baseline just before
    after       its size furthest from the baseline, NaN where it was not finite
    steps, values   float64 of shape (n,)
    """

    name: str
    statistic: str
    left: tuple[int, int] | None
    before: float
    after: float
    steps: NDArray[np.int64]
    values: Numbers


@dataclass(frozen=True, eq=False)
class Incident:
    """How one problem began.

    group     the problem
    steps     first and last step that were looked at
    since     the step from which it holds
    signals   those that left their baseline, the first one first: one for each tensor
    stayed    number of signals that stayed on theirs
    young     True if too few numbers were recorded before the problem for any baseline
    batches   (step, epoch, number in the epoch, fingerprint) of the batches around the first departure
    saved     the last step before the first departure at which whole weights were saved; None without any
    written   the newest checkpoint of the script from before the first departure; None if none is known
    """

    group: IssueGroup
    steps: tuple[int, int]
    since: int
    signals: tuple[Signal, ...]
    stayed: int
    young: bool
    batches: tuple[tuple[int, int | None, int | None, int | None], ...]
    saved: int | None
    written: Checkpoint | None = None

    @property
    def first_left(self) -> int:
        """The step at which the first signal left its baseline, or from which the problem holds."""
        lefts = [signal.left[0] for signal in self.signals if signal.left is not None]
        return min([self.since, *lefts])


def incidents(trial: Trial, problems: Sequence[IssueGroup]) -> tuple[Incident, ...]:
    """Return how the standing problems began. Errors: those of the store."""
    standing = [group for group in problems if group.standing][:MOST_INCIDENTS]
    return tuple(_incident(trial, group) for group in standing) if trial.recorded_through >= 0 else ()


def _incident(trial: Trial, group: IssueGroup) -> Incident:
    first_issue = min(group.issues, key=lambda issue: issue.since_step)
    since = max(0, first_issue.since_step)
    last = min(trial.recorded_through, first_issue.step + max(_LEAST_AFTER, int(_AFTER * since)))
    edges = edges_of(0, max(last, 1), MOST_POINTS)
    found = list(_signals(trial, edges, since))
    left = _first_of_each_tensor([signal for signal in found if signal.left is not None])
    incident = Incident(group, (0, last), since, left, sum(one.left is None for one in found), not found, (), None)
    at = incident.first_left
    return Incident(
        group,
        (0, last),
        since,
        left,
        incident.stayed,
        not found,
        tuple(_batches(trial, at)),
        _saved_before(trial, at),
        newest_before(at, trial.parts.checkpoints.all()),
    )


def departure(steps: NDArray[np.int64], values: Numbers, since: int) -> int | None:
    """Return the place of the number with which a signal left its baseline for good; None if it stayed.

    Args:
        steps: Ascending, of shape (n,).
        values: Of shape (n,); NaN and infinity count as outside.
        since: The step from which the problem holds.

    Raises:
        ValueError: Fewer than `_FEWEST` finite numbers lie before the problem.
    """
    before = int(np.searchsorted(steps, since))
    part = _baseline(steps[:before], since)
    finite = np.isfinite(values)
    # A zero among positive numbers is infinitely far below them.
    is_positive = bool((values[finite] >= 0).all() and (values[part][finite[part]] > 0).all())
    with np.errstate(all="ignore"):
        y = np.log10(values) if is_positive else values.astype(np.float64)
    x = steps.astype(np.float64)
    known = np.isfinite(y[part])
    if int(known.sum()) < _FEWEST:
        raise ValueError("too few numbers before the problem")
    slope, level = np.polyfit(x[part][known], y[part][known], 1)
    low, high = float(y[part][known].min()), float(y[part][known].max())
    room = (high - low) / 2  # a curve that levels off does not follow its line for ever
    rest = y - np.clip(slope * x + level, low - room, high + room)
    spread = 1.4826 * float(np.median(np.abs(rest[part][known])))
    least = _LEAST_DECADES if is_positive else _LEAST_SHARE * float(np.median(np.abs(y[part][known])))
    length = max(1.0, x[part][-1] - x[part][0])
    beyond = np.maximum(0.0, x - x[part][-1]) / length  # the line is less sure the further it is drawn
    outside = ~np.isfinite(rest) | (np.abs(rest) > np.maximum(_SPREADS * spread, least) * (1 + beyond))
    return _stays_outside(outside, part.stop)


def _baseline(steps: NDArray[np.int64], since: int) -> slice:
    """Return the numbers of the second and third quarter of the steps before the problem.

    The beginning of a training is another one than the rest of it, and the last quarter may have led to the problem. A
    number that is measured often at first and seldom later must not be judged by its beginning.
    """
    first, end = np.searchsorted(steps, (since // 4, since * 3 // 4))
    return slice(int(first), int(end))


def _stays_outside(outside: NDArray[np.bool_], start: int) -> int | None:
    """Return the first place from `start` on that is outside, and most later ones with it."""
    count = len(outside)
    shares = np.cumsum(outside[::-1])[::-1] / np.arange(count, 0, -1)
    fits = np.flatnonzero(outside & (shares >= _STAYS) & (np.arange(count) >= start))
    return int(fits[0]) if len(fits) else None


def _signals(trial: Trial, edges: NDArray[np.int64], since: int) -> Iterator[Signal]:
    """Yield the signals with enough numbers before the problem for a baseline."""
    for names, statistic in _looked_at(trial):
        try:
            found = trial.parts.columns.in_buckets(names, statistic, edges, mode="TRAIN")
        except ConfigurationError:  # not recorded by this run
            continue
        for name in names:
            for buckets in list(found.get(name, {}).values())[:1]:
                signal = _signal(name, statistic, buckets, since)
                if signal is not None:
                    yield signal


def _looked_at(trial: Trial) -> Iterator[tuple[tuple[str, ...], str]]:
    gradients = trial.tensor_names(collection="gradients")
    parameters = (*trial.tensor_names(collection="weights"), *trial.tensor_names(collection="biases"))
    rates = tuple(name for name in trial.names if name.startswith(_SETTINGS) and name.endswith("/lr"))
    yield rates, "mean"
    yield gradients, "nonfinite_count"
    yield gradients, "l2"
    yield gradients, "zero_share"
    yield parameters, "update_ratio"
    yield parameters, "l2"
    yield trial.tensor_names(collection="losses"), "mean"
    yield tuple(name for name in (STEP_SECONDS,) if name in trial.names), "mean"


def _signal(name: str, statistic: str, found: Buckets, since: int) -> Signal | None:
    values = np.where(found.is_broken, np.nan, found.mean)
    try:
        place = departure(found.first, values, since)
    except ValueError:
        return None
    before = values[: place if place is not None else len(values)]
    base = float(np.nanmedian(before[-max(_FEWEST, len(before) // 4) :]))
    if place is None:
        return Signal(name, statistic, None, base, base, found.first, values)
    later = values[place:]
    broken = not bool(np.isfinite(later).all())
    furthest = float("nan") if broken else float(later[int(np.argmax(np.abs(_decades(later) - _decades(base))))])
    steps = int(found.first[place]), int(found.last[place])
    return Signal(name, statistic, steps, base, furthest, found.first, values)


def _decades(values: Numbers | float) -> Numbers:
    with np.errstate(all="ignore"):
        return np.log10(np.maximum(np.abs(values), 1e-45))


def _first_of_each_tensor(signals: Sequence[Signal]) -> tuple[Signal, ...]:
    first: dict[str, Signal] = {}
    for signal in sorted(signals, key=_order):
        first.setdefault(signal.name.removeprefix("gradient/"), signal)
    return tuple(first.values())


def _order(signal: Signal) -> tuple[int, bool, float]:
    """Order by step; of one step a setting first, which nothing in the model changes; then the largest change."""
    change = math.inf if math.isnan(signal.after) else abs(float(_decades(signal.after) - _decades(signal.before)))
    return (signal.left or (0, 0))[0], not signal.name.startswith(_SETTINGS), -change


def _batches(trial: Trial, step: int) -> Iterator[tuple[int, int | None, int | None, int | None]]:
    first, last = max(0, step - 2), step + MOST_BATCHES - 3
    numbers = [_at_steps(trial, name, first, last) for name in (EPOCH, BATCH_NUMBER, BATCH)]
    for one in sorted({step for found in numbers for step in found}):
        epoch, number, print_of_it = (found.get(one) for found in numbers)
        yield one, epoch, number, print_of_it


def _at_steps(trial: Trial, name: str, first: int, last: int) -> dict[int, int]:
    if name not in trial.names:
        return {}
    found: dict[int, int] = {}
    for _, numbers in trial.parts.columns.pieces([name], "mean", first=first, last=last, mode="TRAIN"):
        for steps, values in numbers.values():
            inside = (steps >= first) & np.isfinite(values)
            found.update(zip(steps[inside].tolist(), values[inside].astype(int).tolist(), strict=True))
    return found


def _saved_before(trial: Trial, step: int) -> int | None:
    names = trial.tensor_names(collection="weights")
    saved = trial.tensor(names[0]).steps if names else ()
    return max((one for one in saved if one < step and trial.parts.steps.is_saved(one)), default=None)
