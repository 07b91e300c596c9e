"""Plain steps: training steps with one loss, learning rates and a few numbers, and no norms.

Nearly every step of a long training is one. An adapter keeps each as it is (`AlwaysOn.plain`), and many are made into
rows at once: what a step itself must do stays small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trackside.capture.statistic_rows import Marks, Reading, StatisticRows, Watched
from trackside.capture.statistics_log import Mark
from trackside.capture.step_engine import TRAIN
from trackside.records.modes import MODE_NUMBERS

TRAIN_NUMBER = MODE_NUMBERS[TRAIN]

_kept_shape = tuple.__new__  # a named tuple's own is a function of Python

Key = tuple[str, str]  # name, statistic


class NumberKeys(NamedTuple):
    """The keys of the numbers of a kept step, one for each place.

    - `keys`: name and statistic, or None for a place that is not recorded
    - `optional`: number of places, the first ones, where 0 stands for a number that the step does not have
    """

    keys: tuple[Key | None, ...]
    optional: int


class KeptStep(NamedTuple):
    """A plain step that has ended.

    - `ended_at`: its end by the clock of the budget
    - `loss`: name and value
    - `share`: our share of its time, as it is expected; None if that is not known
    - `numbers`: at the places of `keys`
    - `added`: further numbers by key; None for none
    """

    step: int
    mode_step: int
    wall_time: float
    ended_at: float
    loss: tuple[str, float]
    reading: Reading
    share: float | None
    numbers: list[float]
    keys: NumberKeys
    added: dict[Key, Any] | None

    @property
    def marks(self) -> Marks:
        """The numbers of the step."""
        return Marks(step=self.step, mode=TRAIN, mode_step=self.mode_step, wall_time=self.wall_time)

    @property
    def needs_no_judging(self) -> bool:
        """True: its loss is judged apart."""
        return True

    def is_here(self) -> bool:
        """Return True: nothing of it is on its way from a device."""
        return True

    def plain_shape(self) -> KeptShape:
        """Return the shape of the cheap row of the step."""
        return _kept_shape(KeptShape, (self.loss[0], self.reading.watched))


class KeptShape(NamedTuple):
    """The names in the cheap rows of kept steps. Steps with equal ones are recorded together."""

    loss: str
    watched: Watched


def record_kept(rows: StatisticRows, shape: KeptShape, steps: Sequence[KeptStep]) -> None:
    """Record the rows of steps with the same shape."""
    marks = [(step.step, TRAIN_NUMBER, step.mode_step, step.wall_time) for step in steps]
    plain: Any = [(step.loss[1], *step.reading.rates, step.share) for step in steps]  # type: ignore[misc] # a list
    rows.record_plain((shape.loss,), (shape.watched,), np.array(plain), marks)
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, step in enumerate(steps):
        is_nonzero = tuple(map(bool, step.numbers[: step.keys.optional]))
        key = (id(step.keys), is_nonzero, tuple(step.added) if step.added else ())
        alike.setdefault(key, []).append(place)
    for (_, is_nonzero, added), found in alike.items():
        _record_numbers(rows, [steps[place] for place in found], [marks[place] for place in found], is_nonzero, added)


def _record_numbers(
    rows: StatisticRows,
    steps: Sequence[KeptStep],
    marks: list[Mark],
    is_nonzero: tuple[bool, ...],
    added: tuple[Key, ...],
) -> None:
    """Record the numbers of steps that have the same ones."""
    keys, optional = steps[0].keys
    places = [p for p, key in enumerate(keys) if key is not None and (p >= optional or is_nonzero[p])]
    numbers = np.array([step.numbers for step in steps])[:, places]
    if added:
        numbers = np.concatenate([numbers, [list((step.added or {}).values()) for step in steps]], axis=1)
    named = tuple([key for place in places if (key := keys[place]) is not None])
    rows.record_numbers_alike((*named, *added), numbers, marks)
