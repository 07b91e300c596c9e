"""smdebug's hook for XGBoost, on Trackside's capture: a callback, and a step is a boosting round."""

from __future__ import annotations

import functools
import os
from typing import Any

import numpy as np
import xgboost
from xgboost.callback import TrainingCallback

from smdebug import not_offered
from smdebug.core import singleton_utils
from smdebug.core.collection import DEFAULT_XGBOOST_COLLECTIONS
from smdebug.core.configured_hook import logger
from smdebug.core.hook import CallbackHook
from smdebug.exceptions import SMDebugError
from trackside.adapters.shared.listening import ListeningScript
from trackside.adapters.xgboost.adapter import GivenData, XGBoostAdapter
from trackside.adapters.xgboost.hook import TrackedElsewhere, given_to
from trackside.capture.place import Place
from trackside.capture.session import SessionOptions

DEFAULT_INCLUDE_COLLECTIONS = ["metrics"]
DEFAULT_SAVE_CONFIG_INTERVAL = 10
DEFAULT_SAVE_CONFIG_START_STEP = 0
DEFAULT_SAVE_CONFIG_END_STEP = None
DEFAULT_SAVE_CONFIG_SAVE_STEPS: list[int] = []

_FORMATS = {
    "csv": "csv",
    "text/csv": "csv",
    "libsvm": "libsvm",
    "text/libsvm": "libsvm",
    "text/x-libsvm": "libsvm",
}


class Hook(CallbackHook, TrainingCallback):
    """A callback of XGBoost that captures the boosting that it is given to.

    An inner failure is logged once and never ends the training. Only arguments of a wrong kind raise.
    """

    known_collections = frozenset({*DEFAULT_XGBOOST_COLLECTIONS, "losses", "metrics"})
    saved_collections = tuple(DEFAULT_INCLUDE_COLLECTIONS)
    save_interval = DEFAULT_SAVE_CONFIG_INTERVAL

    def __init__(
        self,
        *args: Any,
        hyperparameters: dict[str, Any] | None = None,
        train_data: Any = None,
        validation_data: Any = None,
        **kwargs: Any,
    ) -> None:
        """Set the configuration and the data.

        Args:
            args: As those of every hook; then, as in smdebug, the next three.
            hyperparameters: Settings to save; by default those of the model.
            train_data: The rows of which contributions are computed: a `DMatrix`, or (path, content type).
            validation_data: The rows with the predictions and labels to save: the same.
            kwargs: As `args`, by name.

        Raises:
            SMDebugError: The data are neither, or cannot be read.
            SMDebugTypeError: Other arguments have wrong types.
        """
        common, own = args[:_COMMON], args[_COMMON:]
        given = dict(zip(("hyperparameters", "train_data", "validation_data"), own, strict=False))
        super().__init__(*common, **kwargs)
        if kwargs.get("reduction_config", common[4] if len(common) > 4 else None) is not None:
            logger.warning("trackside: reduction_config is passed over: nothing of XGBoost is reduced.")
        self.hyperparameters = given.get("hyperparameters", hyperparameters)
        self.train_data = _rows_of("train_data", given.get("train_data", train_data))
        self.validation_data = _rows_of("validation_data", given.get("validation_data", validation_data))
        for earlier in singleton_utils.hooks_of(self.out_dir):  # of a notebook's cell that runs again, for example
            earlier.close()
        given_data = GivenData(self.hyperparameters, self.train_data, self.validation_data)
        make = functools.partial(XGBoostAdapter, takes=given_to(self), given=given_data, as_smdebug=True)
        self._capture = ListeningScript(
            self._capture_request,
            make,
            place=Place(tensors=self.out_dir),
            options=SessionOptions(saves_nothing=self.dry_run, earlier=self._earlier_state()),
            progressed=self._step_ends,
        )
        singleton_utils.made(self)

    @classmethod
    def hook_from_config(cls, json_config_path: str | os.PathLike[str] | None = None) -> Any:
        """Return a hook by a configuration file; the same as `create_from_json_file`."""
        return cls.create_from_json_file(json_config_path)

    def before_training(self, model: Any) -> Any:
        """Begin to capture. Called by XGBoost. Return the model as it is.

        Args:
            model: The model that is about to be trained.
        """
        self._capture.begin()
        return model

    def after_training(self, model: Any) -> Any:
        """Store what was saved, within some seconds, for a script that reads it next. Return the model as it is.

        Args:
            model: The model that was trained.
        """
        self.flush()
        return model

    @property
    def worker(self) -> str:
        """This process's name in the run."""
        return f"worker_{xgboost.collective.get_rank()}"

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return TrackedElsewhere, ()


_COMMON = 10  # positional arguments of every hook


def _rows_of(name: str, data: Any) -> xgboost.DMatrix | None:
    """Return the rows of an argument.

    Raises:
        SMDebugError: It is neither rows nor a file with them.
    """
    if data is None or isinstance(data, xgboost.DMatrix):
        return data
    wanted = f"{name} must be an xgboost.DMatrix, or (path, content type) with one of: {', '.join(_FORMATS)}"
    if not (isinstance(data, tuple) and len(data) == 2 and all(isinstance(each, str) for each in data)):
        raise SMDebugError(f"{wanted}; it is {data!r:.200}.")
    path, content_type = data
    if content_type not in _FORMATS:
        raise SMDebugError(f"{wanted}; the content type is {content_type!r}.")
    if not os.path.exists(path):
        raise SMDebugError(f"{name}: nothing lies at {path!r}.")
    try:
        if _FORMATS[content_type] == "libsvm":
            return xgboost.DMatrix(f"{path}?format=libsvm")
        cells = np.genfromtxt(path, delimiter=",", ndmin=2)  # a missing cell is NaN
        return xgboost.DMatrix(cells[:, 1:], cells[:, 0])
    except (xgboost.core.XGBoostError, ValueError) as error:
        raise SMDebugError(f"{name}: {path!r} cannot be read as {content_type}: {error}") from error


__getattr__ = not_offered.attribute_of(__name__)
