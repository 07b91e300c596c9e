"""The scale of inputs, and its faults. Pure functions of a batch."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.errors import TensorNotSavedError
from trackside.contracts.model_facts import ModelFacts
from trackside.situation.constants import (
    DOUBLE_ROUNDING,
    ENOUGH_SAMPLES,
    ENOUGH_TO_COMPARE,
    FLOAT32_ROUNDING,
    MASKED,
    MOST_VALUES,
    SEVERAL,
)
from trackside.situation.labels import as_classes
from trackside.situation.medians import median
from trackside.trial.window import Window

CONSTANT, SPREAD, SIZE, TINY, BROKEN, UNLIKE = (
    "deviation between the samples of a batch",
    "largest feature's size over the middle one's",
    "root mean square of the inputs",
    "root mean square of the inputs that are not zero",
    "non-finite inputs",
    "ratio of the inputs' deviations in training and in evaluation",
)


@dataclass(frozen=True)
class Wrong:
    """The fault of a batch, in the fields of a finding."""

    measure: str
    observed: float
    relation: str
    threshold: float


def is_mask(batch: NDArray[np.generic]) -> bool:
    """Return True for what is added to the logits of attention: zeros, and one huge negative number or -infinity.

    Of two dimensions only square ones count: a table of so few numbers is data.
    """
    if batch.dtype.kind != "f" or batch.ndim < 2 or (batch.ndim == 2 and batch.shape[0] != batch.shape[1]):
        return False
    others = batch[batch != 0]
    return bool(0 < others.size < batch.size and others[0] <= MASKED and (others == others[0]).all())


def inputs_differ(window: Window) -> bool | None:
    """Return True if the samples of the newest saved batch of each input differ; None if none was saved."""
    answer = None
    for column in window.columns("model_inputs", "mean", last=1, mode="TRAIN"):
        try:
            batch = window.value(column.tensor, worker=column.worker, step=int(column.steps[-1]))
        except TensorNotSavedError:  # reductions only
            continue
        if batch.ndim > 1 and len(batch) > 1:
            answer = answer is not False and bool((batch != batch[:1]).any())
    return answer


@dataclass(frozen=True)
class Neighbours:
    """Samples beside those with the most similar inputs.

    samples   number of compared samples
    alike     number of those with the label of their nearest neighbour
    expected  that number if labels did not depend on inputs
    """

    samples: int
    alike: int
    expected: float

    @property
    def deviations(self) -> float:
        """The difference from what is expected, in standard deviations of chance."""
        return (self.alike - self.expected) / math.sqrt(self.expected * (1 - self.expected / self.samples))


def neighbours_of(inputs: NDArray[np.generic], labels: NDArray[np.generic]) -> Neighbours | None:
    """Return how many samples have the label of their nearest neighbour; None where that shows nothing.

    Args:
        inputs: Numbers, shape (samples, ...). Words and other whole numbers have no distances.
        labels: Classes, or numbers, of which two classes are made, above their median and not; shape (samples, ...).
    """
    if inputs.dtype.kind != "f" or inputs.ndim < 2 or len(labels) != len(inputs) or len(inputs) < ENOUGH_TO_COMPARE:
        return None
    rows = inputs.reshape(len(inputs), -1)[:, : MOST_VALUES // len(inputs)].astype(np.float64)
    deviation = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    classes = as_classes(labels)
    if classes is None:
        if labels.size != len(labels) or labels.dtype.kind != "f":
            return None
        numbers = labels.reshape(-1).astype(np.float64)
        classes = (numbers > median(numbers)).astype(np.int64)
    shares = np.unique(classes, return_counts=True)[1] / len(classes)
    if len(shares) < SEVERAL or not np.isfinite(rows).all():
        return None
    squares = np.square(rows).sum(axis=1)
    distances = squares[:, None] + squares - 2 * rows @ rows.T
    np.fill_diagonal(distances, np.inf)
    distances[distances <= DOUBLE_ROUNDING * squares[:, None]] = np.inf  # the same sample, drawn again
    alike = int(np.count_nonzero(classes[distances.argmin(axis=1)] == classes))
    return Neighbours(len(rows), alike, float(np.square(shares).sum() * len(rows)))


def unlikeness(trained: NDArray[np.float64], evaluated: float) -> float:
    """Return the factor between the deviation in evaluation and the nearest one in training; 0 if it is within theirs.

    Args:
        trained: The deviation of each batch of training, shape (n,).
        evaluated: The deviation of a batch of evaluation.
    """
    if len(trained) < SEVERAL or not (np.isfinite(trained).all() and trained.min() > 0 < evaluated < math.inf):
        return 0.0
    least, most = float(trained.min()), float(trained.max())
    return evaluated / most if evaluated > most else least / evaluated if evaluated < least else 0.0


def wrong_with(batch: NDArray[np.generic], *, size: float, ratio: float, least: float = 0.0) -> Wrong | None:
    """Return the first fault of a batch of inputs, shape (samples, ...); None without one."""
    if batch.dtype.kind not in "fiu" or batch.ndim < 2 or len(batch) < ENOUGH_SAMPLES or not batch.size:
        return None
    samples = batch.reshape(len(batch), -1)[:, : max(1, MOST_VALUES // len(batch))].astype(np.float64)
    broken = samples.size - int(np.count_nonzero(np.isfinite(samples)))
    if broken:
        return Wrong(BROKEN, float(broken), ">", 0.0)
    scale = math.sqrt(float(np.square(samples).mean()))
    deviation = float(samples.std(axis=0).max())
    if deviation <= FLOAT32_ROUNDING * max(scale, 1e-30):
        return Wrong(CONSTANT, deviation, "<", max(FLOAT32_ROUNDING * scale, math.ulp(deviation) + deviation, 1e-37))
    return (
        _unscaled(samples, scale, size=size, ratio=ratio, least=least, is_table=batch.ndim == 2)
        if batch.dtype.kind == "f"
        else None
    )


def _unscaled(
    samples: NDArray[np.float64], scale: float, *, size: float, ratio: float, least: float, is_table: bool
) -> Wrong | None:
    """Return the fault of inputs that are too large, too small, or uneven; None if they are well scaled.

    samples  shape (samples, numbers)
    scale    root mean square of all numbers
    """
    if scale > size:
        return Wrong(SIZE, scale, ">", size)
    filled = math.sqrt(float(np.square(samples).sum()) / max(1, int(np.count_nonzero(samples))))
    if 0 < filled < least:
        return Wrong(TINY, filled, "<", least)
    if is_table and samples.shape[1] > 2:
        sizes = np.sqrt(np.square(samples).mean(axis=0))
        usual = median(sizes[sizes > 0]) if (sizes > 0).any() else 0.0
        if usual > 0 and float(sizes.max()) / usual > ratio:
            return Wrong(SPREAD, float(sizes.max()) / usual, ">", ratio)
    return None


def came_before(window: Window, name: str, batch: NDArray[np.generic], *, worker: str) -> bool:
    """Return True if each earlier saved batch of tokens was the same: then one text is all that was read.

    A group of generations shares its prompt, and the next group has another one.

    Args:
        window: The run up to the step of the batch.
        name: The input.
        batch: The batch of the judged step, shape (samples, ...).
        worker: The worker that saved it.
    """
    columns = [c for c in window.statistic(name, "mean", mode=None) if c.worker == worker]
    texts = []
    for step in sorted({step for c in columns for step in c.steps[c.steps < window.step].tolist()}):
        with suppress(TensorNotSavedError):  # reductions only
            texts.append(window.value(name, worker=worker, step=step))
    return bool(texts) and all(text.ndim > 1 and np.array_equal(text[:1], batch[:1]) for text in texts)


def normalizes_itself(facts: ModelFacts | None) -> bool:
    """Return True if the first layer that computes anything is a normalisation.

    Args:
        facts: The facts about the program; None if they are unknown.
    """
    if facts is None:
        return False
    working = [
        m for m in facts.modules if m.role in {"linear", "convolution", "recurrent", "attention", "normalization"}
    ]
    return bool(working) and working[0].role == "normalization"
