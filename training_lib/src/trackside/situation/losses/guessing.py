"""The loss of a guess: the best constant answer to a run's labels.

A model that never gets below it has learned nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.model_facts import LossFacts
from trackside.contracts.observations import COMPARED_WITH, IGNORED_CLASS
from trackside.situation.constants import (
    ENOUGH_FOR_A_SHARE,
    ENOUGH_TO_COMPARE,
    ERRORS,
    FEWEST_OF_A_CLASS,
    MOST_READ,
    NEWEST_LOSSES,
    THREEFOLD,
)
from trackside.situation.losses.losses import TRAINING_MODES, error_of_median, training_losses
from trackside.situation.medians import median
from trackside.trial.window import Window

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Guess:
    """The best constant answer.

    loss           its loss
    is_of_classes  True if the labels are classes, False for numbers
    evaluated      the loss of the best constant answer to the labels of the evaluations; None if it cannot be computed
    """

    loss: float
    is_of_classes: bool
    evaluated: float | None = None


def best_guess(window: Window, loss: str, *, worker: str) -> Guess | None:
    """Return the best constant answer to the saved training labels, with its loss; None if it cannot be computed.

    `loss` is the tensor's name. None for losses computed by hand, sums, weighted losses, and runs without saved labels.
    """
    facts = window.facts.loss(loss) if window.facts is not None else None
    if facts is None or facts.type_name not in _JUDGES:
        return None
    level = loss_of_guessing(facts, list(labels_of(window, loss, worker, modes=TRAINING_MODES)))
    if level is None or not level > 0:
        return None
    if facts.type_name in _OF_CLASSES:
        return Guess(level, is_of_classes=True)
    evaluated = loss_of_guessing(facts, list(labels_of(window, loss, worker, modes=("EVAL",))))
    return Guess(level, is_of_classes=False, evaluated=evaluated)


def beats(losses: NDArray[np.float64], guess: float) -> bool:
    """Return True if the newest losses are certainly below that of a guess: by two standard errors of their median.

    How far below does not matter: a loss may stay near that of a guess by its nature, as of contrasts among many.

    Args:
        losses: Finite losses, oldest first, shape (n,), n >= 1.
        guess: The loss of the best constant answer.
    """
    newest = losses[-NEWEST_LOSSES:]
    return median(newest) + ERRORS * error_of_median(newest) < guess


def all_as_guessing(window: Window, *, share: float) -> bool:
    """Return True if every training loss is at that level of the best guess of classes; False if a guess is unknown.

    Args:
        window: The run up to the judged step.
        share: Share of the loss of guessing, above which nothing has been learned.
    """
    columns = training_losses(window)
    for column in columns:
        guess = best_guess(window, column.tensor, worker=column.worker)
        newest = column.values[-NEWEST_LOSSES:]
        if guess is None or not guess.is_of_classes or not median(newest[np.isfinite(newest)]) > share * guess.loss:
            return False
    return bool(columns)


def loss_of_guessing(loss: LossFacts, labels: Sequence[NDArray[np.generic]]) -> float | None:
    """Return the loss of the best constant answer to these labels, batches of shape (samples, ...); None if unknown."""
    judge = _JUDGES.get(loss.type_name)
    if judge is None or loss.reduction != "mean" or loss.is_weighted or COMPARED_WITH.of(loss):
        return None
    widths = {batch.shape[1:] for batch in labels}
    if len(widths) != 1 or sum(len(batch) for batch in labels) < ENOUGH_FOR_A_SHARE:
        return None
    rows = np.concatenate(labels)
    if IGNORED_CLASS.of(loss) >= 0 and rows.dtype.kind in "iu":
        rows = rows[rows != IGNORED_CLASS.of(loss)]
    return judge(rows) if rows.dtype.kind in "fiub" and bool(np.isfinite(rows).all()) else None


def _cross_entropy(labels: NDArray[np.generic]) -> float | None:
    if labels.dtype.kind == "f":  # probabilities of the classes
        shares = labels.astype(np.float64).reshape(len(labels), -1).mean(axis=0)
    else:
        classes = labels.reshape(-1).astype(np.int64)
        shares = np.bincount(classes[classes >= 0]).astype(np.float64)  # below zero: places that do not count
    total = float(shares.sum())
    seen = np.count_nonzero(shares)
    if not total > 0 or (labels.dtype.kind != "f" and total < FEWEST_OF_A_CLASS * seen):
        return None
    return float(-_log_product(shares / total).sum())


def _binary_cross_entropy(labels: NDArray[np.generic]) -> float:
    shares = _rows(labels).mean(axis=0)
    return float(-(_log_product(shares) + _log_product(1 - shares)).mean())


def _squared(labels: NDArray[np.generic]) -> float:
    return float(_rows(labels).var(axis=0).mean())


def _absolute(labels: NDArray[np.generic]) -> float:
    rows = _rows(labels)
    return float(np.abs(rows - np.median(rows, axis=0)).mean())


def _huber(labels: NDArray[np.generic]) -> float:
    rows = _rows(labels)
    return min(_huber_of(rows - rows.mean(axis=0)), _huber_of(rows - np.median(rows, axis=0)))


def _huber_of(errors: Rows) -> float:
    sizes = np.abs(errors)
    return float(np.where(sizes < 1, sizes**2 / 2, sizes - 0.5).mean())


def labels_differ(window: Window, loss: str, worker: str) -> str | None:
    """Return how the saved labels of a training differ from those of its evaluations; "" for none, None if unknown.

    Args:
        window: The run up to the judged step.
        loss: The name of the loss.
        worker: The worker.
    """
    trained, evaluated = (
        [batch.reshape(-1) for batch in labels_of(window, loss, worker, modes=modes)]
        for modes in (TRAINING_MODES, ("EVAL",))
    )
    if min(sum(map(len, trained)), sum(map(len, evaluated))) < ENOUGH_TO_COMPARE:
        return None
    return difference_of_labels(np.concatenate(trained), np.concatenate(evaluated))


def difference_of_labels(trained: NDArray[np.generic], evaluated: NDArray[np.generic]) -> str:
    """Return how the labels of a training differ from those of its evaluations; "" for labels that may be alike.

    Args:
        trained: Labels of the training, shape (n,).
        evaluated: Labels of the evaluations, shape (m,).
    """
    means, spreads = ([float(of(each.astype(np.float64))) for each in (trained, evaluated)] for of in (np.mean, np.std))
    if abs(means[0] - means[1]) > THREEFOLD * max(spreads):
        return f"labels are {means[0]:.3g} on average in training, and {means[1]:.3g} in evaluation"
    if max(spreads) > THREEFOLD * min(spreads):
        return f"labels deviate by {spreads[0]:.3g} in training, and by {spreads[1]:.3g} in evaluation"
    return ""


_JUDGES: Mapping[str, Callable[[NDArray[np.generic]], float | None]] = MappingProxyType(
    {
        "CrossEntropyLoss": _cross_entropy,
        "NLLLoss": _cross_entropy,
        "BCELoss": _binary_cross_entropy,
        "BCEWithLogitsLoss": _binary_cross_entropy,
        "MSELoss": _squared,
        "L1Loss": _absolute,
        "SmoothL1Loss": _huber,
        "HuberLoss": _huber,
    }
)


_OF_CLASSES = frozenset({"CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss"})


def _rows(labels: NDArray[np.generic]) -> Rows:
    return labels.reshape(len(labels), -1).astype(np.float64)


def _log_product(shares: Rows) -> Rows:
    """Return p log p, 0 for 0."""
    return shares * np.log(np.where(shares > 0, shares, 1.0))


def labels_of(window: Window, loss: str, worker: str, *, modes: Sequence[str]) -> Iterator[NDArray[np.generic]]:
    """Yield some saved labels of a loss, batches spread over the run: those of its name, or the only ones.

    Args:
        window: The run up to the judged step.
        loss: The name of the loss.
        worker: The worker.
        modes: The modes of the steps with these labels.
    """
    names = window.tensors("labels")
    own = [name for name in names if name.startswith(f"{loss.rpartition('_output_')[0]}_input_")]
    for name in own[:1] or (names if len(names) == 1 else ()):
        for mode in modes:
            for column in window.statistic(name, "mean", mode=mode):
                if column.worker != worker:
                    continue
                chosen = np.unique(np.linspace(0, len(column.steps) - 1, MOST_READ).astype(int))
                for step in column.steps[chosen].tolist():
                    try:
                        value = window.value(name, worker=worker, step=step)
                    except TensorNotSavedError:  # reductions only
                        continue
                    if value.ndim:
                        yield value
