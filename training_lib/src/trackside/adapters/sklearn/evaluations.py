"""The evaluations of the captured estimator by the script: the share of rows that were trained on, and the score."""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from trackside.adapters.sklearn.given_rows import row_digests
from trackside.contracts.run.recorded_names import EVALUATED_ROWS_TRAINED_ON, HELD_OUT_SCORE, RAN_OUT

_MOST_REMEMBERED = 1 << 16  # rows of the training
_MOST_EVALUATED = 256  # of one evaluation
_FEWEST_ROWS = 32  # different ones of an evaluation that counts
_FEWEST_SCORED = 100  # rows of a score that is compared with guessing
_MOST_ALIKE = 0.1  # share of equal rows of the training: the data have few different ones
_MOST_HELD_OUT = 0.5  # share of trained rows, below which a score is one of held-out rows
_CERTAIN = 2.0  # standard errors
_MOST_ANSWERS = 8  # newest predictions that are recognized in a metric


class Evaluations:
    """The evaluations of one estimator.

    A prediction without labels is no evaluation by itself, but it may be half of one: a script that predicts other rows
    than those of its scores evaluates them, too.
    """

    def __init__(self) -> None:
        self._estimator: weakref.ref[Any] | None = None
        self._ran_out, self._has_warned = 0, False
        self._answers: deque[tuple[weakref.ref[Any], float | None]] = deque(maxlen=_MOST_ANSWERS)
        self._trained: set[int] = set()
        self._seen = self._again = 0  # rows of the training
        self._least: float | None = None
        self._score, self._gain = 0.0, float("-inf")
        self._predictions: Any = None
        self._is_scoring = self._has_score = False

    def train(self, estimator: Any, rows: Any, *, ran_out: int, has_warned: bool = False) -> None:
        """Note a training that has ended.

        Args:
            estimator: The estimator.
            rows: The rows that it was trained on; None if they are distances between samples.
            ran_out: Number of steps, if their limit ended the training before it converged; else 0.
            has_warned: The library warned that the training has not converged.
        """
        self._estimator, self._ran_out, self._has_warned = weakref.ref(estimator), ran_out, has_warned
        if rows is not None and self._seen < _MOST_REMEMBERED:
            digests = row_digests(rows, most=_MOST_REMEMBERED)
            self._seen += len(digests)
            self._again += len(digests) - len(set(digests))
            self._trained.update(digests)

    def pause(self, estimator: Any) -> None:
        """Look at nothing while the estimator is trained further."""
        if self.are_of(estimator):
            self._estimator = None

    def are_of(self, estimator: Any) -> bool:
        """Return True for the estimator that was trained."""
        return self._estimator is not None and self._estimator() is estimator

    @contextlib.contextmanager
    def scoring(self) -> Iterator[None]:
        """Keep the predictions of the estimator meanwhile: they belong to a score."""
        self._is_scoring, self._predictions = True, None
        try:
            yield
        finally:
            self._is_scoring = False

    def predict(self, rows: Any, predictions: Any) -> None:
        """Note the predictions for some rows."""
        if self._is_scoring:
            self._predictions = predictions
        else:
            share = self._look_up(rows)
            if isinstance(predictions, np.ndarray):
                self._answers.append((weakref.ref(predictions), share))

    def measure(self, labels: Any, predictions: Any, weights: Any) -> None:
        """Note a metric of predictions: they and their labels are an evaluation, if they are of this estimator.

        Args:
            labels: One for each row.
            predictions: As many.
            weights: One for each row; None if all count alike.
        """
        shares = [share for answer, share in self._answers if _are_same(answer(), predictions)]
        if not shares or self._is_scoring:
            return
        self._has_score = True
        answers, given = np.asarray(labels), np.asarray(predictions)
        if answers.ndim == 1 and answers.shape == given.shape and weights is None:
            self._compare(shares[-1], answers, given, _score(self._estimator and self._estimator(), answers, given))

    def score(self, rows: Any, labels: Any, score: float, *, is_weighted: bool) -> None:
        """Note a score.

        Args:
            rows: The rows.
            labels: One for each row.
            score: Their score.
            is_weighted: Some rows count more than others.
        """
        share = self._look_up(rows)
        self._has_score = True
        predictions, self._predictions = self._predictions, None
        if predictions is not None and not is_weighted:
            self._compare(share, np.asarray(labels), np.asarray(predictions), score)

    def _compare(self, share: float | None, labels: NDArray[Any], predictions: NDArray[Any], score: float) -> None:
        """Compare a score of held-out rows with that of a guess."""
        if share is None or share >= _MOST_HELD_OUT or labels.ndim != 1 or len(labels) < _FEWEST_SCORED:
            return
        estimator = self._estimator and self._estimator()
        gain = _over_guessing(labels, predictions) if is_classifier(estimator) else score
        self._score, self._gain = max((self._score, self._gain), (score, gain), key=lambda each: each[1])

    def numbers(self) -> dict[tuple[str, str], float]:
        """Return the numbers that are recorded of the evaluations, by name and statistic."""
        found = {(RAN_OUT, "mean"): float(self._ran_out)} if self._ran_out or self._has_warned else {}
        if self._has_score and self._least is not None:
            found[EVALUATED_ROWS_TRAINED_ON, "mean"] = self._least
        if self._gain <= 0 and np.isfinite(self._gain):
            found[HELD_OUT_SCORE, "mean"] = self._score
        return found

    def _look_up(self, rows: Any) -> float | None:
        """Return the share of the rows that were trained on; None if they are too few, or often equal."""
        digests = set(row_digests(rows, most=_MOST_EVALUATED))
        if len(digests) < _FEWEST_ROWS or self._again > _MOST_ALIKE * self._seen:
            return None
        share = len(digests & self._trained) / len(digests)
        self._least = share if self._least is None else min(self._least, share)
        return share


def _over_guessing(labels: NDArray[Any], predictions: NDArray[Any]) -> float:
    """Return how far predictions are certainly above a guess: the share of right ones, or the mean share by class.

    Args:
        labels: Of shape (rows,).
        predictions: As many.
    """
    right = labels == predictions
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    shares = np.bincount(codes, weights=right, minlength=len(classes)) / counts
    most, even = counts.max() / len(labels), 1 / len(classes)
    error = np.sqrt(most * (1 - most) / len(labels))
    error_of_mean = np.sqrt(np.sum(even * (1 - even) / counts)) / len(classes)
    return float(max(right.mean() - most - _CERTAIN * error, shares.mean() - even - _CERTAIN * error_of_mean))


def _are_same(answer: Any, given: Any) -> bool:
    """Return True for an array and itself, or a view of all of it, as scikit-learn's metrics make one."""
    if answer is None or getattr(given, "shape", None) != answer.shape:
        return False
    return given is answer or (given.base is not None and (given.base is answer or given.base is answer.base))


def _score(estimator: Any, labels: NDArray[Any], predictions: NDArray[Any]) -> float:
    """Return the share of right answers of a classifier, and the explained share of the variance of any other."""
    if is_classifier(estimator):
        return float((labels == predictions).mean())
    spread = float(np.square(labels - labels.mean()).sum())
    return 1.0 - float(np.square(labels - predictions).sum()) / spread if spread else 0.0
