"""The numbers about a classifier: shares that are found and right, curves over all cuts, calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.rules.models.confusion import confusion_matrix
from trackside.views.report.model.labelled import MOST_CLASSES, Family, Labelled

CUT = 0.5
CALIBRATION_BINS = 10

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Classified:
    """Labels and predictions as classes.

    labels, classes   class numbers, of shape (n,)
    scores            probability of class 1 of shape (n,), or of each class of shape (n, classes); None without any
    count             number of classes
    """

    labels: Counts
    classes: Counts
    scores: Numbers | None
    count: int

    @property
    def matrix(self) -> Counts:
        """The number of samples of each class (rows) predicted as each class (columns)."""
        return confusion_matrix(self.labels, self.classes, classes=self.count)


def classified(saved: Labelled, family: Family, objective: str) -> Classified | None:
    """Return labels and predictions as classes; None if they are none, or more than `MOST_CLASSES`."""
    labels, predictions = saved.labels, saved.predictions
    if not bool((labels == np.floor(labels)).all()) or labels.min() < 0:
        return None
    scores: Numbers | None = None
    if predictions.ndim == 2:
        scores, classes = predictions, predictions.argmax(axis=1)
    elif family is Family.BINARY:
        scores = _probability(predictions, objective)
        classes = (scores > CUT).astype(np.int64)
    else:
        if not bool((predictions == np.floor(predictions)).all()) or predictions.min() < 0:
            return None
        classes = predictions
    columns = predictions.shape[1] if predictions.ndim == 2 else 2 if family is Family.BINARY else 0
    count = max(int(labels.max()) + 1, int(classes.max()) + 1, columns)
    if count > MOST_CLASSES or (family is Family.BINARY and count != 2):
        return None
    return Classified(labels.astype(np.int64), np.asarray(classes, np.int64), scores, count)


def _probability(predictions: Numbers, objective: str) -> Numbers:
    if objective == "binary:logitraw" or predictions.min() < 0 or predictions.max() > 1:
        return np.asarray(0.5 * (1 + np.tanh(predictions / 2)))
    return predictions


@dataclass(frozen=True, eq=False)
class ClassScores:
    """Shares of each class, each of shape (classes,); NaN where nothing was predicted or nothing came.

    precision  of what was predicted as the class
    recall     of the samples of the class
    f1         harmonic mean of both; 0 where one is missing
    support    samples of the class
    """

    precision: Numbers
    recall: Numbers
    f1: Numbers
    support: Counts

    def averages(self, accuracy: float) -> Mapping[str, tuple[float, float, float]]:
        """Return precision, recall and F1 over all samples, over classes, and over classes by their support.

        A class that did not come and was never predicted counts in none; an undefined share counts as 0.
        """
        some = (self.support > 0) | ~np.isnan(self.precision)
        parts = [np.nan_to_num(part[some]) for part in (self.precision, self.recall, self.f1)]
        weights = self.support[some]
        macro = [float(part.mean()) for part in parts]
        weighted = [float(np.average(part, weights=weights)) for part in parts]
        return {
            "all samples alike (micro)": (accuracy, accuracy, accuracy),
            "all classes alike (macro)": (macro[0], macro[1], macro[2]),
            "by number of labels (weighted)": (weighted[0], weighted[1], weighted[2]),
        }


def class_scores(matrix: Counts) -> ClassScores:
    """Return the shares of each class."""
    right, support, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = right / predicted, right / support
        f1 = np.where(support + predicted > 0, 2 * right / np.maximum(support + predicted, 1), 0.0)
    return ClassScores(precision, recall, f1, support)


@dataclass(frozen=True, eq=False)
class Cuts:
    """The counts at each cut, from the highest score on, each of shape (n,).

    scores   the cut: a sample with this score or more counts as found
    right    samples of the class among them
    wrong    other samples among them
    """

    scores: Numbers
    right: Counts
    wrong: Counts

    @property
    def false_share(self) -> Numbers:
        """The share of other samples that are taken for the class, from 0."""
        return np.append(0.0, self.wrong / max(1, int(self.wrong[-1])))

    @property
    def recall(self) -> Numbers:
        """The share of the class that is found, from 0."""
        return np.append(0.0, self.right / max(1, int(self.right[-1])))

    @property
    def precision(self) -> Numbers:
        """The share of what is found that is of the class."""
        return np.asarray(self.right / (self.right + self.wrong))

    @property
    def area(self) -> float:
        """The area below recall over false share: 0.5 for a guess; NaN where one of both classes did not come."""
        if not self.right[-1] or not self.wrong[-1]:
            return float("nan")
        heights = (self.recall[1:] + self.recall[:-1]) / 2
        return float(np.sum(np.diff(self.false_share) * heights))

    @property
    def average_precision(self) -> float:
        """The mean precision over the recall that each cut adds; NaN where the class did not come."""
        return float(np.sum(np.diff(self.recall) * self.precision)) if self.right[-1] else float("nan")


def cuts(is_class: NDArray[np.bool_], scores: Numbers) -> Cuts:
    """Return the counts at each distinct score."""
    order = np.argsort(-scores, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    right = np.cumsum(is_class[order])[ends]
    return Cuts(scores[order][ends], right.astype(np.int64), (ends + 1 - right).astype(np.int64))


def calibration(is_class: NDArray[np.bool_], scores: Numbers) -> tuple[Numbers, Numbers, Counts]:
    """Return the mean score, the share of the class, and the samples in each tenth of the scores that has any."""
    places = np.minimum((scores * CALIBRATION_BINS).astype(int), CALIBRATION_BINS - 1)
    counts = np.bincount(places, minlength=CALIBRATION_BINS)
    some = counts > 0
    means = np.bincount(places, scores, CALIBRATION_BINS)[some] / counts[some]
    shares = np.bincount(places, is_class, CALIBRATION_BINS)[some] / counts[some]
    return means, shares, counts[some]
