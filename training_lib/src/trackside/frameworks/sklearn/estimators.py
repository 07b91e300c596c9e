"""The adapter of estimators that keep a value of each step in which they learned.

Where the process has imported a framework that trains by itself, nothing is captured here: an estimator beside it is a
baseline, and a run holds one training.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import sklearn

from trackside.environment import CaptureEnvironment
from trackside.frameworks.rounds import History, HistoryReader, Learning, RoundsAdapter
from trackside.frameworks.sklearn.given_rows import GivenRows

TRAINERS = ("torch", "tensorflow", "keras", "jax", "xgboost", "lightgbm", "catboost")


class EstimatorAdapter(RoundsAdapter):
    """An adapter of estimators; see `frameworks/rounds.py`. An inheriting class replaces their methods."""

    def __init__(self, environment: CaptureEnvironment) -> None:
        super().__init__(environment)
        self._reader = HistoryReader(self)
        self.read = self.session.guard.protect("capturing steps", self._read)
        self.fit_ended = self.session.guard.protect("ending a training", self._fit_ended)
        self.given_to = self.session.guard.protect("looking at the arguments of fit", _given_to)

    def _read(
        self,
        estimator: Any,
        history: Callable[[Any, GivenRows], History],
        given: GivenRows | None,
        *,
        same_loss: Callable[[Any], str] = lambda _: "",
        network: str = "",
    ) -> None:
        if given is None or any(name in sys.modules for name in TRAINERS):
            return
        loss = str(getattr(estimator, "loss", ""))

        def learning() -> Learning:
            return Learning(
                "scikit-learn",
                sklearn.__version__,
                loss=loss,
                same_loss=same_loss(estimator),
                is_weighted=given.is_weighted,
                classes=self.session.guard.attempt("counting classes", given.classes) or (),
                network=network,
            )

        # The same object for as long as the estimator lives, which it does not keep alive.
        self._reader.read(weakref.ref(estimator), history(estimator, given), learning)

    def _fit_ended(self, estimator: Any) -> None:
        """Leave the run to no further `fit`, but to one that goes on where this one ended."""
        if not getattr(estimator, "warm_start", False):
            self.training_ended(weakref.ref(estimator))


def owner_of(estimator: type, method: str) -> tuple[type, str]:
    """Return the class that defines a method of an estimator, and the name of the method."""
    return next(each for each in estimator.__mro__ if method in vars(each)), method


def _given_to(
    fit: Callable[..., Any], estimator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> GivenRows | None:
    """Return the training set of a call of `fit`; None for a wrong call, which scikit-learn shows better."""
    try:
        given = inspect.signature(fit).bind(estimator, *args, **kwargs).arguments
    except TypeError:
        return None
    return GivenRows(estimator, given["X"], given["y"], given.get("sample_weight")) if "y" in given else None
