"""Captures a training of XGBoost: a step is a boosting round.

A run holds one boosting, the first that ends a round; it costs the others of the process (a search for settings, the
folds of a validation) nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xgboost
from xgboost.callback import CallbackContainer

from trackside.capture.program_facts import ProgramFactsFile
from trackside.capture.session import CLOSE_SECONDS, SIGTERM_SECONDS, Owner, Rank, RunSession, SessionOptions
from trackside.contracts.model_facts import LossFacts, ModelFacts, ProgramFacts
from trackside.contracts.run_layout import worker_name
from trackside.contracts.uncaptured import UncapturedProcess
from trackside.environment import CaptureEnvironment
from trackside.frameworks import in_charge
from trackside.frameworks.adapter import Undo
from trackside.frameworks.xgboost import model_data
from trackside.frameworks.xgboost.metrics import (
    SAME_LOSS,
    Metric,
    is_loss_of_smdebug,
    loss_among,
    loss_name,
    newest,
    training_set,
)
from trackside.frameworks.xgboost.rounds import Round, listen

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


class XGBoostAdapter:
    """The adapter of XGBoost; see `frameworks/adapter.py`.

    Attributes:
        session: The run.

    Args:
        environment: Address of the run, and the capture request.
        options: Options for storing the run.
        takes: Returns True for a boosting to capture; by default for the first.
        given: Data that the script gave.
        as_smdebug: True to save losses as smdebug's hook does: under the names of the metrics that they are.
        owner: Flushed and closed at the end of the process, in the place of this adapter.
    """

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
        self._as_smdebug = as_smdebug
        self.session = RunSession(environment, options=options)
        self._takes, self._given, self._owner = takes, given or GivenData(), owner or self
        self._boosting: CallbackContainer | None = None
        self._has_ended = False
        self._undo: Undo | None = None
        self._loss = ""
        self.round_ended = self.session.guard.protect("capturing a round", self._round_ended)
        self.boosting_ended = self.session.guard.protect("ending a boosting", self._boosting_ended)

    @property
    def has_begun(self) -> bool:
        """True once the first round has ended."""
        return self.session.has_begun

    def signs(self) -> UncapturedProcess:
        """Return the signs of training before the first round: none is known."""
        return UncapturedProcess()

    def install(self) -> None:
        """Listen to the rounds."""
        self._undo = listen(self)

    def uninstall(self) -> None:
        """Close the run, and leave XGBoost as it was."""
        self.close()
        self.session.forget_process_end()
        if self._undo is not None:
            self._undo()
            self._undo = None

    def flush(self, timeout_seconds: float = SIGTERM_SECONDS) -> None:
        """Store the rounds that have ended."""
        self.session.flush(timeout_seconds)

    def close(self, timeout_seconds: float = CLOSE_SECONDS, *, is_interrupted: bool = False) -> None:
        """End the run. Never raises."""
        if self.session.has_begun:
            self.session.close(timeout_seconds, is_interrupted=is_interrupted)

    def _boosting_ended(self, boosting: CallbackContainer) -> None:
        if boosting is self._boosting:
            self._boosting, self._has_ended = None, True

    def _round_ended(self, ended: Round) -> None:
        if not self._is_ours(ended.boosting):
            return
        meter = self.session.statistics.meter
        if not meter.is_on:
            self._capture(ended)
            return
        meter.enter()
        try:
            self._capture(ended)
        finally:
            meter.leave()

    def _is_ours(self, boosting: CallbackContainer) -> bool:
        if boosting is self._boosting:
            return True
        if not self._takes(boosting) or in_charge.is_others(self):
            return False
        if self._boosting is not None or self._has_ended:
            message = (
                "a further boosting of this process is not captured: a run holds one training, and the first one has "
                "it. Give the one to capture a trackside.XGBoostHook as callback."
            )
            self.session.guard.warn_once("further", message)
            return False
        self._boosting = boosting
        return True

    def _begin(self, ended: Round, metrics: Iterable[Metric]) -> None:
        session, environment = self.session, self.session.environment
        session.read_request()
        size = xgboost.collective.get_world_size()
        rank = Rank(xgboost.collective.get_rank(), size) if size > 1 else Rank(environment.rank, environment.world_size)
        self._loss = loss_among(metric.name for metric in metrics)
        facts = ProgramFactsFile(
            _facts(ended, self._loss, rank),
            session.open_folder,
            worker=worker_name(rank.number),
            start=session.start_position,
        )
        session.begin(rank, owner=self._owner, facts=[facts] if session.stores_run else [])

    def _capture(self, ended: Round) -> None:
        session, engine = self.session, self.session.engine
        metrics = newest(ended.boosting.history)
        if not session.has_begun:
            self._begin(ended, metrics)
        trained_on = training_set(ended.sets, ended.training, names=ended.boosting.history)
        open_step, statistics = engine.open_step, session.statistics
        has_evaluation = False
        for metric in metrics:
            collections = _LOSSES if self._as_smdebug and is_loss_of_smdebug(metric.tensor_name) else _METRICS
            if open_step.wants(metric.tensor_name, collections=collections):
                open_step.add(metric.tensor_name, np.array([metric.value]), collections=collections)
            if metric.name != self._loss:
                continue
            is_training = metric.of_set == trained_on
            name = loss_name(metric.name)
            if is_training and engine.due.losses and not self._as_smdebug:
                open_step.add_loss(name, np.array(metric.value, np.float64))
            statistics.add_loss(name, metric.value, mode="TRAIN" if is_training else "EVAL")
            has_evaluation = has_evaluation or not is_training
        if engine.due.kinds and not ended.boosting.is_cv:
            self._add_model(ended)
        if has_evaluation and statistics.is_on:  # of the same round, whose model it measures
            statistics.recorder.end_step(step=engine.step, mode="EVAL", mode_step=engine.step)
        statistics.end_step(engine)
        engine.end_step()

    def _add_model(self, ended: Round) -> None:
        model, given, kinds = ended.model, self._given, self.session.engine.due.kinds
        sources: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
            "hyperparameters": lambda: model_data.hyperparameters(model, given.hyperparameters),
            "feature_importance": lambda: model_data.importances(model),
            "trees": lambda: model_data.trees(model, ended.number),
            "labels": lambda: [("labels", self._validation(ended).get_label())],
            "predictions": lambda: [("predictions", model.predict(self._validation(ended)))],
        }
        if not kinds.isdisjoint(("average_shap", "full_shap")):
            rows = model_data.sample(ended.training if given.training is None else given.training, given.shap_rows)
            values = functools.cache(lambda: model_data.contributions(model, rows))
            sources["average_shap"] = lambda: model_data.average_contributions(model, values())
            sources["full_shap"] = lambda: model_data.full_contributions(model, values())
        for kind, source in sources.items():
            if kind in kinds and not self._lacks_data(kind):
                self.session.guard.attempt(f"saving the collection {kind}", functools.partial(self._add, kind, source))

    def _add(self, kind: str, source: Callable[[], Iterable[tuple[str, Any]]]) -> None:
        collections = frozenset({kind})
        open_step = self.session.engine.open_step
        for name, array in source():
            if self._as_smdebug and name.endswith("_shap/bias"):  # its collections leave the bias out
                continue
            if open_step.wants(name, collections=collections):
                open_step.add(name, np.array(array), collections=collections)

    def _lacks_data(self, kind: str) -> bool:
        """Return True if smdebug's hook would not save a collection, for want of data from the script. Log it once."""
        if not self._as_smdebug:
            return False
        name = "train_data" if kind.endswith("_shap") else "validation_data" if kind in _OF_DATA else ""
        lacks = bool(name) and (self._given.training if name == "train_data" else self._given.validation) is None
        if lacks:
            message = "the collection %s is not saved: give the hook %s."
            self.session.guard.warn_once(f"data/{kind}", message, kind, name)
        return lacks

    def _validation(self, ended: Round) -> Any:
        """Return the rows with the predictions and labels to save: the newest set that is not trained on."""
        if self._given.validation is not None:
            return self._given.validation
        others = [data for data, _ in ended.sets if data is not ended.training]
        return others[-1] if others else ended.training


_METRICS = frozenset({"metrics"})
_OF_DATA = frozenset({"labels", "predictions"})
_LOSSES = frozenset({"metrics", "losses"})


def _facts(ended: Round, loss: str, rank: Rank) -> ModelFacts:
    losses: tuple[LossFacts, ...] = ()
    if loss:
        weights = ended.training.get_weight() if hasattr(ended.training, "get_weight") else ()
        balance = next((float(v[0]) for n, v in _settings_of(ended) if n == "hyperparameters/scale_pos_weight"), 1.0)
        name = loss_name(loss)
        type_name = SAME_LOSS.get(loss, "")
        losses = (
            LossFacts(
                f"{name}_output_0",
                type_name,
                reduction="mean" if type_name else "",
                is_weighted=len(weights) > 0 or balance != 1.0,
            ),
        )
    program = ProgramFacts(framework="xgboost", framework_version=xgboost.__version__, world_size=rank.of)
    return ModelFacts(0, (), (), (), losses, program)


def _settings_of(ended: Round) -> list[tuple[str, Any]]:
    return [] if ended.boosting.is_cv else list(model_data.hyperparameters(ended.model, None))
