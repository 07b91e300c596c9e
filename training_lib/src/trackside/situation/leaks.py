"""Features that give labels away. Pure functions of a batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from trackside.situation.constants import (
    DOUBLE_ROUNDING,
    LEAK_CANDIDATES,
    LEAK_FEATURES,
    LEAK_OF_A_BATCH,
    LEAK_OF_ALL,
    LEAK_STRICTER,
    LEAK_WORDS,
    TRACE,
)
from trackside.situation.labels import as_classes

Samples = NDArray[np.float64]


def following(
    inputs: NDArray[np.generic], labels: NDArray[np.generic], *, explained: float, is_series: bool = False
) -> dict[int, float]:
    """Return the features that follow the labels, with the share of their variance that labels explain.

    At most 64. `inputs`: shape (samples, ...); `labels`: classes or numbers, shape (samples,) or (samples, 1). The
    features are numbered as those of a row, "holds word w" of a text is 1,000,000 + w.
    """
    codes = as_classes(labels)
    if is_series and codes is None:
        explained = 1 - (1 - explained) / LEAK_STRICTER
    found = {}
    for numbers, rows in _features(inputs):
        shares = (
            correlated_with(rows, labels.reshape(-1).astype(np.float64)) if codes is None else explained_by(rows, codes)
        )
        found.update({int(numbers[one]): float(shares[one]) for one in np.flatnonzero(shares > explained)})
    return dict(list(found.items())[:LEAK_CANDIDATES])


def feature_name(number: int) -> str:
    """Return the name of a feature for users."""
    return f"holds_word_{number - LEAK_WORDS}" if number >= LEAK_WORDS else f"feature_{number}"


def share_of_inputs(inputs: NDArray[np.generic], labels: NDArray[np.generic], *, ahead: int) -> float:
    """Return the share of places in sequences with an input as their label; 0 for inputs that are no sequences.

    Args:
        inputs: Whole numbers, shape (samples, places) or (places, samples).
        labels: As many as inputs, or one less for each sample; labels below zero do not count.
        ahead: Places from the label's to the input's: 1 for the next input, 0 for the own one, -1 for the one before.
    """
    if inputs.dtype.kind not in "iu" or labels.dtype.kind not in "iu" or inputs.ndim != 2 or min(inputs.shape) < 2:
        return 0.0
    words, answers = inputs.astype(np.int64), labels.astype(np.int64)
    shares = []
    for rows, is_turned in ((words, False), (words.T, True)):
        samples, length = rows.shape
        places = next((n for n in (length, length - 1) if answers.size == samples * n), None)
        if places is None:
            continue
        own = answers.reshape(places, samples).T if is_turned else answers.reshape(samples, places)
        first, last = max(0, -ahead), min(places, length - ahead)
        own, given = own[:, first:last], rows[:, first + ahead : last + ahead]
        counts = own >= 0
        if counts.sum() >= LEAK_OF_ALL and len(np.unique(given)) > 2:
            shares.append(float((own == given)[counts].mean()))
    return max(shares, default=0.0)


def separates_all_classes(inputs: NDArray[np.generic], labels: NDArray[np.generic], features: tuple[int, ...]) -> bool:
    """Return True if these features separate all classes of the batch.

    For number labels: True if any feature is given.
    """
    codes = as_classes(labels)
    if codes is None or not features:
        return bool(features)
    often = _often(codes)
    if len(often) < 2:
        return False
    kinds = [rows[:, np.isin(numbers, features)] for numbers, rows in _features(inputs)]
    chosen = np.concatenate(kinds, axis=1)
    means = np.array([chosen[codes == one].mean(axis=0) for one in often])
    are_separate = np.abs(means[:, None, :] - means[None, :, :]).max(axis=2) > TRACE * chosen.std(axis=0).max()
    return bool(are_separate[~np.eye(len(often), dtype=bool)].all())


def explained_by(rows: Samples, codes: NDArray[np.int64]) -> Samples:
    """Return the share of each feature's variance that lies between classes, shape (features,); 0 if constant.

    Only classes with at least two samples count; zeros for fewer than two such classes.
    """
    often = _often(codes)
    kept = np.isin(codes, often)
    if len(often) < 2 or kept.sum() < LEAK_OF_A_BATCH:
        return np.zeros(rows.shape[1])
    rows, codes = rows[kept], codes[kept]
    within = np.zeros(rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):  # features beyond 1e154: infinity varies no more than itself
        total = np.square(rows - rows.mean(axis=0)).sum(axis=0)
        for one in often:
            of_class = rows[codes == one]
            within += np.square(of_class - of_class.mean(axis=0)).sum(axis=0)
        varies = np.isfinite(total) & (total > DOUBLE_ROUNDING * np.square(rows).sum(axis=0))
    return np.where(varies, 1 - within / np.where(varies, total, 1.0), 0.0)


def correlated_with(rows: Samples, numbers: Samples) -> Samples:
    """Return the squared correlation of each feature with the numbers, shape (features,); 0 if either is constant."""
    centred, target = rows - rows.mean(axis=0), numbers - numbers.mean()
    sizes = np.square(centred).sum(axis=0) * float(np.square(target).sum())
    varies = sizes > DOUBLE_ROUNDING * np.square(rows).sum(axis=0) * float(np.square(numbers).sum())
    return np.where(varies, np.square(target @ centred) / np.where(varies, sizes, 1.0), 0.0)


def are_comparable(inputs: NDArray[np.generic], labels: NDArray[np.generic]) -> bool:
    if inputs.dtype.kind not in "fiu" or inputs.ndim < 2 or not inputs.size or labels.dtype.kind not in "iubf":
        return False
    is_one_each = labels.ndim == 1 or (labels.ndim == 2 and (labels.shape[1] == 1 or as_classes(labels) is not None))
    return is_one_each and len(labels) == len(inputs) >= LEAK_OF_A_BATCH and bool(np.isfinite(labels).all())


def _features(inputs: NDArray[np.generic]) -> Iterator[tuple[NDArray[np.int64], Samples]]:
    """Yield (numbers, a column for each feature) of the value at each place, then of the words in each text."""
    flat = inputs.reshape(len(inputs), -1)[:, :LEAK_FEATURES]
    yield np.arange(flat.shape[1]), np.nan_to_num(flat.astype(np.float64))
    if inputs.dtype.kind in "iu" and inputs.ndim == 2 and inputs.shape[1] > 1:
        words, places = np.unique(flat, return_inverse=True)
        if len(words) <= LEAK_FEATURES and words[0] >= 0:
            held = np.zeros((len(flat), len(words)))
            held[np.arange(len(flat))[:, None], places.reshape(flat.shape)] = 1
            yield words.astype(np.int64) + LEAK_WORDS, held


def has_several_answers(labels: NDArray[np.generic]) -> bool:
    """Return False for a batch with too few samples of several classes to judge."""
    codes = as_classes(labels)
    if codes is None:
        return True
    often = _often(codes)
    return len(often) > 1 and int(np.isin(codes, often).sum()) >= LEAK_OF_A_BATCH


def _often(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    classes, counts = np.unique(codes, return_counts=True)
    return np.asarray(classes[counts > 1], np.int64)
