"""Trackside: captures what happens inside a training run, judges it with rules while it runs, and acts.

Public names load on first use, so that importing `trackside.contracts` in a Lambda never imports NumPy.
PYTEST_DONT_REWRITE: else pytest warns of this package where capture has imported it first.
"""

from __future__ import annotations

TYPE_CHECKING = False  # spares every process that trackside.pth wakes the import of typing; checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from trackside.adapters.jax.run import JaxRun
    from trackside.adapters.keras.hook import KerasHook
    from trackside.adapters.xgboost.hook import XGBoostHook
    from trackside.capture.statistics.logged_numbers import log
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
    from trackside.frameworks.plain.run import Run
    from trackside.frameworks.pytorch.script.hook import Hook
    from trackside.local.watched_run import WatchedRun, watch
    from trackside.rescue.skipping import SkippingSampler, skipping
    from trackside.runs.judgement import Judgement, judge
    from trackside.speed.performance.profile import Profile, open_profile
    from trackside.views.drawn_trial import Trial, open_trial

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
    "SkippingSampler",
    "StorageError",
    "StorageUnavailableError",
    "TensorNotSavedError",
    "TracksideError",
    "Trial",
    "WatchedRun",
    "XGBoostHook",
    "__version__",
    "judge",
    "log",
    "open_profile",
    "open_trial",
    "skipping",
    "watch",
]

_HOME = {
    "Hook": "trackside.frameworks.pytorch.script.hook",
    "JaxRun": "trackside.adapters.jax.run",
    "Judgement": "trackside.runs.judgement",
    "KerasHook": "trackside.adapters.keras.hook",
    "Profile": "trackside.speed.performance.profile",
    "Run": "trackside.frameworks.plain.run",
    "SkippingSampler": "trackside.rescue.skipping",
    "Trial": "trackside.views.drawn_trial",
    "WatchedRun": "trackside.local.watched_run",
    "XGBoostHook": "trackside.adapters.xgboost.hook",
    "judge": "trackside.runs.judgement",
    "log": "trackside.capture.statistics.logged_numbers",
    "open_profile": "trackside.speed.performance.profile",
    "open_trial": "trackside.views.drawn_trial",
    "skipping": "trackside.rescue.skipping",
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
