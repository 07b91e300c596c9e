"""Gradients of objectives that a script wrote for boosted trees, on a few rows of the first rounds.

A library of trees takes gradient and second derivative of each row from such a function, and checks neither. Between
two rounds the predictions change, and the gradients with them: where the loss is least at the answer, a gradient rises
with its prediction, and the second derivative is about its slope. Nothing is called once more for it.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.capture.ground.guard import Guard
from trackside.contracts.run.recorded_names import (
    GRADIENTS_AGAINST_PREDICTIONS,
    SECOND_DERIVATIVES_OVER_SLOPE,
    SECOND_DERIVATIVES_POSITIVE,
)

LOOKS = 6  # rounds
MOST_ROWS = 1024
FEWEST_ROWS = 16
_ALL_ROWS = 1 << 22  # numbers of a round, above which an array is not looked at
_DOING = "looking at an objective"

Array = NDArray[np.float64]


class _Look:
    """The newest round of one boosting."""

    def __init__(self) -> None:
        self.count = 0
        self.before: tuple[Array, Array] | None = None  # predictions and gradients, of shape (rows, outputs)
        self.numbers: dict[str, float] = {}


class OwnObjectives:
    """The looks at the objectives of all boostings.

    Args:
        guard: Logs failures.
    """

    def __init__(self, guard: Guard) -> None:
        self._looks: weakref.WeakKeyDictionary[Any, _Look] = weakref.WeakKeyDictionary()
        self._guard = guard

    def watched(self, model: Any, objective: Any) -> Any:
        """Return the objective, watched for the first rounds of a model.

        Args:
            model: The booster.
            objective: A function of predictions and data, which returns gradients and second derivatives.
        """
        look = self._looks.setdefault(model, _Look())
        if look.count >= LOOKS:
            return objective
        look.count += 1

        def seen(predictions: Any, data: Any) -> Any:
            sample = self._guard.attempt(_DOING, lambda: _sample(predictions))
            result = objective(predictions, data)
            if sample is not None:
                self._guard.attempt(_DOING, lambda: self._look_at(look, sample, len(predictions), data, result))
            return result

        return seen

    def is_own(self, model: Any) -> bool:
        """Return True if a model has an objective of the script.

        Args:
            model: The booster.
        """
        return model in self._looks

    def numbers(self, model: Any) -> Mapping[str, float]:
        """Return the numbers of the newest round of a model, and forget them.

        Args:
            model: The booster.
        """
        look = self._looks.get(model)
        if look is None:
            return {}
        found, look.numbers = look.numbers, {}
        return found

    def _look_at(self, look: _Look, sample: Array, rows: int, data: Any, result: Any) -> None:
        gradients, seconds = (_some_rows(np.asarray(part), rows) for part in result)
        if gradients.shape != sample.shape or seconds.shape != sample.shape:
            return
        look.numbers = {SECOND_DERIVATIVES_POSITIVE: float((seconds > 0).mean())}
        before, look.before = look.before, (sample, gradients)
        if before is None or before[0].shape != sample.shape:
            return
        change, gained = sample - before[0], gradients - before[1]
        products = (change * gained).sum(axis=1)
        has_both = (change != 0).any(axis=1) & (gained != 0).any(axis=1)
        if has_both.sum() < max(FEWEST_ROWS, (change != 0).any(axis=1).sum() / 2):
            return
        toward = _toward_answers(before[0], change, data, rows)
        if toward is not None:
            against = float((products[has_both] < 0).mean())
            look.numbers[GRADIENTS_AGAINST_PREDICTIONS] = against if toward < 0 else 0.0
        is_convex = has_both & (products > 0)
        if is_convex.sum() >= FEWEST_ROWS and not (seconds == 1).all():
            expected = (seconds * change * change).sum(axis=1)[is_convex]
            look.numbers[SECOND_DERIVATIVES_OVER_SLOPE] = float(np.median(expected / products[is_convex]))


def _sample(predictions: Any) -> Array | None:
    is_read = isinstance(predictions, np.ndarray) and 0 < predictions.size <= _ALL_ROWS
    return _some_rows(predictions, len(predictions)) if is_read else None


def _some_rows(values: NDArray[Any], rows: int) -> Array:
    """Return numbers of rows that lie evenly apart, of shape (rows, outputs); a copy."""
    table = values.reshape(rows, -1)
    return np.array(table[:: 1 + rows // MOST_ROWS], np.float64)


def _toward_answers(predictions: Array, change: Array, data: Any, rows: int) -> float | None:
    """Return the sum over the rows of what moves predictions toward their labels, below zero for away from them.

    Of several outputs labels are numbers of classes. None if that is unknown.
    """
    labels = data.get_label()
    if labels is None or np.size(labels) != rows:
        return None
    chosen = _some_rows(np.asarray(labels), rows)[:, 0]
    if change.shape[1] == 1:
        return float((change[:, 0] * (chosen - predictions[:, 0])).sum())
    if not ((chosen >= 0) & (chosen < change.shape[1]) & (chosen == np.floor(chosen))).all():
        return None
    own = change[np.arange(len(change)), chosen.astype(np.int64)]
    return float((own - change.mean(axis=1)).sum())
