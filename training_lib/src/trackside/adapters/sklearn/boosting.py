"""Captures gradient boosting of scikit-learn: a step is a boosting round.

`GradientBoosting*` takes a monitor, which sees each round. `HistGradientBoosting*` keeps losses only where it stops
early, and its rounds are captured when `fit` has ended; the value before the first round is step 0.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.utils.validation import _num_samples

from trackside.adapters.shared.rounds import History, Named, Source, importances, settings
from trackside.adapters.sklearn.estimators import EstimatorAdapter, owner_of
from trackside.adapters.sklearn.given_rows import GivenRows
from trackside.frameworks.shared import in_charge
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace

FEW_ROWS = 10_000  # with which scikit-learn's "auto" does not stop early


class BoostingAdapter(EstimatorAdapter):
    """The adapter of gradient boosting in `sklearn.ensemble`."""

    kinds = (
        GradientBoostingClassifier,
        GradientBoostingRegressor,
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    def listen_to_steps(self) -> Undo:
        """Listen to the rounds."""
        self._monitored = self.session.guard.protect("adding a monitor", self._with_monitor)
        undo_rounds = replace([owner_of(GradientBoostingClassifier, "fit")], self._monitoring)
        undo_histograms = replace([owner_of(HistGradientBoostingClassifier, "fit")], self._fitting)
        return lambda: (undo_rounds(), undo_histograms())

    def _monitoring(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fit)
        def fitted(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            given = self.given_to(fit, estimator, args, kwargs)
            call = self._monitored(fit, estimator, args, kwargs, given)
            if call is None:  # capture is off, or the call is wrong, which scikit-learn shows better
                return fit(estimator, *args, **kwargs)
            found = fit(*call.args, **call.kwargs)
            self.read(estimator, _of_whole, given, same_loss=_same_loss)
            self.fit_ended(estimator, given, may_go_on=estimator.warm_start)
            return found

        return fitted

    def _with_monitor(
        self,
        fit: Callable[..., Any],
        estimator: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        given: GivenRows | None,
    ) -> inspect.BoundArguments:
        """Return the call of `fit` with a monitor that calls the script's own first."""
        call = inspect.signature(fit).bind(estimator, *args, **kwargs)
        own = call.arguments.get("monitor")

        def monitor(number: int, estimator: Any, variables: Any) -> Any:
            ends = own(number, estimator, variables) if own is not None else None
            self.read(estimator, functools.partial(_of_rounds, count=number + 1), given, same_loss=_same_loss)
            return ends

        call.arguments["monitor"] = monitor
        return call

    def _fitting(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fit)
        def fitted(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            given = self.given_to(fit, estimator, args, kwargs)
            with self._rehearsed(estimator, given):
                found = fit(estimator, *args, **kwargs)
            self.read(estimator, _of_histograms, given, same_loss=_same_loss)
            self.fit_ended(estimator, given, may_go_on=estimator.warm_start)
            return found

        return fitted

    @contextlib.contextmanager
    def _rehearsed(self, estimator: Any, given: GivenRows | None) -> Iterator[None]:
        """Make no more rounds than a rehearsal has steps, since nothing ends a `fit` before its last round."""
        if self.rehearsed is None or given is None or not _keeps_losses(estimator, given):
            yield
            return
        own = estimator.max_iter
        estimator.max_iter = min(own, self.rehearsed.step_count)
        try:
            yield
        finally:
            estimator.max_iter = own


def attach() -> None:
    """Switch capture on if the environment names a run. Called once `sklearn.ensemble` has been imported."""
    in_charge.attach_new(BoostingAdapter)


def _of_rounds(estimator: Any, given: GivenRows, count: int) -> History:
    sources = {"hyperparameters": lambda: _settings(estimator)}
    return History(_values(estimator, count), "train", sources, _rows_of(given), holds_newest=True)


def _of_whole(estimator: Any, given: GivenRows) -> History:
    sources = {
        "hyperparameters": lambda: _settings(estimator),
        "feature_importance": lambda: _importances(estimator),
    }
    return History(_values(estimator, None), "train", sources, _rows_of(given), is_over=True)


def _of_histograms(estimator: Any, given: GivenRows) -> History:
    """Return the losses, or the scores if early stopping watches another metric than the loss."""
    is_loss = estimator.scoring == "loss"
    kept = {"train": estimator.train_score_, "validation": estimator.validation_score_}
    name = estimator.loss if is_loss else "score"
    values = {of_set: {name: -own if is_loss else own} for of_set, own in kept.items() if len(own)}
    sources = {"hyperparameters": lambda: _settings(estimator)}
    return History(values, "train", sources, _rows_of(given), is_over=True)


def _keeps_losses(estimator: Any, given: GivenRows) -> bool:
    is_large = _num_samples(given.rows) > FEW_ROWS
    return bool(is_large if estimator.early_stopping == "auto" else estimator.early_stopping)


def _rows_of(given: GivenRows) -> Callable[[int], Mapping[str, Source]]:
    return functools.partial(given.sources, kind="rows", name="inputs")


def _same_loss(estimator: Any) -> str:
    """Return PyTorch's class for the same loss; "" for twice that, which `GradientBoosting*` keeps of two classes."""
    classes = len(getattr(estimator, "classes_", ()))
    if estimator.loss != "log_loss" or not classes:
        return ""
    is_halved = isinstance(estimator, HistGradientBoostingClassifier)
    return "NLLLoss" if classes > 2 else "BCELoss" if is_halved else ""


def _values(estimator: Any, count: int | None) -> dict[str, dict[str, Any]]:
    values = {"train": {estimator.loss: estimator.train_score_[:count]}}
    if hasattr(estimator, "oob_scores_"):  # of other rows in each round: no curve of a validation set
        values["oob"] = {"score": estimator.oob_scores_[:count]}
    return values


def _settings(estimator: Any) -> Named:
    return settings(estimator.get_params(deep=False))


def _importances(estimator: Any) -> Named:
    names = getattr(estimator, "feature_names_in_", None)
    found = enumerate(estimator.feature_importances_.tolist())
    scores = {str(names[k]) if names is not None else f"f{k}": value for k, value in found if value}
    return importances("weight", scores)  # the name under which rules look for them
