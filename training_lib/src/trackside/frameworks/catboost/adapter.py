"""Captures a training of CatBoost: a step is a boosting round.

`fit` gets one callback more, but for a training on a GPU, where CatBoost refuses callbacks: its rounds are captured
when it has ended. The model exists only then, so that importances belong to the last round.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import catboost
from catboost import CatBoost, CatBoostClassifier, CatBoostRanker, CatBoostRegressor

from trackside.environment import CaptureEnvironment
from trackside.frameworks.adapter import Undo
from trackside.frameworks.replaced_methods import replace
from trackside.frameworks.rounds import History, HistoryReader, Learning, Named, RoundsAdapter, importances, settings

PLACES = tuple((kind, "fit") for kind in (CatBoost, CatBoostClassifier, CatBoostRegressor, CatBoostRanker))
TRAINED_ON = "learn"
# Metrics of CatBoost that fall while a model learns, and PyTorch's name of the same loss, where there is one. A colon
# and parameters may follow.
LOSSES = {
    "Logloss": "BCELoss", "CrossEntropy": "", "MultiClass": "NLLLoss", "MultiClassOneVsAll": "", "RMSE": "",
    "MultiRMSE": "", "MAE": "L1Loss", "MAPE": "", "Quantile": "", "MultiQuantile": "", "Huber": "", "Poisson": "",
    "Tweedie": "", "Expectile": "", "LogLinQuantile": "", "Lq": "", "LogCosh": "", "MSLE": "", "SMAPE": "",
    "PairLogit": "", "PairLogitPairwise": "", "MultiLogloss": "", "MultiCrossEntropy": "", "QueryRMSE": "",
    "QuerySoftMax": "", "QueryCrossEntropy": "", "RMSEWithUncertainty": "", "Cox": "", "Focal": "",
}  # fmt: skip


class Rounds:
    """The callback of one training. CatBoost calls it after each round, and goes on if it returns True."""

    def __init__(self, ended: Callable[[Any], object]) -> None:
        self._ended = ended

    def after_iteration(self, info: Any) -> bool:
        """Capture the rounds so far."""
        self._ended(info.metrics)
        return True


class CatBoostAdapter(RoundsAdapter):
    """The adapter of CatBoost; see `frameworks/rounds.py`."""

    def __init__(self, environment: CaptureEnvironment) -> None:
        super().__init__(environment)
        self._reader = HistoryReader(self)
        self._read = self.session.guard.protect("capturing rounds", self._read_history)
        self._with_callback = self.session.guard.protect("adding a callback", _with_callback)
        self._end = self.session.guard.protect("ending a training", self.training_ended)

    def listen(self) -> Undo:
        """Give every `fit` a callback."""
        return replace(PLACES, self._listening)

    def _listening(self, fit: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fit)
        def fitted(model: Any, *args: Any, **kwargs: Any) -> Any:
            training = object()
            callback = Rounds(lambda history: self._read(training, history))
            call = self._with_callback(fit, model, callback, args, kwargs)
            if call is None:  # capture is off, or the call is wrong, which CatBoost shows better
                return fit(model, *args, **kwargs)
            found = fit(*call.args, **call.kwargs)
            self._read(training, model=model)
            self._end(training)
            return found

        return fitted

    def _read_history(
        self, training: object, history: Mapping[str, Mapping[str, list[float]]] | None = None, *, model: Any = None
    ) -> None:
        values = (model.get_evals_result() or {}) if history is None else history
        sources = {} if model is None else _sources(model)
        found = History(values, TRAINED_ON, sources, is_over=model is not None, holds_newest=model is None)
        self._reader.read(training, found, lambda: _learning(values))


def _with_callback(
    fit: Callable[..., Any], model: Any, callback: Rounds, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the call of `fit`, with a callback more where CatBoost takes callbacks."""
    call = inspect.signature(fit).bind(model, *args, **kwargs)
    if str(model.get_params().get("task_type", "CPU")).upper() == "CPU":
        given = call.arguments.get("callbacks") or ()
        call.arguments["callbacks"] = [*(given if isinstance(given, (list, tuple)) else [given]), callback]
    return call


def _learning(history: Mapping[str, Mapping[str, list[float]]]) -> Learning:
    names = [name for metrics in history.values() for name in metrics]
    loss = next((name for name in names if name.partition(":")[0] in LOSSES), "")
    return Learning(
        "catboost",
        catboost.__version__,
        loss=loss,
        same_loss=LOSSES.get(loss.partition(":")[0], ""),
    )


def _sources(model: Any) -> dict[str, Callable[[], Named]]:
    return {
        "hyperparameters": lambda: settings(model.get_all_params()),
        "feature_importance": lambda: importances(
            "weight",  # the name under which rules look for them; CatBoost has one kind that needs no data
            {str(n): float(v) for n, v in zip(model.feature_names_, model.feature_importances_, strict=True) if v},
        ),
    }
