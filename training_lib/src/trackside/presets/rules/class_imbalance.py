"""class-imbalance, as Amazon documents it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.capture_request import CollectionRequest, Schedule
from trackside.contracts.cause import Cause
from trackside.contracts.rule_request import AWS_DOCS, AWS_SDK
from trackside.contracts.verdict import Finding, Severity
from trackside.rules.findings import finding_of
from trackside.rules.rule import FoldingRule, parameter
from trackside.rules.selection import EVERY_COLLECTION, SavedValue, selected, values_at_step
from trackside.situation.constants import MOST, MOST_LABELS
from trackside.trial.window import Window

_LABELS, _PREDICTIONS = ".*labels", ".*predictions"

Classes = NDArray[np.int64]


@dataclass(frozen=True)
class SeenClasses:
    """The labels so far, counted by class (as text).

    labels    all labels
    judged    labels with a prediction
    mistaken  labels with another class as prediction
    """

    labels: Mapping[str, int] = field(default_factory=dict)
    judged: Mapping[str, int] = field(default_factory=dict)  # those that came with a prediction
    mistaken: Mapping[str, int] = field(default_factory=dict)

    def with_batch(self, labels: Classes, predictions: Classes | None) -> SeenClasses:
        """Return these counts and those of a further batch. Both arrays have shape (samples,)."""
        seen = SeenClasses(added(self.labels, labels), self.judged, self.mistaken)
        if predictions is None or predictions.shape != labels.shape:
            return seen
        wrong = labels[predictions != labels]
        return SeenClasses(seen.labels, added(self.judged, labels), added(self.mistaken, wrong))


@dataclass(frozen=True)
class DocumentedClassImbalance(FoldingRule):
    """Some classes come far less often than others, or are mispredicted most of the time.

    Documented: after `samples` labels, fires where the count of the largest class over that of the smallest is more
    than `threshold_imbalance` (the text has the ratio the other way round, with which no threshold of 10 makes sense),
    or where more than `threshold_misprediction` of any class is mispredicted. Rows of probabilities or scores need
    `argmax`; without it they are left out, and imbalance alone is judged. Predictions that are no whole numbers are
    taken for probabilities of class 1, and cut at 0.5, which is not documented. Classes are counted from the first
    saved step on, of all workers and modes; labels with more than 1,000 values are no classes. Left at their defaults,
    the regexes mean the labels and predictions that the loss gets too, under any name.
    """

    rule_id = "class-imbalance"
    presets = (AWS_DOCS, AWS_SDK)
    judges_until_found = True
    watches = EVERY_COLLECTION
    needs = (CollectionRequest("labels", Schedule(500)), CollectionRequest("predictions", Schedule(500)))
    severity = Severity.CRITICAL
    since = "0.1"
    likely_causes = (Cause.CLASS_IMBALANCE,)
    what_to_do = ("Weight the classes in the loss, or sample them evenly (WeightedRandomSampler).",)

    threshold_imbalance: float = parameter(10.0, "largest class over the smallest, above which it fires", minimum=1)
    threshold_misprediction: float = parameter(
        0.7, "share of a class that is mispredicted, above which it fires", minimum=0, maximum=1
    )
    samples: int = parameter(500, "labels that must have come", minimum=1)
    argmax: bool = parameter(False, "true: predictions are rows of probabilities, one for each class")
    labels_regex: str = parameter(_LABELS, "regexes of labels, separated by commas")
    predictions_regex: str = parameter(_PREDICTIONS, "regexes of predictions, separated by commas")

    def start(self) -> SeenClasses:
        """Return the state without a label."""
        return SeenClasses()

    def fold(self, state: SeenClasses, window: Window) -> tuple[SeenClasses, Iterable[Finding]]:
        """Count the labels of this step."""
        subject = ""
        for labels, predictions in self._batches(window):
            classes = as_whole_numbers(labels.value)
            if classes is None:
                continue
            predicted = None if predictions is None else self._predicted(predictions.value)
            state, subject = state.with_batch(classes, predicted), labels.tensor
        if not subject or len(state.labels) > MOST_LABELS or sum(state.labels.values()) < self.samples:
            return state, []
        return state, [*self._imbalance(state, window, subject), *self._mispredictions(state, window, subject)]

    def lacks(self, window: Window) -> str:
        """Name the missing input: labels."""
        names = self._names(window, self.labels_regex, _LABELS, "labels")
        return "" if any(values_at_step(window, names)) else f"{self.samples} class labels"

    def _names(self, window: Window, regex: str, usual: str, role: str) -> tuple[str, ...]:
        return selected(window, collection_names=role if regex == usual else "", tensor_regex=regex)

    def _batches(self, window: Window) -> Iterator[tuple[SavedValue, SavedValue | None]]:
        """Yield the labels and predictions of each worker, in the order of their names.

        None stands for unknown predictions.
        """
        labels = list(values_at_step(window, self._names(window, self.labels_regex, _LABELS, "labels")))
        predictions = list(
            values_at_step(window, self._names(window, self.predictions_regex, _PREDICTIONS, "predictions"))
        )
        for worker in dict.fromkeys(saved.worker for saved in labels):
            own = [saved for saved in labels if saved.worker == worker]
            predicted = [saved for saved in predictions if saved.worker == worker]
            fit: list[SavedValue | None] = [*predicted] if len(predicted) == len(own) else [None] * len(own)
            yield from zip(own, fit, strict=True)

    def _predicted(self, predictions: NDArray[np.generic]) -> Classes | None:
        if self.argmax and predictions.ndim == 2 and predictions.shape[1] > 1:
            return np.asarray(predictions.argmax(axis=1), np.int64)
        classes = as_whole_numbers(predictions)
        if classes is not None:
            return classes
        flat = _flat(predictions)
        return None if flat is None or flat.dtype.kind != "f" else np.asarray(flat.astype(np.float64) > MOST, np.int64)

    def _imbalance(self, seen: SeenClasses, window: Window, subject: str) -> list[Finding]:
        ratio = max(seen.labels.values()) / min(seen.labels.values())
        if not ratio > self.threshold_imbalance:
            return []
        return [self._finding(window, subject, "largest class over the smallest", ratio, self.threshold_imbalance)]

    def _mispredictions(self, seen: SeenClasses, window: Window, subject: str) -> list[Finding]:
        shares = {name: seen.mistaken.get(name, 0) / count for name, count in seen.judged.items()}
        worst = max(shares, key=lambda name: shares[name], default="")
        if not worst or not shares[worst] > self.threshold_misprediction:
            return []
        measure = f"mispredicted share of class {worst}"
        return [self._finding(window, subject, measure, shares[worst], self.threshold_misprediction)]

    def _finding(self, window: Window, subject: str, measure: str, observed: float, threshold: float) -> Finding:
        return finding_of(window, subject, measure, observed, above=threshold)


def as_whole_numbers(values: NDArray[np.generic]) -> Classes | None:
    """Return values of shape (samples,) or (samples, 1) that are all whole numbers, as shape (samples,); else None."""
    flat = _flat(values)
    if flat is None or flat.dtype.kind not in "iubf":
        return None
    is_whole = flat.dtype.kind != "f" or bool((np.isfinite(flat) & (flat == np.floor(flat))).all())
    return flat.astype(np.int64) if is_whole else None


def added(counts: Mapping[str, int], classes: Classes) -> dict[str, int]:
    """Return the counts with those of further classes.

    At most `_MOST_CLASSES` + 1 classes are counted; then no new one is added.
    """
    found = dict(counts)
    for one, number in zip(*(a.tolist() for a in np.unique(classes, return_counts=True)), strict=True):
        if str(one) in found or len(found) <= MOST_LABELS:
            found[str(one)] = found.get(str(one), 0) + number
    return found


def _flat(values: NDArray[np.generic]) -> NDArray[np.generic] | None:
    is_vector = values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)
    return values.reshape(-1) if is_vector and values.size else None
