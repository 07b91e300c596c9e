"""Old names that are not offered, each with its reason and a replacement.

A name leaves this list when it is offered: `tests/smdebug/test_names.py` holds every old name to one of the two.
Every name of the original can be imported, for a script may import more than it uses. One that is not offered is a
stand-in: its use raises `NotOfferedError`, an ImportError, with the reason. `original_names.json` has the names of all
modules of the original 1.0.34, and the modules that they come from.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from trackside.extras import extra_of, missing_extra

ACTIONS = (
    "smdebug's action strings are not carried out. Actions (StopTraining, Notify, PublishMetric) are asked for in the "
    "rule request, and taken outside of the evaluator."
)
_NO_MXNET = (
    "mxnet is not installed, which the capture of an MXNet training needs. On Python 3.11: pip install 'mxnet==1.9.1' "
    "'numpy==1.23.5'"
)
_TENSORFLOW = (
    "Sessions and estimators of TensorFlow 1 are not captured: TensorFlow 2.16 and newer have no estimators. Train by "
    "`fit` or `GradientTape`, which `smdebug.tensorflow.KerasHook` captures, and `trackside run` without any import."
)
_PROFILER = (
    "It is a part of the original's capture. Trackside profiles by itself, under other names: `trackside profile RUN`,"
    " `trackside.open_profile`."
)
_NUMPY_READER = (
    "It stores pickles on S3. `trackside.open_profile(RUN).metrics()` gives NumPy arrays, of runs on S3 too."
)
INNER = (
    "It belongs to the inner works of the original, which are built differently here. Write a step with "
    "`smdebug.core.writer.FileWriter`, read one with `smdebug.core.reader.FileReader` or `create_trial`."
)
_PROTOBUF = (
    "It takes or gives protobuf messages, and there is no protobuf runtime here. Write a step with "
    "`smdebug.core.writer.FileWriter`, read one with `smdebug.core.reader.FileReader`."
)
_HOOK_CONFIGURATION = (
    "It is a step on the way from a configuration file to a hook. `Hook.create_from_json_file` goes all of it."
)
_GUARD = (
    "It switches smdebug's hooks off after an error. Trackside's capture guards itself: it logs once, and the training "
    "goes on."
)
_RANK = "It asks frameworks for this process's rank. Trackside's capture does so by itself (RANK and WORLD_SIZE)."
_TELEMETRY = "Trackside never phones home."

# A module stands for everything that is defined in it and below.
_SINGLE = {
    "core.config_constants": {"PROFILER_REPORT_VERSION PROFILER_TELEMETRY_URL": _TELEMETRY},
    "core.json_config": {
        "collect_hook_config_params add_collections_to_manager parse_save_config_dict parse_save_config_modes_dict": (
            _HOOK_CONFIGURATION
        ),
    },
    "core.tfevent": {
        "event_file_reader event_file_writer events_writer proto summary": _PROTOBUF,
        "index_file_writer": INNER,
    },
    "core.utils": {
        "error_handling_agent ErrorHandlingAgent": _GUARD,
        "get_distributed_worker get_tb_worker check_smdataparallel_env": _RANK,
        "setup_profiler_report PROFILER_REPORT_VERSION PROFILER_TELEMETRY_URL": _TELEMETRY,
    },
}
REASONS: dict[str, str] = {
    "smdebug.tensorflow": _TENSORFLOW,
    **{
        f"smdebug.{module}.{name}": why
        for module, groups in _SINGLE.items()
        for names, why in groups.items()
        for name in names.split()
    },
    "smdebug.trials.profiler_trial": _PROFILER,
    "smdebug.rules.action": ACTIONS,
    "smdebug.profiler.system_metrics_reader.S3NumpySystemMetricsReader": _NUMPY_READER,
    "smdebug.profiler.S3NumpySystemMetricsReader": _NUMPY_READER,
    "smdebug.profiler.utils.start_smdataparallel_profiler": _PROFILER,
    "smdebug.profiler.utils.stop_smdataparallel_profiler": _PROFILER,
    "smdebug.profiler.utils.stop_tf_profiler": _PROFILER,
    "smdebug.profiler.utils.write_tf_profiler_metadata_file": _PROFILER,
    "smdebug.core.error_handling_agent": _GUARD,
}
# Of a hook: attributes that it does not have.
HOOK_ATTRIBUTES: dict[str, str] = {
    name: why
    for names, why in {
        "autograd_profiler_enabled backward_modules_profile_stats first_forward_submodule_name"
        " forward_modules_profile_stats hvd_reader is_smdataparallel_profiling log_outstanding_backward_stats_and_reset"
        " log_outstanding_forward_stats_and_reset log_outstanding_timeline_metrics log_trace_event"
        " parent_backward_event parent_forward_event profiler reset_backward_module_profile_stats"
        " reset_forward_module_profile_stats step_event timeline_writer use_cuda": _PROFILER,
        "backward_hook bhook fhook forward_hook forward_pre_hook module_set data_type_name": (
            "It is how the original hung itself into modules. Trackside sees steps at the optimizer, and modules only "
            "on steps that are saved."
        ),
        "tensor_to_collections written_tensor_name_for_step INVALID_TAG_CHARACTERS": (
            "It is an inner part of the original's writing. `trial.collection(name).tensor_names` tells what was saved."
        ),
    }.items()
    for name in names.split()
}


def reason_for_attribute(name: str) -> str | None:
    """Return the reason why a hook lacks this attribute of the original's; None if the original never had it."""
    return HOOK_ATTRIBUTES.get(name)


