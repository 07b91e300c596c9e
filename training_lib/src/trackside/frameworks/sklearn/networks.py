"""Captures `MLPClassifier` and `MLPRegressor`: a step is an epoch of `fit`, or a call of `partial_fit`.

At the end of each epoch scikit-learn calls a method that counts epochs without progress, and it is listened to. A
version without that method has its epochs captured when `fit` has ended. The solver "lbfgs" keeps no losses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sklearn.neural_network import MLPClassifier

from trackside.frameworks import in_charge
from trackside.frameworks.adapter import Undo
from trackside.frameworks.replaced_methods import replace
from trackside.frameworks.rounds import History, settings
from trackside.frameworks.sklearn.estimators import EstimatorAdapter, owner_of

EPOCH_ENDED = "_update_no_improvement_count"


class NetworkAdapter(EstimatorAdapter):
    """The adapter of `sklearn.neural_network`."""

    def listen(self) -> Undo:
        """Listen to epochs and to the end of `fit`."""
        undo_fit = replace([owner_of(MLPClassifier, "fit")], self._fitting)
        if not hasattr(MLPClassifier, EPOCH_ENDED):
            return undo_fit
        undo_epoch = replace([owner_of(MLPClassifier, EPOCH_ENDED)], self._counting)
        return lambda: (undo_epoch(), undo_fit())

    def _counting(self, count: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(count)
        def counted(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            found = count(estimator, *args, **kwargs)
            self.read(estimator, _history, same_loss=_same_loss)
            return found

        return counted

    def _fitting(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fit)
        def fitted(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            found = fit(estimator, *args, **kwargs)
            self.read(estimator, _history, same_loss=_same_loss)
            self.fit_ended(estimator)
            return found

        return fitted


def attach() -> None:
    """Switch capture on if the environment names a run. Called once `sklearn.neural_network` has been imported."""
    in_charge.attach_new(NetworkAdapter)


def _history(estimator: Any) -> History:
    values = {"train": {estimator.loss: getattr(estimator, "loss_curve_", ())}}
    if scores := getattr(estimator, "validation_scores_", None):
        values["validation"] = {"score": scores}
    return History(values, "train", {"hyperparameters": lambda: settings(estimator.get_params(deep=False))})


def _same_loss(estimator: Any) -> str:
    if estimator.loss != "log_loss":
        return ""
    return "NLLLoss" if estimator.out_activation_ == "softmax" else "BCELoss" if estimator.n_outputs_ == 1 else ""
