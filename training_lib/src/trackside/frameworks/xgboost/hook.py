"""The explicit API: a callback for the boosting to capture."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xgboost.callback import CallbackContainer, TrainingCallback

from trackside.capture.guard import Guard
from trackside.capture.open_step import SCALARS
from trackside.capture.place import Place, settled
from trackside.capture.request_reading import request_of
from trackside.capture.session import SessionOptions
from trackside.capture.step_engine import TRAIN
from trackside.contracts.capture_request import CaptureRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks import in_charge
from trackside.frameworks.xgboost.adapter import SHAP_ROWS, GivenData, XGBoostAdapter


class ScriptedBoosting:
    """The capture of one boosting, for the callback of a script. Nothing raises.

    Args:
        callback: The callback that the boosting is given.
        request: Returns the request, when the boosting begins.
        place: The place of the run.
        given: The data that the script gave.
        saves_nothing: True if rounds are counted and nothing is saved.
        as_smdebug: True for the names and collections of smdebug's hook.
    """

    def __init__(
        self,
        callback: TrainingCallback,
        request: Callable[[], CaptureRequest],
        *,
        place: Place,
        given: GivenData,
        saves_nothing: bool = False,
        as_smdebug: bool = False,
    ) -> None:
        self._callback, self._request, self._place, self._given = callback, request, place, given
        self._options, self._as_smdebug = SessionOptions(saves_nothing=saves_nothing), as_smdebug
        self._guard = Guard()
        self._scalars: list[tuple[str, float, float | None]] = []  # that wait for the first round
        self._mode = TRAIN
        self.adapter: XGBoostAdapter | None = None
        self.is_over = False

    def begin(self) -> None:
        """Take the run of this process, once."""
        if self.adapter is None and not self.is_over:
            self._guard.protect("beginning to capture", self._begin)()

    def set_mode(self, mode: str) -> None:
        """Set the mode of the next rounds.

        Args:
            mode: Its name, as in `step_engine`.
        """
        self._mode = mode
        if self.adapter is not None:
            self._guard.attempt("setting the mode", functools.partial(self.adapter.session.engine.set_mode, mode))

    def save_scalar(self, name: str, value: float, *, wall_time: float | None = None) -> None:
        """Save a number with the round that ends next, or by itself after the last one.

        Args:
            name: Its name, without `scalar/`.
            value: The number.
            wall_time: Its moment, in seconds since the epoch; None for that of the round.
        """
        self._scalars.append((name, value, wall_time))
        if self.adapter is not None:
            self._guard.attempt("saving a scalar", self._add_scalars)

    def flush(self) -> None:
        """Store the rounds that have ended, within some seconds."""
        if self.adapter is not None:
            self._guard.attempt("storing the run", self.adapter.flush)

    def close(self) -> None:
        """End the run. A second call does nothing."""
        self.is_over = True
        if self.adapter is not None:
            self._guard.attempt("ending the last round", functools.partial(_end_open_step, self.adapter))
            self._guard.attempt("ending the run", self.adapter.uninstall)
            self.adapter = None
            in_charge.leave()

    def _begin(self) -> None:
        if not in_charge.put_script_in_charge():
            self._guard.warn_once("begun", "a run of this process has begun already, so this hook captures nothing.")
            self._guard.switch_off_silently()
            return
        environment, options = settled(
            self._place, self._request(), CaptureEnvironment.read(), self._options, guard=self._guard
        )
        self.adapter = XGBoostAdapter(
            environment, options=options, takes=self._is_mine, given=self._given, as_smdebug=self._as_smdebug
        )
        self.adapter.session.engine.set_mode(self._mode)
        self._add_scalars()
        self.adapter.install()

    def _add_scalars(self) -> None:
        assert self.adapter is not None  # noqa: S101 - for the type alone
        open_step = self.adapter.session.engine.open_step
        while self._scalars:
            name, value, wall_time = self._scalars.pop(0)
            open_step.add(f"scalar/{name}", np.array([value], np.float64), collections=frozenset({SCALARS}))
            if wall_time is not None:
                open_step.wall_times[f"scalar/{name}"] = wall_time

    def _is_mine(self, boosting: CallbackContainer) -> bool:
        return any(callback is self._callback for callback in boosting.callbacks)


def _end_open_step(adapter: XGBoostAdapter) -> None:
    """End a step that the script gave scalars after the last round."""
    engine = adapter.session.engine
    if adapter.has_begun and not engine.open_step.is_empty:
        engine.end_step()


class XGBoostHook(TrainingCallback):
    """A callback of XGBoost that captures the boosting that it is given to; a step is a round.

    No failure in it can end the training: a failure is logged once. Only a wrong argument raises, at once. None of it
    is needed under `trackside run`; if TRACKSIDE_RUN is set, it is the address of the run.

    Example:
        hook = trackside.XGBoostHook("runs/first", save={"metrics": 10, "feature_importance": 10, "trees": 10})
        xgboost.train(settings, rows, evals=[(rows, "train"), (others, "validation")], callbacks=[hook])
    """

    def __init__(
        self,
        run: str = "",
        *,
        save: CaptureRequest | Mapping[str, int] | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        train_data: Any = None,
        validation_data: Any = None,
        shap_rows: int = SHAP_ROWS,
    ) -> None:
        """Set the address of the run and the data to save.

        Args:
            run: A new folder, or `s3://bucket/prefix`.
            save: A whole request, or an interval of rounds for each collection; by default losses, every 500 rounds.
            hyperparameters: Settings to save; by default those of the model.
            train_data: The `DMatrix` of which contributions (SHAP) are computed; by default the training set.
            validation_data: The `DMatrix` with the predictions and labels to save; by default the newest evaluated set
                that is not trained on.
            shap_rows: The most rows of which contributions are computed.

        Raises:
            ConfigurationError: With every problem at once.
        """
        super().__init__()
        request = request_of(save, run, subject="The hook")
        self._capture = ScriptedBoosting(
            self,
            lambda: request,
            place=Place(run=run),
            given=GivenData(hyperparameters, train_data, validation_data, shap_rows),
        )

    def before_training(self, model: Any) -> Any:
        """Take the run of this process. Called by XGBoost. Return the model as it is.

        Args:
            model: The model that is about to be trained.
        """
        self._capture.begin()
        return model

    def close(self) -> None:
        """End the run. The end of the process does so too. A second call does nothing."""
        self._capture.close()

    def __enter__(self) -> XGBoostHook:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __deepcopy__(self, memo: Mapping[int, Any]) -> XGBoostHook:
        return self  # scikit-learn copies an estimator with its callbacks

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return TrackedElsewhere, ()


class TrackedElsewhere(TrainingCallback):
    """The place of a hook in a model that was loaded, or in another process: it captures nothing."""
