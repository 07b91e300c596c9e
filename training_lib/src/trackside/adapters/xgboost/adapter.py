"""Captures a training of XGBoost: a step is a boosting round."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xgboost
from xgboost.callback import CallbackContainer
from xgboost.core import DataSplitMode

from trackside.adapters.shared.own_objectives import OwnObjectives
from trackside.adapters.shared.rounds import FURTHER, Ended, Evaluated, Learning, Named, RoundsAdapter, Source
from trackside.adapters.xgboost import model_data
from trackside.adapters.xgboost.first_rounds import numbers_of
from trackside.adapters.xgboost.importances import COLLECTIONS, Importances
from trackside.adapters.xgboost.metrics import (
    CLASS_METRICS,
    DEFAULT_METRIC,
    SAME_LOSS,
    Value,
    is_loss_of_smdebug,
    loss_among,
    metrics_of,
    newest,
    training_set,
)
from trackside.adapters.xgboost.rounds import Round, listen
from trackside.capture.session import CLOSE_SECONDS, SIGTERM_SECONDS, Owner, Rank, SessionOptions
from trackside.capture.steps.last_step import HeldSteps
from trackside.environment import CaptureEnvironment
from trackside.frameworks.shared.adapter import Undo

SHAP_ROWS = 1000  # rows of which contributions are computed: all of 5000 take seconds

Takes = Callable[[CallbackContainer], bool]


@dataclass(frozen=True)
class GivenData:
    """The data that the script gave beside its callback.

    hyperparameters  saved instead of the model's settings
    training         the rows of which contributions are computed
    validation       the rows with the predictions and labels to save
    shap_rows        the most rows of which contributions are computed
    """

    hyperparameters: Mapping[str, Any] | None = None
    training: Any = None
    validation: Any = None
    shap_rows: int = SHAP_ROWS


class XGBoostAdapter(RoundsAdapter):
    """The adapter of XGBoost; see `adapters/shared/rounds.py`.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        takes: Returns True for a boosting to capture; by default for the first.
        given: Data that the script gave.
        as_smdebug: True to save losses as smdebug's hook does: under the names of the metrics that they are.
        owner: Flushed and closed at the end of the process, in the place of this adapter.
    """

    further = f"{FURTHER} Give the one to capture a trackside.XGBoostHook as callback."

    def __init__(
        self,
        environment: CaptureEnvironment,
        *,
        options: SessionOptions | None = None,
        takes: Takes = lambda boosting: True,
        given: GivenData | None = None,
        as_smdebug: bool = False,
        owner: Owner | None = None,
    ) -> None:
        super().__init__(environment, options=options, owner=owner)
        self._as_smdebug, self.saves_losses = as_smdebug, not as_smdebug
        self._takes, self._given = takes, given or GivenData()
        self._importances = Importances(self.session.guard)
        self._objectives = OwnObjectives(self.session.guard)
        self.session.held = HeldSteps()
        self.round_ended = self.session.guard.protect("capturing a round", self._round_ended)
        self.boosting_ended = self.session.guard.protect("ending a boosting", self.training_ended)

    def listen(self) -> Undo:
        """Listen to the rounds of every boosting."""
        return listen(self)

    def training_ended(self, training: object) -> None:
        """Store the rounds that wait for importances, and leave the run without a holder."""
        self._hand_on()
        super().training_ended(training)

    def objective_given(self, model: Any, objective: Any) -> Any:
        """Return the script's own objective of a round that begins, watched in the first ones.

        Args:
            model: The booster.
            objective: The function.
        """
        return self._objectives.watched(model, objective)

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Store the rounds that have ended."""
        self._hand_on()
        super().flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run. Never raises."""
        self._hand_on()
        super().close(timeout_seconds, is_interrupted=is_interrupted)

    def _hand_on(self) -> None:
        """Hand on the rounds that wait for further ones."""
        self._importances.copy_trees()
        if self.session.held is not None:
            self.session.guard.attempt("saving the last rounds", self.session.held.pass_on)

    def _importances_of(self, model: Any) -> Named:
        """Add the importances to the open step, which may become known later. Return those that a regex may find."""
        found, open_step = self._importances.read(model), self.session.engine.open_step
        if found is None:
            return ()
        if not open_step.due.collections.isdisjoint(COLLECTIONS):
            open_step.late.append(found)
            return ()
        self._importances.copy_trees()
        row = found.row()
        return zip(row.layout.record_names, row.numbers, strict=True) if row is not None else ()

    def _round_ended(self, ended: Round) -> None:
        if not self._takes(ended.boosting) or not self.is_ours(ended.boosting):
            return
        values = newest(ended.boosting.history)
        sources = dict if ended.boosting.is_cv else functools.partial(self._sources, ended)
        first = self.session.guard.attempt("looking at the first rounds", lambda: numbers_of(ended))
        numbers = {**(first or {}), **self._objectives.numbers(ended.model)}
        self.end_round(
            Ended(lambda: self._evaluated(ended, values), sources, numbers=numbers),
            lambda: _learning(ended, self._loss_names(ended, values)),
        )

    def _loss_names(self, ended: Round, values: Sequence[Value]) -> list[str]:
        """Return the metrics that may stand for the loss: not the default one of an own objective of classes.

        It is of the predictions before any transformation, which such an objective need not bring near the labels.
        """
        is_of_classes = self._objectives.is_own(ended.model) and bool(model_data.classes(ended.training))
        return [name for _, name, _ in values if not (is_of_classes and name == DEFAULT_METRIC)]

    def _evaluated(self, ended: Round, values: Sequence[Value]) -> Evaluated:
        metrics = metrics_of(values)
        if self._as_smdebug:
            metrics = [m._replace(collections=_LOSSES) if is_loss_of_smdebug(m.tensor_name) else m for m in metrics]
        return Evaluated(metrics, training_set(ended.sets, ended.training, names=ended.boosting.history))

    def _sources(self, ended: Round) -> dict[str, Source]:
        model, given = ended.model, self._given
        importances: dict[str, Source] = {"feature_importance": lambda: self._importances_of(model)}
        if self.session.has_begun and self.session.engine.due.kinds.isdisjoint(_BUT_IMPORTANCES):
            return importances
        rows = functools.cache(lambda: self._explained(ended))
        contributions = functools.cache(lambda: model_data.contributions(model, rows()))
        sources: dict[str, Source] = {
            "hyperparameters": lambda: model_data.hyperparameters(model, given.hyperparameters),
            **importances,
            "trees": lambda: model_data.trees(model, model.num_boosted_rounds() - 1),
            "rows": lambda: model_data.rows(self._validation(ended)),
            "labels": lambda: [("labels", self._validation(ended).get_label())],
            "predictions": lambda: [("predictions", model.predict(self._validation(ended)))],
            "average_shap": lambda: (
                model_data.average_contributions(model, contributions()) if rows() is not None else ()
            ),
            "full_shap": lambda: model_data.full_contributions(model, contributions()) if rows() is not None else (),
        }
        if _is_split_by_columns(ended.training):
            sources |= {kind: functools.partial(self._not_of_columns, kind) for kind in _OF_ALL_COLUMNS}
        if not self._as_smdebug:
            return sources
        del sources["rows"]  # the original has none
        of_data = {kind: source for kind, source in sources.items() if kind.endswith("_shap") or kind in _OF_DATA}
        return {**sources, **{kind: functools.partial(self._as_original, kind, of_data[kind]) for kind in of_data}}

    def _not_of_columns(self, kind: str) -> Named:
        """Return nothing: a worker with some of the columns predicts only together with the others."""
        message = "the collection %s is not saved: each worker has only some of the columns."
        self.session.guard.warn_once(f"columns/{kind}", message, kind)
        return ()

    def _as_original(self, kind: str, source: Callable[[], Any]) -> Named:
        """Return what smdebug's hook would save of a collection of the script's data."""
        name = "validation_data" if kind in _OF_DATA else "train_data"
        if (self._given.training if name == "train_data" else self._given.validation) is None:
            message = "the collection %s is not saved: give the hook %s."
            self.session.guard.warn_once(f"data/{kind}", message, kind, name)
            return ()
        return ((name, array) for name, array in source() if not name.endswith("_shap/bias"))

    def _explained(self, ended: Round) -> Any:
        """Return the rows of which contributions are computed; None if XGBoost picks no rows out of their matrix."""
        data = ended.training if self._given.training is None else self._given.training
        try:
            return model_data.sample(data, self._given.shap_rows)
        except xgboost.core.XGBoostError:
            message = (
                "contributions (SHAP) are not saved: XGBoost picks no rows out of a %s with quantiles or in external "
                "memory. Give trackside.XGBoostHook a DMatrix of at most %d rows as train_data."
            )
            self.session.guard.warn_once("explained", message, type(data).__name__, self._given.shap_rows)
            return None

    def _validation(self, ended: Round) -> Any:
        """Return the rows with the predictions and labels to save: the newest set that is not trained on."""
        if self._given.validation is not None:
            return self._given.validation
        others = [data for data, _ in ended.sets if data is not ended.training]
        return others[-1] if others else ended.training


_BUT_IMPORTANCES = frozenset({"hyperparameters", "trees", "rows", "labels", "predictions", "average_shap", "full_shap"})
_OF_DATA = frozenset({"labels", "predictions"})
_OF_ALL_COLUMNS = ("predictions", "average_shap", "full_shap")
_LOSSES = frozenset({"metrics", "losses"})


def _is_split_by_columns(data: Any) -> bool:
    """Return True if the workers of a distributed boosting each have some of the columns, and not of the rows."""
    if xgboost.collective.get_world_size() == 1 or not hasattr(data, "data_split_mode"):
        return False
    return bool(data.data_split_mode() == DataSplitMode.COL)


def _learning(ended: Round, metrics: Iterable[str]) -> Learning:
    loss = loss_among(metrics)
    weights = ended.training.get_weight() if loss and hasattr(ended.training, "get_weight") else ()
    settings = {} if ended.boosting.is_cv or not loss else dict(model_data.hyperparameters(ended.model, None))
    balance = float(settings.get("hyperparameters/scale_pos_weight", [1.0])[0])
    size = xgboost.collective.get_world_size()
    return Learning(
        "xgboost",
        xgboost.__version__,
        loss=loss,
        same_loss=SAME_LOSS.get(loss, ""),
        is_weighted=len(weights) > 0 or balance != 1.0,
        classes=model_data.classes(ended.training) if loss in CLASS_METRICS else (),
        rounds_before=0 if ended.boosting.is_cv else ended.model.num_boosted_rounds() - ended.number - 1,
        rank=Rank(xgboost.collective.get_rank(), size) if size > 1 else None,
    )
