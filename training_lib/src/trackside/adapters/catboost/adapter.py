"""Captures a training of CatBoost: a step is a boosting round, with CatBoost's own number.

`fit` gets one callback more, but for a training on a GPU, where CatBoost refuses callbacks: its rounds are captured
when it has ended. The model exists only then, so that importances belong to the last round. `metric_period` leaves
metrics out of most rounds, and an objective that CatBoost computes no value of leaves them out of all.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import catboost
from catboost import CatBoost, CatBoostClassifier, CatBoostRanker, CatBoostRegressor, metrics

from trackside.adapters.shared.rounds import (
    Ended,
    Evaluated,
    Learning,
    Metric,
    RoundsAdapter,
    Source,
    importances,
    settings,
)
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace

PLACES = tuple((kind, "fit") for kind in (CatBoost, CatBoostClassifier, CatBoostRegressor, CatBoostRanker))
TRAINED_ON = "learn"
# PyTorch's name of the same loss, where there is one.
SAME_LOSS = {"Logloss": "BCELoss", "MultiClass": "NLLLoss", "MAE": "L1Loss"}
ERROR_RATES = frozenset({"ZeroOneLoss", "HammingLoss", "BalancedErrorRate", "NumErrors"})  # which move by steps
_UNANSWERED = frozenset({"PairLogitPairwise"})  # falls; CatBoost makes no metric of it

Values = Mapping[str, Mapping[str, Sequence[float]]]  # by set and metric


class Boosting:
    """One training: the callback that CatBoost calls after each round, and the newest round, which may be the last.

    Attributes:
        waiting: The metrics of the newest round; None before the first.
        end: Ends the script of a rehearsal, once CatBoost has returned; None to go on.

    Args:
        ended: Called with this object and all values of the metrics so far.
    """

    def __init__(self, ended: Callable[[Boosting, Values], object]) -> None:
        self.waiting: list[Metric] | None = None
        self.end: SystemExit | None = None
        self._ended = ended
        self._counts: dict[tuple[str, str], int] = {}

    def after_iteration(self, info: Any) -> bool:
        """Capture the round. Return True for CatBoost to go on. It would make an error of its own of an exception."""
        try:
            self._ended(self, info.metrics or {})
        except SystemExit as end:
            self.end = end
        return self.end is None

    def added(self, values: Values) -> list[Metric]:
        """Return the metrics with a value more than at the last call."""
        found = []
        for of_set, own in values.items():
            for name, all_of_it in own.items():
                if len(all_of_it) > self._counts.get((of_set, name), 0):
                    found.append(Metric(of_set, name, float(all_of_it[-1])))
                self._counts[of_set, name] = len(all_of_it)
        return found


class CatBoostAdapter(RoundsAdapter):
    """The adapter of CatBoost; see `adapters/shared/rounds.py`."""

    def __init__(self, environment: CaptureEnvironment) -> None:
        super().__init__(environment)
        self._round_ended_safely = self.session.guard.protect("capturing a round", self._round_ended)
        self._fit_ended_safely = self.session.guard.protect("capturing the last round", self._fit_ended)
        self._with_callback = self.session.guard.protect("adding a callback", _with_callback)
        self._end = self.session.guard.protect("ending a training", self.training_ended)

    def listen(self) -> Undo:
        """Give every `fit` a callback."""
        return replace(PLACES, self._listening)

    def _listening(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fit)
        def fitted(model: Any, *args: Any, **kwargs: Any) -> Any:
            boosting = Boosting(self._round_ended_safely)
            call = self._with_callback(fit, model, boosting, args, kwargs)
            if call is None:  # capture is off, or the call is wrong, which CatBoost shows better
                return fit(model, *args, **kwargs)
            found = fit(*call.args, **call.kwargs)
            if boosting.end is not None:
                raise boosting.end
            self._fit_ended_safely(boosting, model)
            self._end(boosting)
            return found

        return fitted

    def _round_ended(self, boosting: Boosting, values: Values) -> None:
        if not self.is_ours(boosting):
            return
        self._end_waiting(boosting, values)
        boosting.waiting = boosting.added(values)

    def _fit_ended(self, boosting: Boosting, model: Any) -> None:
        if not self.is_ours(boosting):
            return
        values = model.get_evals_result() or {}
        if boosting.waiting is None:  # on a GPU
            for boosting.waiting in _rounds_of(values, model):
                self._end_waiting(boosting, values)
            return
        if newest := boosting.added(values):  # the script's callback ended the training, and ours was not called
            self._end_waiting(boosting, values)
            boosting.waiting = newest
        self._end_waiting(boosting, values, model)

    def _end_waiting(self, boosting: Boosting, values: Values, model: Any = None) -> None:
        if boosting.waiting is None:
            return
        evaluated = functools.partial(Evaluated, boosting.waiting, TRAINED_ON)
        ended = Ended(evaluated) if model is None else Ended(evaluated, lambda: _sources(model), is_last=True)
        self.end_round(ended, lambda: _learning(values))


def _with_callback(
    fit: Callable[..., Any], model: Any, callback: Boosting, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the call of `fit`, with a callback more where CatBoost takes callbacks."""
    call = inspect.signature(fit).bind(model, *args, **kwargs)
    if str(model.get_params().get("task_type", "CPU")).upper() == "CPU":
        given = call.arguments.get("callbacks") or ()
        call.arguments["callbacks"] = [*(given if isinstance(given, (list, tuple)) else [given]), callback]
    return call


def _rounds_of(values: Values, model: Any) -> Iterator[list[Metric]]:
    """Yield the metrics of each round of a training that has ended. The last value is that of the last round."""
    period = int(model.get_params().get("metric_period") or 1)
    count = max((len(own) for of_set in values.values() for own in of_set.values()), default=0)
    rounds = count if period == 1 and count else max(model.tree_count_, (count - 2) * period + 2)
    places = {**{k * period: k for k in range(count - 1)}, rounds - 1: count - 1}
    for number in range(rounds):
        at = places.get(number, count)
        yield [
            Metric(of_set, name, float(own[at]))
            for of_set, own_metrics in values.items()
            for name, own in own_metrics.items()
            if at < len(own)
        ]


def _learning(values: Values) -> Learning:
    """Return the facts. The loss is the first metric that falls and is no error rate."""
    names = [name for own in values.values() for name in own]
    loss = next((name for name in names if name.partition(":")[0] not in ERROR_RATES and falls(name)), "")
    return Learning("catboost", catboost.__version__, loss=loss, same_loss=SAME_LOSS.get(loss.partition(":")[0], ""))


def falls(metric: str) -> bool:
    """Return True if CatBoost takes the least value of a metric for the best; False for one that it does not know.

    Args:
        metric: Its name, as in the results of a training: "Quantile:alpha=0.5".
    """
    name, _, given = metric.partition(":")
    kind = getattr(metrics, name, None)
    if kind is None or not isinstance(kind, type):
        return False
    for parameters in (dict(each.split("=", 1) for each in given.split(";") if each), {}):
        try:
            return bool(kind(**parameters).is_min_optimal())
        except Exception:  # noqa: BLE001, S112 - not made outside a training, or of other parameters
            continue
    return name in _UNANSWERED


def _sources(model: Any) -> dict[str, Source]:
    return {
        "hyperparameters": lambda: settings(model.get_all_params()),
        "feature_importance": lambda: importances(
            "weight",  # the name under which rules look for them; CatBoost has one kind that needs no data
            {str(n): float(v) for n, v in zip(model.feature_names_, model.feature_importances_, strict=True) if v},
        ),
    }