def reason_for(name: str) -> str | None:
    """Return the reason why a dotted name, or its module, is not offered; None if it is not listed."""
    while name:
        if name in REASONS:
            return REASONS[name]
        name = name.rpartition(".")[0]
    return None


def attribute_of(module: str) -> Callable[[str], object]:
    """Return the `__getattr__` of a module: it finds the other names that the original's module has.

    A name that the original's module took from another one is found there. What is not offered is a `NotOffered`.
    """

    def attribute(name: str) -> object:
        if name == "__all__":  # a star import gives the names that the original's gave
            own = [each for each in vars(sys.modules[module]) if not each.startswith("_")]
            return sorted({*own, *names_of(module)} - {"annotations", "not_offered"})
        return _found(module, name)

    return attribute


def of_framework(module: str, name: str) -> object:
    """Return a name of a module that imports its framework.

    Args:
        module: The module.
        name: The name.

    Raises:
        ImportError: The framework is not installed. The message has the command that installs it.
    """
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        extra = extra_of(error.name)
        if not extra and error.name != "mxnet":
            raise
        message = str(missing_extra(extra)) if extra else _NO_MXNET
        raise ImportError(message, name=error.name) from None


def explain_missing_modules() -> None:
    """Make `import smdebug.<module>` find the modules of the original that are missing here."""
    if not any(isinstance(finder, _MissingModules) for finder in sys.meta_path):
        sys.meta_path.append(_MissingModules())


def is_offered(found: object) -> bool:
    """Return False for the stand-in of a name that is not offered."""
    return not isinstance(found, _RefusedType)


def names_of(module: str) -> list[str]:
    """Return the public names that the original's module has; [] for no module of the original's."""
    return sorted(_origins(module))


class _MissingModules(MetaPathFinder, Loader):
    """The last finder: it is called only for modules that no other finder has."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("smdebug.") or fullname not in _original():
            return None
        is_package = any(other.startswith(f"{fullname}.") for other in _original())
        return ModuleSpec(fullname, self, is_package=is_package)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__doc__ = f"The names of the original's `{name}`, which is not offered."
        module.__dict__.update(__getattr__=attribute_of(name), __all__=names_of(name))


class _RefusedType(type):
    """The type of the stand-ins: every use of one raises its `NotOfferedError`."""

    _name: str

    def _refuse(cls, *_args: object, **_kwargs: object) -> NoReturn:
        raise error_for(cls._name)

    __call__ = __iter__ = __getitem__ = __len__ = __contains__ = __enter__ = __exit__ = _refuse
    __add__ = __radd__ = __mod__ = __lt__ = __gt__ = __int__ = __float__ = __fspath__ = _refuse

    def __getattr__(cls, name: str) -> object:
        if name.startswith("_"):  # what inspect and editors ask of each class
            raise AttributeError(name)
        raise error_for(cls._name)

    def __repr__(cls) -> str:
        return f"<{cls._name}, not offered by trackside-smdebug>"


def _found(module: str, name: str) -> object:
    origins = _origins(module)
    full_name = f"{module}.{name}"
    if full_name in _original():
        return import_module(full_name)
    if name not in origins:
        if full_name in REASONS:
            return _stand_in(full_name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    origin, attribute = origins[name]
    if not origin or full_name in REASONS:
        return _stand_in(full_name)
    try:
        found = import_module(origin)
        return found if attribute == "." else _attribute(found, origin, attribute)
    except ImportError as error:
        if origin.startswith("smdebug.") and not (error.name or "").startswith("smdebug."):
            raise  # what a module of ours needs can be installed
        return _stand_in(full_name)


def _attribute(found: ModuleType, origin: str, attribute: str) -> object:
    """Return an attribute of a module, or its submodule."""
    try:
        return getattr(found, attribute)
    except AttributeError:
        return import_module(f"{origin}.{attribute}")


@cache
def _stand_in(full_name: str) -> type:
    """Return a class in the place of a name: it can be imported and derived from, and refuses every use."""
    return _RefusedType(full_name.rpartition(".")[2], (), {"_name": full_name})


@cache
def _original() -> Mapping[str, Mapping[str, str]]:
    """Return, for each module of the original, its names by the module that they come from."""
    text = Path(__file__).with_name("original_names.json").read_text("utf-8")
    return dict(json.loads(text))


@cache
def _origins(module: str) -> Mapping[str, tuple[str, str]]:
    """Return (module, name in it) for each name of the original's module; ("", "") for its own definitions."""
    found: dict[str, tuple[str, str]] = {}
    for origin, names in _original().get(module, {}).items():
        for entry in names.split():
            name, _, other = entry.partition("<")
            found[name] = (origin, other or name) if origin else ("", "")
    return found


def error_for(name: str) -> NotOfferedError:
    """Return the error with the reason why a name is not offered."""
    reason = reason_for(name) or INNER
    return NotOfferedError(f"{name} is not offered by trackside-smdebug. {reason}", name=name)


class NotOfferedError(ImportError):
    """A name of the original's was used that is not offered. The message has the reason."""
