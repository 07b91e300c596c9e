"""The courses of the numbers that the training of a language model logs: levels, and changes beyond their noise.

Numbers have no scale of their own: a reward may be of any size. A change counts by its size over the noise from one log
to the next, and by the way that the number has gone so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.run.language_numbers import (
    ANSWER_LENGTH,
    ENTROPY,
    EQUAL_GROUPS,
    REWARD_SPREAD,
    SOLVED_GROUPS,
    UNSOLVED_GROUPS,
    LanguageNumber,
)
from trackside.situation.constants import (
    CERTAIN,
    DOUBLE_ROUNDING,
    ENOUGH_STEPS,
    LASTING_STEPS,
    NEGLIGIBLE_SHARE,
    NOISE,
    PARTS_OF_A_RUN,
    SHORT_STRETCH,
    TWICE,
    VALUES_OF_A_LEVEL,
)
from trackside.trial.window import Column, Window


@dataclass(frozen=True)
class Course:
    """The course of a number over its logs, at least `SHORT_STRETCH` of them.

    Attributes:
        column: The finite values.
    """

    column: Column

    @property
    def count(self) -> int:
        """The number of logs."""
        return len(self.column.values)

    @property
    def stretch(self) -> int:
        """The number of logs in a level: a tenth of them, 5 to 20."""
        return min(LASTING_STEPS, max(SHORT_STRETCH, self.count // PARTS_OF_A_RUN))

    @property
    def levels(self) -> NDArray[np.float64]:
        """The mean of each stretch, oldest first; what is over is left out of the second oldest."""
        values, size = self.column.values, self.stretch
        whole = values[len(values) % size :].reshape(-1, size).mean(1)
        whole[0] = values[:size].mean()
        return np.asarray(whole, np.float64)

    @property
    def first(self) -> float:
        """The level at first: of few logs, for a policy changes within a few steps."""
        return float(self.column.values[:SHORT_STRETCH].mean())

    @property
    def now(self) -> float:
        """The level at present."""
        return float(self.column.values[-self.stretch :].mean())

    @property
    def best(self) -> float:
        """The highest level, the first one included."""
        return max(self.first, float(self.levels.max()))

    @property
    def noise(self) -> float:
        """The deviation of a value from its level, by neighbours."""
        return float(np.std(np.diff(self.column.values)) / math.sqrt(2)) if self.count > 1 else 0.0

    @property
    def error(self) -> float:
        """The standard error of a level. One that never varies counts as known to a millionth of its size."""
        size = float(np.abs(self.column.values).max())
        return max(self.noise / math.sqrt(self.stretch), NOISE * size, DOUBLE_ROUNDING)

    @property
    def error_of_change(self) -> float:
        """The standard error of the difference between a level and the first one."""
        return math.hypot(self.error, self.error * math.sqrt(self.stretch / SHORT_STRETCH))

    @property
    def noise_at_present(self) -> float:
        """The deviation of a value from its level in the newest stretch."""
        newest = self.column.values[-2 * self.stretch :]
        return float(np.std(np.diff(newest)) / math.sqrt(2)) if len(newest) > 1 else 0.0

    def rose(self) -> bool:
        """Return True if it is higher than at first, beyond noise."""
        return self.now - self.first > CERTAIN * self.error_of_change

    def fell(self) -> bool:
        """Return True if it is lower than at first, beyond noise."""
        return self.first - self.now > CERTAIN * self.error_of_change

    def still_rises(self) -> bool:
        """Return True if it is higher than two stretches ago, beyond noise."""
        levels = self.levels
        return len(levels) > 2 and float(levels[-1] - levels[-3]) > TWICE * math.sqrt(2) * self.error


def course_of(window: Window, number: LanguageNumber | str, *, fewest: int = SHORT_STRETCH) -> Course | None:
    """Return the course of a logged number; None with fewer logs than `fewest`.

    Args:
        window: The run up to the judged step.
        number: The number, or the name under which it is recorded. Of several workers that with the most logs counts.
        fewest: Finite values that it must have.
    """
    name = number if isinstance(number, str) else number.recorded
    columns = window.statistic(name, "mean", mode=None)
    if not columns:
        return None
    column = max(columns, key=lambda one: len(one.values))
    finite = np.isfinite(column.values)
    kept = column if finite.all() else Column(column.tensor, column.worker, column.steps[finite], column.values[finite])
    return Course(kept) if len(kept.values) >= max(fewest, 2) else None


def recent(
    window: Window, number: LanguageNumber, *, fewest: int = VALUES_OF_A_LEVEL, logs: int = VALUES_OF_A_LEVEL
) -> NDArray[np.float64] | None:
    """Return the newest logs of a number; None with fewer than ten.

    Args:
        window: The run up to the judged step.
        number: The number.
        fewest: Logs that it must have.
        logs: Logs to return, or all if there are fewer.
    """
    course = course_of(window, number, fewest=max(fewest, VALUES_OF_A_LEVEL))
    return None if course is None else course.column.values[-logs:]


def nats_of_an_answer(window: Window) -> float | None:
    """Return the entropy of a whole answer at present, in nats: below one, the answers to a prompt are mostly the same.

    None if no entropy is logged.
    """
    entropy = recent(window, ENTROPY, fewest=SHORT_STRETCH)
    length = recent(window, ANSWER_LENGTH, fewest=SHORT_STRETCH)
    if entropy is None:
        return None
    return float(np.median(entropy)) * (1.0 if length is None else float(np.median(length)))


@dataclass(frozen=True)
class GroupOutcomes:
    """The outcomes of the groups of the newest logs.

    Attributes:
        solved: Share of the groups whose answers all got the highest reward.
        unsolved: Share of those whose answers all got the lowest one.
    """

    solved: float
    unsolved: float


def group_outcomes(window: Window, *, logs: int = VALUES_OF_A_LEVEL) -> GroupOutcomes | None:
    """Return the outcomes of groups, over the newest logs; None if they are not logged."""
    solved, unsolved = (recent(window, number, logs=logs) for number in (SOLVED_GROUPS, UNSOLVED_GROUPS))
    if solved is None or unsolved is None:
        return None
    return GroupOutcomes(float(np.mean(solved)), float(np.mean(unsolved)))


def share_of_equal_groups(window: Window, *, logs: int = VALUES_OF_A_LEVEL) -> float | None:
    """Return the share of groups with equal rewards, over the newest logs; None if it is not logged."""
    equal = recent(window, EQUAL_GROUPS, logs=logs)
    if equal is not None:
        return float(np.mean(equal))
    if (outcomes := group_outcomes(window, logs=logs)) is not None:
        return outcomes.solved + outcomes.unsolved
    spread = course_of(window, REWARD_SPREAD, fewest=ENOUGH_STEPS)
    if spread is None:
        return None
    newest = max(spread.now, float(spread.column.values[-logs:].mean()))
    return float(newest <= NEGLIGIBLE_SHARE * spread.first)
