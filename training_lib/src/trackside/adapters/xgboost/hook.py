"""The explicit API: a callback for the boosting to capture."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from xgboost.callback import TrainingCallback

from trackside.adapters.shared.listening import ListeningScript
from trackside.adapters.xgboost.adapter import SHAP_ROWS, GivenData, Takes, XGBoostAdapter
from trackside.capture.place import Place
from trackside.capture.request_reading import request_of
from trackside.contracts.capture_request import CaptureRequest


def given_to(callback: TrainingCallback) -> Takes:
    """Return the choice of the boostings that a script gives its callback to.

    Args:
        callback: The callback.
    """
    return lambda boosting: any(each is callback for each in boosting.callbacks)


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
        given = GivenData(hyperparameters, train_data, validation_data, shap_rows)
        make = functools.partial(XGBoostAdapter, takes=given_to(self), given=given)
        self._capture = ListeningScript(lambda: request, make, place=Place(run=run))

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
