"""The explicit API: a callback for the boosting to capture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xgboost.callback import CallbackContainer, TrainingCallback

from trackside.capture.guard import Guard
from trackside.capture.place import Place
from trackside.capture.request_reading import request_of, with_request_of_run
from trackside.contracts.capture_request import CaptureRequest
from trackside.environment import CaptureEnvironment
from trackside.frameworks import in_charge
from trackside.frameworks.xgboost.adapter import SHAP_ROWS, GivenData, XGBoostAdapter


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
        self._request = request_of(save, run, subject="The hook")
        self._place = Place(run=run)
        self._given = GivenData(hyperparameters, train_data, validation_data, shap_rows)
        self._guard = Guard()
        self._adapter: XGBoostAdapter | None = None

    def before_training(self, model: Any) -> Any:
        """Take the run of this process. Called by XGBoost. Return the model as it is.

        Args:
            model: The model that is about to be trained.
        """
        if self._adapter is None:
            self._guard.protect("beginning to capture", self._begin)()
        return model

    def close(self) -> None:
        """End the run. The end of the process does so too. A second call does nothing."""
        if self._adapter is not None:
            self._guard.attempt("ending the run", self._adapter.uninstall)
            in_charge.leave()

    def __enter__(self) -> XGBoostHook:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __deepcopy__(self, memo: Mapping[int, Any]) -> XGBoostHook:
        return self  # scikit-learn copies an estimator with its callbacks

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return TrackedElsewhere, ()

    def _begin(self) -> None:
        environment = CaptureEnvironment.read()
        request, place = self._request, self._place
        if environment.run_uri:
            request, place = with_request_of_run(request, environment.capture_request), Place(run=environment.run_uri)
        if not in_charge.put_script_in_charge():
            self._guard.warn_once("begun", "a run of this process has begun already, so this hook captures nothing.")
            self._guard.switch_off_silently()
            return
        environment = replace(environment, run_uri=place.location().uri, capture_request=request.to_json())
        self._adapter = XGBoostAdapter(environment, takes=self._is_mine, given=self._given)
        self._adapter.install()

    def _is_mine(self, boosting: CallbackContainer) -> bool:
        return any(callback is self for callback in boosting.callbacks)


class TrackedElsewhere(TrainingCallback):
    """The place of a hook in a model that was loaded, or in another process: it captures nothing."""
