"""The numbers about a model of numbers: residuals, and errors by the size of the label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.views.report.model.labelled import Labelled

LABEL_BINS = 10

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LabelBins:
    """Absolute errors by the size of the label.

    edges    of shape (bins + 1,)
    errors   mean absolute error at each step, of shape (steps, bins); NaN in an empty bin
    count    labels in each bin at the last step, of shape (bins,)
    """

    edges: Numbers
    errors: Numbers
    count: NDArray[np.int64]


def residuals(saved: Labelled) -> Numbers:
    """Return predicted minus true."""
    return np.asarray(saved.predictions - saved.labels)


def label_bins(saved: tuple[Labelled, ...]) -> LabelBins:
    """Return the mean absolute error in each bin of the labels, at each step. Bins hold about as many labels each.

    The original has bins of one width, most of which are empty where labels are skewed.
    """
    last = saved[-1]
    edges = np.unique(np.quantile(last.labels, np.linspace(0, 1, LABEL_BINS + 1)))
    if len(edges) == 1:
        edges = np.array([edges[0], edges[0]])
    rows = [_errors(one, edges) for one in saved]
    return LabelBins(edges, np.stack([errors for errors, _ in rows]), rows[-1][1])


def _errors(saved: Labelled, edges: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    size = len(edges) - 1
    places = np.clip(np.searchsorted(edges, saved.labels, side="right") - 1, 0, size - 1)
    counts = np.bincount(places, minlength=size)
    with np.errstate(invalid="ignore"):
        return np.bincount(places, np.abs(residuals(saved)), size) / np.where(counts, counts, np.nan), counts


def r_squared(saved: Labelled) -> float:
    """Return the share of the labels' variance that the predictions explain; NaN where all labels are equal."""
    spread = float(np.square(saved.labels - saved.labels.mean()).sum())
    return 1 - float(np.square(residuals(saved)).sum()) / spread if spread > 0 else float("nan")
