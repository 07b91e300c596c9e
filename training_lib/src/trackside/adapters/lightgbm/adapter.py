"""Captures a training of LightGBM: a step is a boosting round.

`train` and `cv` get one callback more. It is called after the script's own that measure, and before early stopping.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import lightgbm
import numpy as np
from lightgbm import engine, sklearn

from trackside.adapters.lightgbm.first_rounds import numbers_of, stopped_by
from trackside.adapters.lightgbm.given_rows import GivenRows, given_rows
from trackside.adapters.shared.own_objectives import OwnObjectives
from trackside.adapters.shared.rounds import (
    Ended,
    Evaluated,
    Learning,
    Metric,
    RoundsAdapter,
    Source,
    classes_among,
    importances,
    settings,
)
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared.adapter import Undo
from trackside.frameworks.shared.replaced_methods import replace

PLACES = ((lightgbm, "train"), (engine, "train"), (sklearn, "train"), (lightgbm, "cv"), (engine, "cv"))
# PyTorch's name of the same loss, where there is one.
SAME_LOSS = {"binary_logloss": "BCELoss", "multi_logloss": "NLLLoss", "l1": "L1Loss", "l2": "MSELoss"}
_OF_CLASSES = frozenset({"binary_logloss", "multi_logloss"})
_MOST_LABELS = 4096  # that are saved
KINDS = {"weight": "split", "total_gain": "gain"}  # XGBoost's name of an importance -> LightGBM's
WEIGHTING = ("scale_pos_weight", "is_unbalance", "unbalance", "unbalanced_sets")


class Rounds:
    """The callback of one boosting. `lightgbm.train` sorts callbacks by `order`; early stopping has 30.

    Attributes:
        training_set: The rows that are trained on.
        rows: A sample of them; None where they are no table.
        stopped: See `stopped_by`.
    """

    order = 25

    def __init__(self, ended: Callable[[Rounds, Any], object]) -> None:
        self.training_set: Any = None
        self.rows: GivenRows | None = None
        self.stopped: float | None = None
        self._ended = ended

    def __call__(self, round_: Any) -> None:
        self._ended(self, round_)


class LightGBMAdapter(RoundsAdapter):
    """The adapter of LightGBM; see `adapters/shared/rounds.py`."""

    def __init__(self, environment: CaptureEnvironment) -> None:
        super().__init__(environment)
        self._objectives = OwnObjectives(self.session.guard)
        self._round_ended_safely = self.session.guard.protect("capturing a round", self._round_ended)
        self._with_callback_safely = self.session.guard.protect("adding a callback", _with_callback)
        self._ended_safely = self.session.guard.protect("ending a boosting", self.training_ended)

    def listen(self) -> Undo:
        """Give every boosting a callback."""
        undo_rounds = replace(PLACES, self._listening)
        undo_objectives = replace([(lightgbm.Booster, "update")], self._with_objective)

        def undo() -> None:
            undo_objectives()
            undo_rounds()

        return undo

    def _with_objective(self, update: Callable[..., Any]) -> Callable[..., Any]:
        objectives = self._objectives

        @functools.wraps(update)
        def updated(self: Any, train_set: Any = None, fobj: Any = None) -> Any:
            return update(self, train_set, fobj if fobj is None else objectives.watched(self, fobj))

        return updated

    def _listening(self, train: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(train)
        def trained(*args: Any, **kwargs: Any) -> Any:
            callback = Rounds(self._round_ended_safely)
            call = self._with_callback_safely(train, callback, args, kwargs)
            if call is None:  # capture is off, or the call is wrong, which LightGBM shows better
                return train(*args, **kwargs)
            rows = callback.training_set
            if isinstance(rows, lightgbm.Dataset):
                callback.rows = self.session.guard.attempt(
                    "sampling the rows", lambda: given_rows(rows.data, rows.label)
                )
            try:
                return train(*call.args, **call.kwargs)
            finally:
                self._ended_safely(callback)

        return trained

    def _round_ended(self, callback: Rounds, round_: Any) -> None:
        if not self.is_ours(callback):
            return
        found, model = round_.evaluation_result_list or (), round_.model  # another list in each round
        first = self.session.guard.attempt("looking at the first rounds", lambda: numbers_of(round_, callback.stopped))
        numbers = {**(first or {}), **self._objectives.numbers(model)}
        self.end_round(
            Ended(lambda: _evaluated(found, model), lambda: _sources(callback, round_), numbers=numbers),
            lambda: _learning(_falling(found), round_, callback.training_set),
        )


def _with_callback(
    train: Callable[..., Any], callback: Rounds, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Return the call of `train` or `cv` with a callback more."""
    call = inspect.signature(train).bind(*args, **kwargs)
    callback.stopped = stopped_by(call.arguments)  # before callbacks are more, and data are given up
    call.arguments["callbacks"] = [*(call.arguments.get("callbacks") or ()), callback]
    callback.training_set = call.arguments.get("train_set")
    return call


def _evaluated(found: Sequence[Any], model: Any) -> Evaluated:
    trained_on = getattr(model, "_train_data_name", "training") if isinstance(model, lightgbm.Booster) else "train"
    return Evaluated([Metric(each[0], each[1], float(each[2])) for each in found], trained_on)


def _falling(found: Sequence[Any]) -> list[str]:
    """Return the metrics that fall while a model learns."""
    return [name for _, name, _, rises in (tuple(each)[:4] for each in found) if not rises]


def _sources(callback: Rounds, round_: Any) -> Mapping[str, Source]:
    model, parameters, found = round_.model, round_.params, round_.evaluation_result_list or ()
    sources: dict[str, Source] = {
        "hyperparameters": lambda: settings(parameters),
        "labels": lambda: _labels(callback.training_set, are_classes=_loss_among(_falling(found)) in _OF_CLASSES),
    }
    if isinstance(model, lightgbm.Booster):
        sources["feature_importance"] = lambda: _importances(model)
    if (rows := callback.rows) is not None:
        sources["rows"] = rows.named
    return sources


def _learning(falling: list[str], round_: Any, rows: Any) -> Learning:
    loss = _loss_among(falling)
    is_weighted = getattr(rows, "weight", None) is not None or any(
        round_.params.get(name) not in {None, False, 1} for name in WEIGHTING
    )
    return Learning(
        "lightgbm",
        lightgbm.__version__,
        loss=loss,
        same_loss=SAME_LOSS.get(loss, ""),
        is_weighted=is_weighted,
        classes=classes_among(rows.get_label()) if loss in _OF_CLASSES else (),
        first_step=round_.iteration,
        rounds_before=round_.begin_iteration,
    )


def _loss_among(falling: list[str]) -> str:
    """Return the first metric that falls and is no error rate, else the first that falls; "" without any."""
    return next((name for name in falling if "error" not in name), next(iter(falling), ""))


def _labels(rows: Any, *, are_classes: bool) -> Iterator[tuple[str, Any]]:
    """Yield some of the labels that are trained on, evenly apart."""
    labels = rows.get_label()
    if labels is not None and len(labels):
        chosen = np.asarray(labels)[:: 1 + len(labels) // _MOST_LABELS]
        yield "labels", chosen.astype(np.int64) if are_classes else chosen.astype(np.float64)


def _importances(model: lightgbm.Booster) -> Iterator[tuple[str, Any]]:
    names = model.feature_name()
    for kind, own in KINDS.items():
        scores = zip(names, model.feature_importance(own).tolist(), strict=True)
        yield from importances(kind, {name: score for name, score in scores if score})
