"""Old names that are not offered, each with its reason and a replacement.

A name leaves this list when it is offered: `tests/smdebug/test_names.py` holds every old name to one of the two.
A listed name raises ImportError, from `import` and from `smdebug.<name>` alike: Python replaces the message
of an AttributeError within `from ... import ...`, so that the reason would be lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

ACTIONS = (
    "smdebug's action strings are not carried out. Actions (StopTraining, Notify, PublishMetric) are asked for in the "
    "rule request, and taken outside of the evaluator."
)
_FRAMEWORK = "This framework is not captured yet; PyTorch is, without any import."
_PROFILER = "Trackside does not profile yet."
_INNER = (
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
_SIMULATOR = (
    "It sets up files and variables for tests of hooks. Set TRACKSIDE_RUN and TRACKSIDE_CAPTURE_REQUEST instead."
)
_TELEMETRY = "Trackside never phones home."

# A module stands for everything below it.
_HOOKS = {
    "mxnet": ("Hook get_hook set_hook del_hook Collection", _FRAMEWORK),
    "xgboost": ("Hook get_hook set_hook del_hook Collection", _FRAMEWORK),
    "tensorflow": (
        "KerasHook SessionHook EstimatorHook get_hook set_hook del_hook Collection",
        _FRAMEWORK,
    ),
}
_SINGLE = {
    "core.config_constants": {"PROFILER_REPORT_VERSION PROFILER_TELEMETRY_URL": _TELEMETRY},
    "core.json_config": {
        "collect_hook_config_params add_collections_to_manager parse_save_config_dict parse_save_config_modes_dict": (
            _HOOK_CONFIGURATION
        ),
        "get_node_id_from_resource_config": _RANK,
    },
    "core.locations": {
        "TraceFileLocation PYTHONTIMELINE_SUFFIX MERGEDTIMELINE_SUFFIX TRACE_DIRECTORY_FORMAT": _PROFILER
    },
    "core.tfevent": {
        "timeline_file_writer": _PROFILER,
        "event_file_reader event_file_writer events_writer proto summary": _PROTOBUF,
        "index_file_writer": _INNER,
    },
    "core.utils": {
        "error_handling_agent ErrorHandlingAgent": _GUARD,
        "SagemakerSimulator ScriptSimulator": _SIMULATOR,
        "get_distributed_worker get_node_id get_tb_worker": _RANK,
        "check_smdataparallel_env check_smmodelparallel_training": _RANK,
        "is_framework_version_supported": "Frameworks are captured in any version that has what capture needs.",
        "setup_profiler_report PROFILER_REPORT_VERSION PROFILER_TELEMETRY_URL": _TELEMETRY,
    },
}
REASONS: dict[str, str] = {
    **{f"smdebug.{module}.{name}": why for module, (names, why) in _HOOKS.items() for name in names.split()},
    **{
        f"smdebug.{module}.{name}": why
        for module, groups in _SINGLE.items()
        for names, why in groups.items()
        for name in names.split()
    },
    "smdebug.trials.profiler_trial": _PROFILER,
    "smdebug.rules.action": ACTIONS,
    "smdebug.profiler": _PROFILER,
    "smdebug.core.config_validator": _GUARD,
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
    """Return the `__getattr__` of a module: it raises an error with the reason for listed names, and has no others."""

    def attribute(name: str) -> object:
        reason = reason_for(f"{module}.{name}")
        if reason is None or name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        raise error_for(f"{module}.{name}")

    return attribute


def explain_missing_modules() -> None:
    """Make `import smdebug.<module>` raise an error with the reason for a missing module."""
    if not any(isinstance(finder, _Explainer) for finder in sys.meta_path):
        sys.meta_path.append(_Explainer())


class _Explainer(MetaPathFinder):
    """The last finder: it is called only for modules that no other finder has."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if not fullname.startswith("smdebug."):
            return
        if reason_for(fullname) is not None:
            raise error_for(fullname)


def error_for(name: str) -> ImportError:
    """Return the error with the reason why a listed name is not offered."""
    return ImportError(f"{name} is not offered by trackside-smdebug. {reason_for(name)}", name=name)
