"""The class labels of a training, batch by batch: the memory of rules about data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.observations import IGNORED_CLASS
from trackside.situation.constants import A_HANDFUL, ERRORS, MOST_BATCHES, MOST_CLASSES
from trackside.situation.losses.losses import TRAINING_MODES
from trackside.situation.phases import newest_phase
from trackside.trial.window import Window


@dataclass(frozen=True)
class SeenLabels:
    """The labels of the present training so far.

    counts      number of labels by class (as text)
    batches     (step, share, class) of the commonest class in each of the newest `MOST_BATCHES` batches, oldest first
    is_classes  False once a label came that is no class
    since       the step at which the training began: another one may have other classes
    ignored     number of labels of a class that the loss ignores; they are in no count above
    in_a_row    number of those that come right after another one, as padding does
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    batches: tuple[tuple[int, float, str], ...] = ()
    is_classes: bool = True
    since: int = 0
    ignored: int = 0
    in_a_row: int = 0

    @property
    def samples(self) -> int:
        """The number of labels so far."""
        return sum(self.counts.values())

    def with_batch(self, step: int, labels: NDArray[np.int64]) -> SeenLabels:
        """Return these labels and a further batch, shape (samples,)."""
        classes, numbers = np.unique(labels, return_counts=True)
        counts = dict(self.counts)
        for one, number in zip(classes.tolist(), numbers.tolist(), strict=True):
            counts[str(one)] = counts.get(str(one), 0) + number
        if len(counts) > MOST_CLASSES:
            return SeenLabels(is_classes=False, since=self.since)
        top = int(numbers.argmax())
        batch = (step, float(numbers[top] / numbers.sum()), str(classes[top]))
        return replace(self, counts=counts, batches=(*self.batches, batch)[-MOST_BATCHES:])

    def with_ignored(self, is_ignored: NDArray[np.bool_]) -> SeenLabels:
        """Return these labels and those of a further batch that do not count: True for each, shape (samples,)."""
        following = int(np.count_nonzero(is_ignored[1:] & is_ignored[:-1]))
        ignored = self.ignored + int(np.count_nonzero(is_ignored))
        return replace(self, ignored=ignored, in_a_row=self.in_a_row + following)

    @property
    def ignored_share(self) -> float:
        """The share of the labels that the loss ignores though they are of a class; 0 if they are padding."""
        share = self.ignored / max(1, self.ignored + self.samples)
        follow = self.in_a_row / max(1, self.ignored)  # of labels in random order: their share
        return share if follow - share <= ERRORS * math.sqrt(share * (1 - share) / max(1, self.ignored)) else 0.0


def with_labels_of(seen: SeenLabels, window: Window) -> SeenLabels:
    """Return the labels so far and the training labels saved at `window.step`, of all workers.

    A new optimizer begins a training of its own, whose labels are not added to those before.
    """
    if window.mode not in TRAINING_MODES:
        return seen
    if (began := newest_phase(window)) > seen.since:
        seen = SeenLabels(since=began)
    if not seen.is_classes:
        return seen
    for name in window.tensors("labels"):
        for column in window.statistic(name, "mean", last=1):
            if column.steps[-1] != window.step:
                continue
            try:
                labels = window.value(name, worker=column.worker)
            except TensorNotSavedError:  # reductions only
                continue
            classes = as_classes(labels)
            if classes is None:
                continue
            is_ignored = classes == ignored_by_loss(window, name)
            counting = classes[(classes >= 0) & ~is_ignored]  # below zero: places that do not count
            if len(counting) >= A_HANDFUL:
                seen = seen.with_batch(window.step, counting).with_ignored(is_ignored & (classes >= 0))
    return seen


def ignored_by_loss(window: Window, labels: str) -> int:
    """Return the class that a loss ignores; -1 for none.

    Args:
        window: The run up to the judged step.
        labels: The name of the loss's labels: `CrossEntropyLoss_input_1`.
    """
    loss = window.facts.loss(f"{labels.rpartition('_input_')[0]}_output_0") if window.facts is not None else None
    return -1 if loss is None else IGNORED_CLASS.of(loss)


def as_classes(labels: NDArray[np.generic]) -> NDArray[np.int64] | None:
    """Return the labels of a batch as class numbers, shape (samples,); None if they are no classes.

    Classes are whole numbers of shape (samples,) or (samples, 1), floating-point zeros and ones (binary cross entropy),
    and one-hot rows.
    """
    if labels.ndim == 2 and labels.shape[1] > 1:
        is_one_hot = bool(np.isin(labels, (0, 1)).all()) and bool((labels.sum(axis=1) == 1).all())
        return np.asarray(labels.argmax(axis=1), np.int64) if is_one_hot else None
    flat = labels.reshape(-1) if labels.ndim <= 2 else None
    if flat is None or flat.size == 0:
        return None
    if flat.dtype.kind in "iub":
        return flat.astype(np.int64)
    if flat.dtype.kind == "f" and np.isin(flat, (0, 1)).all():
        return flat.astype(np.int64)
    return None
