"""Trackside: captures what happens inside a training run, judges it with rules while it runs, and acts.

Public names load on first use, so that importing `trackside.contracts` in a Lambda never imports NumPy.
PYTEST_DONT_REWRITE: else pytest warns of this package where capture has imported it first.
"""

from __future__ import annotations

TYPE_CHECKING = False  # spares every process that trackside.pth wakes the import of typing; checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from trackside.contracts.errors import (
        AccessDeniedError,
        ConfigurationError,
        KeyNotFoundError,
        LocationNotFoundError,
        NotAFileError,
        RecordError,
        RuleEvaluationError,
        RunNotFoundError,
        RunTakenError,
        StorageError,
        StorageUnavailableError,
        TensorNotSavedError,
        TracksideError,
    )
    from trackside.frameworks.jax.run import JaxRun
    from trackside.frameworks.keras.hook import KerasHook
    from trackside.frameworks.plain.run import Run
    from trackside.frameworks.pytorch.script.hook import Hook
    from trackside.frameworks.xgboost.hook import XGBoostHook
    from trackside.local.judgement import Judgement, judge
    from trackside.local.watched_run import WatchedRun, watch
    from trackside.performance.profile import Profile, open_profile
    from trackside.trial.trial import Trial, open_trial

__version__ = "0.1.0"

__all__ = [
    "AccessDeniedError",
    "ConfigurationError",
    "Hook",
    "JaxRun",
    "Judgement",
    "KerasHook",
    "KeyNotFoundError",
    "LocationNotFoundError",
    "NotAFileError",
    "Profile",
    "RecordError",
    "RuleEvaluationError",
    "Run",
    "RunNotFoundError",
    "RunTakenError",
    "StorageError",
    "StorageUnavailableError",
    "TensorNotSavedError",
    "TracksideError",
    "Trial",
    "WatchedRun",
    "XGBoostHook",
    "__version__",
    "judge",
    "open_profile",
    "open_trial",
    "watch",
]

_HOME = {
    "Hook": "trackside.frameworks.pytorch.script.hook",
    "JaxRun": "trackside.frameworks.jax.run",
    "Judgement": "trackside.local.judgement",
    "KerasHook": "trackside.frameworks.keras.hook",
    "Profile": "trackside.performance.profile",
    "Run": "trackside.frameworks.plain.run",
    "Trial": "trackside.trial.trial",
    "WatchedRun": "trackside.local.watched_run",
    "XGBoostHook": "trackside.frameworks.xgboost.hook",
    "judge": "trackside.local.judgement",
    "open_profile": "trackside.performance.profile",
    "open_trial": "trackside.trial.trial",
    "watch": "trackside.local.watched_run",
}
_HOME_OF_ERRORS = "trackside.contracts.errors"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'trackside' has no attribute {name!r}")
    from importlib import import_module

    try:
        return getattr(import_module(_HOME.get(name, _HOME_OF_ERRORS)), name)
    except ModuleNotFoundError as error:
        extras = import_module("trackside.extras")
        extra = extras.extra_of(error.name)
        if not extra:
            raise
        raise ModuleNotFoundError(str(extras.missing_extra(extra)), name=error.name) from error


def __dir__() -> list[str]:
    return sorted(__all__)
