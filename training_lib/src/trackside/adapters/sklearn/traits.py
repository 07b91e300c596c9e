"""Traits of estimators: whether they read the scale of their inputs, and whether the last `fit` came to its end."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

# Modules of estimators with steps along a gradient, distances or kernels. All others are closed solutions or trees.
_READ_SCALES = (
    "sklearn.cluster.",
    "sklearn.linear_model._logistic",
    "sklearn.linear_model._passive_aggressive",
    "sklearn.linear_model._perceptron",
    "sklearn.linear_model._stochastic_gradient",
    "sklearn.neighbors.",
    "sklearn.neural_network.",
    "sklearn.svm.",
)
_TREES = "sklearn.ensemble."  # its `max_iter` is a number of trees, and no limit


def reads_scales(estimator: Any) -> bool:
    """Return True if inputs of a size a thousand times as large, or one such feature, change the answers."""
    return any(kind.__module__.startswith(_READ_SCALES) for kind in type(estimator).__mro__)


def is_pairwise(estimator: Any) -> bool:
    """Return True if the rows are distances or kernels between samples."""
    return any(getattr(estimator, name, "") == "precomputed" for name in ("metric", "kernel", "affinity"))


def are_single(rows: Any) -> bool:
    """Return True for rows without columns, such as texts."""
    shape = getattr(rows, "shape", None)
    return len(shape) < 2 if shape is not None else isinstance(next(iter(rows), None), str)


def steps_at_limit(estimator: Any) -> int:
    """Return the number of steps of a `fit` that came to the limit of steps before a tolerance; else 0."""
    counts, limit = getattr(estimator, "n_iter_", None), getattr(estimator, "max_iter", None)
    is_tree = type(estimator).__module__.startswith(_TREES)
    if is_tree or not isinstance(limit, (int, np.integer)) or getattr(estimator, "tol", None) is None:
        return 0
    with contextlib.suppress(TypeError, ValueError):
        most = np.max(np.asarray(counts, np.float64))
        return int(most) if most >= limit > 0 else 0
    return 0


class ConvergenceWarnings:
    """Warnings of scikit-learn, while `fit` runs, that it has not converged. They are shown as ever."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count them meanwhile, from 0. Only one thread does at a time: another one counts nothing."""
        self.count = 0
        if not self._lock.acquire(blocking=False):
            yield
            return
        shown = warnings.showwarning

        def showwarning(message: Any, category: type[Warning], *args: Any, **kwargs: Any) -> None:
            self.count += issubclass(category, ConvergenceWarning)
            shown(message, category, *args, **kwargs)

        warnings.showwarning = showwarning
        try:
            yield
        finally:
            if warnings.showwarning is showwarning:
                warnings.showwarning = shown
            self._lock.release()
