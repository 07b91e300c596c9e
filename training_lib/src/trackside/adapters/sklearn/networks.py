"""Captures `MLPClassifier` and `MLPRegressor`: a step is an epoch of `fit`, or a call of `partial_fit`.

At the end of each epoch scikit-learn calls a method that counts epochs without progress, and it is listened to. A
version without that method has its epochs captured when `fit` has ended. The solver "lbfgs" keeps no losses. The newest
epoch of `fit` waits for the next one, since what is requested of the last is saved whatever its number.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from sklearn.neural_network import MLPClassifier, MLPRegressor

from trackside.adapters.shared.rounds import History, settings
from trackside.adapters.sklearn.estimators import EstimatorAdapter, owner_of
from trackside.adapters.sklearn.given_rows import GivenRows
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace

EPOCH_ENDED = "_update_no_improvement_count"
FIT = "_fit"  # behind `fit` and `partial_fit`


class NetworkAdapter(EstimatorAdapter):
    """The adapter of `sklearn.neural_network`."""

    kinds = (MLPClassifier, MLPRegressor)

    def listen_to_steps(self) -> Undo:
        """Listen to epochs and to the end of `fit`."""
        self._given: dict[int, GivenRows | None] = {}  # by the id of an estimator in `fit`
        undo_fit = replace([owner_of(MLPClassifier, FIT)], self._fitting)
        if not hasattr(MLPClassifier, EPOCH_ENDED):
            return undo_fit
        undo_epoch = replace([owner_of(MLPClassifier, EPOCH_ENDED)], self._counting)
        return lambda: (undo_epoch(), undo_fit())

    def _counting(self, count: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(count)
        def counted(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            found = count(estimator, *args, **kwargs)
            if given := self._given.get(id(estimator)):
                self._read_network(estimator, functools.partial(_history, holds_newest=True), given)
            return found

        return counted

    def _fitting(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fit)
        def fitted(estimator: Any, *args: Any, incremental: bool = False, **kwargs: Any) -> Any:
            given = self.given_to(fit, estimator, args, kwargs)
            if not incremental:
                self._given[id(estimator)] = given
            try:
                return fit(estimator, *args, incremental=incremental, **kwargs)
            finally:  # scikit-learn raises at the end of a training that diverged
                self._given.pop(id(estimator), None)
                self._read_network(estimator, functools.partial(_history, is_over=not incremental), given)
                is_whole = not incremental and not getattr(estimator, "warm_start", False)
                self.fit_ended(estimator, given, may_go_on=not is_whole, ran_out=_ran_out(estimator) * is_whole)

        return fitted

    def _read_network(
        self, estimator: Any, history: Callable[[Any, GivenRows], History], given: GivenRows | None
    ) -> None:
        self.read(estimator, history, given, same_loss=_same_loss, network=type(estimator).__name__)


def attach() -> None:
    """Switch capture on if the environment names a run. Called once `sklearn.neural_network` has been imported."""
    in_charge.attach_new(NetworkAdapter)


def _history(estimator: Any, given: GivenRows, *, is_over: bool = False, holds_newest: bool = False) -> History:
    values = {"train": {estimator.loss: getattr(estimator, "loss_curve_", ())}}
    if scores := getattr(estimator, "validation_scores_", None):
        values["validation"] = {"score": scores}
    return History(
        values,
        "train",
        {"hyperparameters": lambda: settings(estimator.get_params(deep=False))},
        functools.partial(given.sources, kind="model_inputs", name=f"{type(estimator).__name__}_input_0"),
        is_over=is_over,
        holds_newest=holds_newest,
    )


def _same_loss(estimator: Any) -> str:
    if estimator.loss != "log_loss":
        return ""
    return "NLLLoss" if estimator.out_activation_ == "softmax" else "BCELoss" if estimator.n_outputs_ == 1 else ""


def _ran_out(estimator: Any) -> int:
    """Return the number of epochs, if their limit ended the training before it converged: scikit-learn warns then."""
    count = getattr(estimator, "n_iter_", 0)
    has_converged = getattr(estimator, "_no_improvement_count", 0) > estimator.n_iter_no_change
    return 0 if has_converged or count != estimator.max_iter else int(count)
