"""The steps of a log: its own numbers where it has any; else its rows, or its epochs, are counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trackside.imported.log import Log
from trackside.imported.names import Meanings, words_of
from trackside.imported.points import Points, in_order

STEPS, EPOCHS, ROWS, ROUNDS = "steps", "epochs", "rows", "rounds"
_FEW = 2  # points, of which nothing can be a summary
_DIGITS_OF_CHANCE = 4  # decimals: numbers with fewer repeat by chance
_MOST_STEP = 2**53  # as a number of a log is a float


@dataclass(frozen=True)
class NumberedLog:
    """A log with a number for each point.

    log        as it was read
    meanings   what its series are
    unit       what the numbers count: steps of the training, epochs, rounds of boosting, or rows of the log
    series     points by name, ascending by their numbers
    tensors    numbers of histograms, as in the log, ascending by their steps
    repeated   number of losses that a later part of the log holds again, and that are left out
    """

    log: Log
    meanings: Meanings
    unit: str
    series: Mapping[str, Points]
    repeated: int = 0
    tensors: Mapping[tuple[str, str], Points] = field(default_factory=dict)

    @property
    def interval(self) -> int:
        """The usual distance between two points of the training loss; 1 without one."""
        columns = list(self.meanings.losses.values()) or [one.column for one in self.meanings.evaluations]
        steps = self.series[columns[0]].steps if columns else np.empty(0, np.int64)
        return max(1, int(np.median(np.diff(steps)))) if len(steps) > 1 else 1


def numbered(log: Log, meanings: Meanings) -> NumberedLog:
    """Return the log with numbers for its points.

    Args:
        log: The log.
        meanings: What its series are.
    """
    unit, numbers = _numbers(log, meanings)
    series, repeated = {}, 0
    for name, points in log.series.items():
        own = points if numbers is None else Points(_at(points, numbers), points.values, points.times, points.merged)
        series[name] = in_order(newest_course(own))
        if name in meanings.losses.values():
            repeated = max(repeated, len(own) - len(series[name]))
    judged = [*meanings.losses.values(), *(one.column for one in meanings.evaluations)]
    columns = [series[name] for name in judged if len(series[name])]
    tensors = {key: in_order(_beside(newest_course(points), columns)) for key, points in log.tensors.items()}
    return NumberedLog(log, meanings, unit, without_summary(series, judged), repeated, tensors)


def _beside(points: Points, losses: Sequence[Points]) -> Points:
    """Return the points of a histogram by the steps of the losses: scripts number them by epochs, and losses by steps.

    Those that end before the first half of the losses' steps does are placed by their moments.
    """
    longest = max(losses, key=len, default=None)
    if longest is None or not len(points) or not points.times.all() or not longest.times.all():
        return points
    if 2 * points.steps.max() > longest.steps.max():
        return points
    places = np.clip(np.searchsorted(longest.times, points.times, side="right") - 1, 0, None)
    return Points(longest.steps[places], points.values, points.times, points.merged)


def without_summary(series: Mapping[str, Points], judged: Sequence[str]) -> Mapping[str, Points]:
    """Return the series without a last step at which a writer logs its best round again, as MLflow does for trees.

    Such a step repeats the numbers of exactly one earlier step in every loss, to more digits than chance allows.

    Args:
        series: Points by name, ascending by their steps.
        judged: Names of the losses, also of evaluations.
    """
    losses = [series[name] for name in judged if len(series.get(name, ())) > _FEW]
    last = max((int(points.steps[-1]) for points in losses), default=-1)
    if not losses or any(points.steps[-1] != last for points in losses):
        return series
    alike = [set(points.steps[:-1][points.values[:-1] == points.values[-1]].tolist()) for points in losses]
    are_long = all(round(float(points.values[-1]), _DIGITS_OF_CHANCE) != points.values[-1] for points in losses)
    if not are_long or len(set.intersection(*alike)) != 1:
        return series
    return {name: points.kept(points.steps != last) for name, points in series.items()}


def newest_course(points: Points) -> Points:
    """Return the points without those that a resumed training went over again: what came later holds."""
    steps = points.steps
    if len(steps) < 3:
        return points
    distances = np.diff(steps)
    begins_anew = distances < -max(1, int(np.median(np.abs(distances))))  # not a row that came a little late
    if not begins_anew.any():
        return points
    starts = np.where(np.append(begins_anew, False), np.append(steps[1:], 0), _MOST_STEP)
    next_start = np.minimum.accumulate(starts[::-1])[::-1]
    return points.kept(steps < next_start)


def _numbers(log: Log, meanings: Meanings) -> tuple[str, Points | None]:
    """Return what is counted, and the number of each row that has one; None where points have their numbers."""
    if log.has_steps:
        is_by_epoch = meanings.losses and all("epoch" in words_of(name) for name in meanings.losses.values())
        return (EPOCHS if is_by_epoch else STEPS), None
    steps = _whole(log.series.get(meanings.step))
    if steps is not None and not _begins_again(steps, log.series.get(meanings.epoch)):
        return ROUNDS if meanings.step.lower() == "round" else STEPS, steps
    epochs = _whole(log.series.get(meanings.epoch)) if steps is None else None
    if epochs is not None and _are_one_a_row(epochs) and _most_points(log, meanings) <= 2 * len(epochs):
        return EPOCHS, epochs
    return ROWS, None


def _are_one_a_row(epochs: Points) -> bool:
    """Return True if each row has another epoch than the one before; a training that began again may repeat them."""
    distances = np.diff(epochs.values)
    return bool((distances != 0).all() and (distances > 0).sum() >= len(distances) / 2)


def _most_points(log: Log, meanings: Meanings) -> int:
    return max((len(log.series[column]) for column in meanings.losses.values()), default=0)


def _whole(points: Points | None) -> Points | None:
    """Return the rows with a whole number; None if any number is none, or all are one."""
    if points is None:
        return None
    found = points.kept(np.isfinite(points.values))
    values = found.values
    if not len(values) or (values < 0).any() or (values > _MOST_STEP).any() or (values != np.floor(values)).any():
        return None
    return None if len(values) > 1 and (values == values[0]).all() else found


def _begins_again(steps: Points, epochs: Points | None) -> bool:
    """Return True if the steps are counted within each epoch."""
    falls = np.flatnonzero(np.diff(steps.values) < 0)
    if epochs is None or not len(falls):
        return False
    at = np.interp(steps.steps, epochs.steps, epochs.values)
    return bool((at[falls + 1] > at[falls]).mean() > 0.5)


def _at(points: Points, numbers: Points) -> NDArray[np.int64]:
    """Return the number of each point's row: of one without a number that of the newest row before it."""
    places = np.clip(np.searchsorted(numbers.steps, points.steps, side="right") - 1, 0, None)
    found: NDArray[np.int64] = numbers.values[places].astype(np.int64)
    return found
