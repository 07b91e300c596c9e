"""Questions about the labels, each answered present, absent or unknown. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.cause import Cause
from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.run.recorded_names import UNRELATED_NOISE
from trackside.evidence.question import Answer, Known, question
from trackside.evidence.questions import gradients, losses, weights
from trackside.situation.constants import (
    A_HANDFUL,
    A_TENTH_MORE,
    ABOUT_EQUAL,
    ALL_BUT_CHANCE,
    ENOUGH_STEPS,
    ERRORS,
    LABELS_OF_A_CLASS,
    MOST_READ,
    NEGLIGIBLE_SHARE,
    SHORT_WAY,
    VISIBLE,
    WILD,
)
from trackside.situation.inputs import Neighbours, inputs_differ, neighbours_of
from trackside.situation.labels import as_classes
from trackside.situation.losses import guessing
from trackside.situation.losses.guessing import labels_of
from trackside.situation.losses.losses import TRAINING_MODES, finite, training_losses
from trackside.trial.window import Column, Window

_DRAWN_AGAIN = "targets are normal noise, and no layer reads any of it: was it drawn a second time?"


@question(supports=(Cause.WRONG_LABELS,), explains=(Cause.OVERFITTING,), proves=(Cause.WRONG_LABELS,))
def labels_differ(known: Known) -> Answer:
    """The labels of training and evaluation are of another size."""
    found = [guessing.labels_differ(known.window, c.tensor, c.worker) for c in training_losses(known.window)]
    some = [how for how in found if how is not None]
    return next((how for how in some if how), False) if some else None


@question(supports=(Cause.CLASS_IMBALANCE,), refutes=(Cause.CLASS_IMBALANCE,))
def unequal_classes(known: Known) -> Answer:
    """Training labels of some class are missing, or far fewer than of others.

    False if classes are about equal, None in between.
    """
    window, answer = known.window, None
    for column in training_losses(window):
        trained, evaluated = (
            [found for batch in batches if (found := as_classes(batch)) is not None]
            for batches in (
                labels_of(window, column.tensor, column.worker, modes=modes) for modes in (TRAINING_MODES, ("EVAL",))
            )
        )
        if not trained:
            continue
        labels = np.concatenate(trained)
        classes = np.unique(np.concatenate([labels, *evaluated]))
        counts = np.array([np.count_nonzero(labels == each) for each in classes])
        if len(labels) < LABELS_OF_A_CLASS * len(classes):
            continue
        fewest = int(counts.argmin())
        if counts[fewest] < NEGLIGIBLE_SHARE * counts.max():
            return f"{counts[fewest]} of {len(labels):,} saved training labels are of class {classes[fewest]}"
        if counts[fewest] < ABOUT_EQUAL * counts.max():
            return None
        answer = False
    return answer


@question(supports=(Cause.WRONG_LABELS,), proves=(Cause.WRONG_LABELS,))
def unrelated_noise(known: Known) -> Answer:
    """The targets are standard normal noise, nothing of it is read, and the loss is all of its variance."""
    window = known.window
    columns = window.statistic(UNRELATED_NOISE, "mean", mode=None)
    newest = [column.values[-A_HANDFUL:] for column in columns if len(column.values) >= A_HANDFUL]
    if not newest:
        return None
    losses_now = [finite(column)[1] for column in training_losses(window)]
    levels = [float(values[len(values) // 2 :].mean()) for values in losses_now if len(values) >= ENOUGH_STEPS]
    has_noise = all(values.min() == 1 for values in newest)
    is_all = bool(levels) and all(ALL_BUT_CHANCE <= level <= A_TENTH_MORE for level in levels)
    return _DRAWN_AGAIN if has_noise and is_all else False


@question(refutes=(Cause.CLASS_IMBALANCE,))
def classes(known: Known) -> Answer:
    """The labels are classes."""
    window, answer = known.window, None
    for column in training_losses(window):
        for batch in labels_of(window, column.tensor, column.worker, modes=TRAINING_MODES):
            if batch.dtype.kind != "f" or as_classes(batch) is not None:
                return True
            answer = False
    return answer


@question(proves=(Cause.WRONG_LABELS,))
def labels_unlearned(known: Known) -> Answer:
    """The labels were not learned, though gradients flow and weights move, and similar inputs have them by chance.

    Unknown where one of these is. Labels that inputs tell belong to them, whatever the model makes of them.
    """
    seen = known.seen
    fell, way, ratio, zeros = losses.loss_fell(known), seen.way, seen.update_ratio, seen.zero_gradients
    if fell is None or way is None or ratio is None or zeros is None:
        return None
    is_at_guessing = losses.loss_of_guessing(known)
    if (fell and not is_at_guessing) or zeros or seen.goes_nowhere or not VISIBLE <= ratio < WILD:
        return False
    if way[0] < SHORT_WAY or any(known_fault(known) for known_fault in _OTHER_FAULTS):
        return False
    if inputs_differ(known.window) is False:
        return False
    near = _neighbours(known.window)
    if near is None or near.deviations > ERRORS:
        return None if near is None else False
    level = is_at_guessing if isinstance(is_at_guessing, str) else "the loss has not fallen"
    return (
        f"{near.alike} of {near.samples} samples have the label of the most similar one, as by chance; gradients flow, "
        f"weights came {way[0]:.2g} times their size, and {level}"
    )


def _neighbours(window: Window) -> Neighbours | None:
    """Compare labels of samples with similar inputs, of the batches with both saved; None if nothing is known."""
    for inputs in window.columns("model_inputs", "mean", mode="TRAIN"):
        for labels in window.columns("labels", "mean", mode="TRAIN"):
            if labels.worker != inputs.worker:
                continue
            steps = [step for step in inputs.steps.tolist() if step in labels.steps][:MOST_READ]
            pairs = [_saved(window, inputs, labels, step) for step in steps]
            whole = [pair for pair in pairs if pair is not None]
            batches = [pair for pair in whole if [one.shape[1:] for one in pair] == [one.shape[1:] for one in whole[0]]]
            if not batches or _name_places([answers for _, answers in batches]):
                continue
            found = neighbours_of(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))
            if found is not None:
                return found
    return None


def _name_places(batches: Sequence[NDArray[np.generic]]) -> bool:
    """Return True if each batch has the labels of the others, all different: of places, as those of pairs are.

    Args:
        batches: The labels of each batch, shape (samples, ...).
    """
    first, others = batches[0], batches[1:]
    is_of_places = np.unique(first, axis=0).shape[0] == len(first)
    return is_of_places and bool(others) and all(np.array_equal(first, other) for other in others)


def _saved(
    window: Window, inputs: Column, labels: Column, step: int
) -> tuple[NDArray[np.generic], NDArray[np.generic]] | None:
    """Return a batch of inputs and its labels, shape (samples, ...) each; None if values or samples are missing."""
    try:
        batch, answers = (window.value(one.tensor, worker=one.worker, step=step) for one in (inputs, labels))
    except TensorNotSavedError:  # reductions only
        return None
    return (batch, answers) if batch.ndim > 1 and answers.ndim and len(batch) == len(answers) else None


_OTHER_FAULTS = (weights.torn_at_first, weights.weights_grew, gradients.gradient_spread, gradients.gradient_fades)
