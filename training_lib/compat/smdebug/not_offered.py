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
ACTIONS = (
    "smdebug's action strings are not carried out. Actions (StopTraining, Notify, PublishMetric) are asked for in the "
    "rule request, and taken outside of the evaluator."
)
_FRAMEWORK = "This framework is not captured yet; PyTorch is, without any import."
_PROFILER = "Trackside does not profile yet."
_INNER = "It belongs to the inner works of the original, which are built differently here."

# A module stands for everything below it.
_HOOKS = {
    "pytorch": ("Hook get_hook set_hook del_hook Collection", _CAPTURE),
    "mxnet": ("Hook get_hook set_hook del_hook Collection", _FRAMEWORK),
    "xgboost": ("Hook get_hook set_hook del_hook Collection", _FRAMEWORK),
    "tensorflow": (
        "KerasHook SessionHook EstimatorHook get_hook set_hook del_hook Collection",
        _FRAMEWORK,
    ),
}
REASONS: dict[str, str] = {
    **{f"smdebug.{module}.{name}": why for module, (names, why) in _HOOKS.items() for name in names.split()},
    "smdebug.trials.profiler_trial": _PROFILER,
    "smdebug.rules.action": ACTIONS,
    "smdebug.profiler": _PROFILER,
    "smdebug.core.access_layer": _INNER,
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
    "smdebug.core.s3_utils": _INNER,
    "smdebug.core.sagemaker_utils": _INNER,
    "smdebug.core.singleton_utils": _INNER,
    "smdebug.core.state_store": _INNER,
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
        raise error_for(f"{module}.{name}")

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
        if reason_for(fullname) is not None:
            raise error_for(fullname)


def error_for(name: str) -> ImportError:
    """The error that tells why a listed name is not offered."""
    return ImportError(f"{name} is not offered by trackside-smdebug. {reason_for(name)}", name=name)
