"""Old names that are not offered, each with its reason and what works instead.

A name leaves this list when it is offered: `tests/smdebug/test_names.py` holds every old name to one of the two.
Asking for a listed name raises ImportError, from `import` and from `smdebug.<name>` alike: Python replaces the message
of an AttributeError within `from ... import ...`, so that the reason would be lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

_CAPTURE = (
    "Trackside captures an unmodified script: start it with `trackside run -- python train.py`, or set TRACKSIDE_RUN "
    "to where the run shall lie. What is saved, and when, is told by TRACKSIDE_CAPTURE_REQUEST."
)
_READING = "Read runs, of smdebug too, with `trackside.open_trial(path)`."
_RULES = (
    "smdebug's custom rules do not run here yet. Write a rule as a `trackside.rules.rule.Rule`; actions (StopTraining, "
    "Notify, PublishMetric) are asked for in the rule request."
)
_FRAMEWORK = "This framework is not supported yet; PyTorch is, without any import."
_PROFILER = "Trackside does not profile yet."
_ERRORS = "Trackside's own errors stand in `trackside.contracts.errors`."
_INNER = "It belongs to the inner works of the original, which are built differently here."

# A module stands for everything below it.
REASONS: dict[str, str] = {
    "smdebug.ReductionConfig": _CAPTURE,
    "smdebug.SaveConfig": _CAPTURE,
    "smdebug.SaveConfigMode": _CAPTURE,
    "smdebug.pytorch": _CAPTURE,
    "smdebug.mxnet": _FRAMEWORK,
    "smdebug.tensorflow": _FRAMEWORK,
    "smdebug.xgboost": _FRAMEWORK,
    "smdebug.trials": _READING,
    "smdebug.rules": _RULES,
    "smdebug.analysis": _READING,
    "smdebug.exceptions": _ERRORS,
    "smdebug.profiler": _PROFILER,
    "smdebug.core.collection.Collection": _CAPTURE,
    "smdebug.core.collection.DEFAULT_MXNET_COLLECTIONS": _FRAMEWORK,
    "smdebug.core.collection.DEFAULT_PYTORCH_COLLECTIONS": _CAPTURE,
    "smdebug.core.collection.DEFAULT_TF_COLLECTIONS": _FRAMEWORK,
    "smdebug.core.collection.DEFAULT_XGBOOST_COLLECTIONS": _FRAMEWORK,
    "smdebug.core.access_layer": _INNER,
    "smdebug.core.collection_manager": _CAPTURE,
    "smdebug.core.config_constants": _INNER,
    "smdebug.core.config_validator": _INNER,
    "smdebug.core.error_handling_agent": _INNER,
    "smdebug.core.hook": _CAPTURE,
    "smdebug.core.hook_utils": _INNER,
    "smdebug.core.index_reader": _READING,
    "smdebug.core.json_config": _CAPTURE,
    "smdebug.core.locations": _INNER,
    "smdebug.core.logger": _INNER,
    "smdebug.core.reader": _READING,
    "smdebug.core.reduction_config": _CAPTURE,
    "smdebug.core.reductions": _INNER,
    "smdebug.core.s3_utils": _INNER,
    "smdebug.core.sagemaker_utils": _INNER,
    "smdebug.core.save_config": _CAPTURE,
    "smdebug.core.singleton_utils": _INNER,
    "smdebug.core.state_store": _INNER,
    "smdebug.core.tensor": _READING,
    "smdebug.core.tfevent": _INNER,
    "smdebug.core.tfrecord": _INNER,
    "smdebug.core.utils": _INNER,
    "smdebug.core.writer": _INNER,
}


def reason_for(name: str) -> str | None:
    """Why a dotted name is not offered, by itself or by the module that it belongs to; None if it is not listed."""
    while name:
        if name in REASONS:
            return REASONS[name]
        name = name.rpartition(".")[0]
    return None


def attribute_of(module: str) -> Callable[[str], object]:
    """The `__getattr__` of a module: explains what is listed, and knows nothing else."""

    def attribute(name: str) -> object:
        reason = reason_for(f"{module}.{name}")
        if reason is None or name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise _error(f"{module}.{name}", reason)

    return attribute


def explain_missing_modules() -> None:
    """Lets `import smdebug.<module>` say why there is none."""
    if not any(isinstance(finder, _Explainer) for finder in sys.meta_path):
        sys.meta_path.append(_Explainer())


class _Explainer(MetaPathFinder):
    """Stands last, so it is asked for modules only that no other finder has."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if not fullname.startswith("smdebug."):
            return
        reason = reason_for(fullname)
        if reason is not None:
            raise _error(fullname, reason)


def _error(name: str, reason: str) -> ImportError:
    return ImportError(f"{name} is not offered by trackside-smdebug. {reason}", name=name)
