"""Every name of smdebug 1.0.34 that scripts rely on is offered, or listed with a reason."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import smdebug
from smdebug import CollectionKeys, modes, not_offered

from tests.patience import HANGS_SECONDS
from trackside.records.modes import MODE_NUMBERS

# Module -> its public names, as scripts and the original's tests import them.
CONFIGS = "ReductionConfig SaveConfig SaveConfigMode modes CollectionKeys create_trial Collection"
HOOK = "Hook get_hook set_hook del_hook"
OLD_NAMES = {
    "smdebug": "CollectionKeys modes ReductionConfig SaveConfig SaveConfigMode __version__",
    "smdebug.pytorch": f"{CONFIGS} {HOOK}",
    "smdebug.mxnet": f"{CONFIGS} {HOOK}",
    "smdebug.tensorflow": f"{CONFIGS} KerasHook SessionHook EstimatorHook get_hook set_hook del_hook",
    "smdebug.xgboost": f"SaveConfig SaveConfigMode modes Collection CollectionKeys create_trial {HOOK}",
    "smdebug.trials": "create_trial Trial LocalTrial S3Trial",
    "smdebug.trials.profiler_trial": "ProfilerTrial",
    "smdebug.trials.utils": "create_trial",
    "smdebug.rules": "Rule invoke_rule RequiredTensors RequiredTensorsForTrial",
    "smdebug.rules.action": "Actions action message_action stop_training_action",
    "smdebug.rules.action.message_action": "MessageAction",
    "smdebug.rules.action.stop_training_action": "StopTrainingAction",
    "smdebug.analysis.utils": "no_refresh refresh parse_list_from_str parse_bool",
    "smdebug.exceptions": (
        "SMDebugError SMDebugCustomerError SMDebugTypeError SMDebugRuntimeError SMDebugNotImplementedError"
        " SMDebugValueError InvalidCollectionConfiguration StepNotYetAvailable StepUnavailable TensorUnavailableForStep"
        " ShapeUnavailableForStep TensorUnavailable InvalidWorker MissingCollectionFiles IndexReaderException"
        " NoMoreData NoMoreProfilerData RuleEvaluationConditionMet InsufficientInformationForRuleInvocation"
    ),
    "smdebug.core.access_layer": (
        "TSAccessFile TSAccessS3 training_has_ended has_training_ended check_dir_exists"
        " is_rule_signalled_gracetime_passed ENV_RULE_STOP_SIGNAL_FILENAME DEFAULT_GRACETIME_FOR_RULE_STOP_SEC"
    ),
    "smdebug.core.access_layer.base": "TSAccessBase",
    "smdebug.core.access_layer.file": "SMDEBUG_TEMP_PATH_SUFFIX WRITE_MODES TSAccessFile get_temp_path",
    "smdebug.core.access_layer.s3": "TSAccessS3",
    "smdebug.core.access_layer.s3handler": "S3Handler ListRequest ReadObjectRequest DeleteRequest",
    "smdebug.core.access_layer.utils": (
        "END_OF_JOB_FILENAME ENV_RULE_STOP_SIGNAL_FILENAME DEFAULT_GRACETIME_FOR_RULE_STOP_SEC check_dir_exists"
        " delete_s3_prefixes file_exists has_training_ended is_rule_signalled_gracetime_passed training_has_ended"
    ),
    "smdebug.core.collection": (
        "Collection CollectionKeys DEFAULT_TF_COLLECTIONS DEFAULT_PYTORCH_COLLECTIONS DEFAULT_MXNET_COLLECTIONS"
        " DEFAULT_XGBOOST_COLLECTIONS SCALAR_COLLECTIONS SUMMARIES_COLLECTIONS NON_REDUCTION_COLLECTIONS"
        " NON_HISTOGRAM_COLLECTIONS SM_METRIC_COLLECTIONS"
    ),
    "smdebug.core.collection_manager": "CollectionManager",
    "smdebug.core.config_constants": (
        "CALLABLE_CACHE_ENV_VAR CHECKPOINT_CONFIG_FILE_PATH_ENV_VAR CHECKPOINT_DIR_KEY CLAIM_FILENAME"
        " CONFIG_COLLECTION_CONFIG_KEY CONFIG_COLLECTION_NAME_KEY CONFIG_COLLECTION_PARAMS_KEY CONFIG_DRYRUN_KEY"
        " CONFIG_FILE_PATH_ENV_STR CONFIG_HOOK_PARAMS_KEY CONFIG_INCLUDE_REGEX_KEY CONFIG_INCLUDE_WORKERS_KEY"
        " CONFIG_OUTDIR_KEY CONFIG_RDN_CFG_KEY CONFIG_REDUCTION_CONFIGS_KEY CONFIG_SAVE_ALL_KEY CONFIG_SAVE_CONFIGS_KEY"
        " DEFAULT_CALLABLE_CACHE DEFAULT_CHECKPOINT_CONFIG_FILE DEFAULT_COLLECTIONS_FILE_NAME DEFAULT_CONFIG_FILE_PATH"
        " DEFAULT_RESOURCE_CONFIG_FILE DEFAULT_SAGEMAKER_METRICS_PATH DEFAULT_SAGEMAKER_OUTDIR"
        " DEFAULT_SAGEMAKER_TENSORBOARD_PATH DEFAULT_SAVED_COLLECTIONS DEFAULT_WORKER_NAME EXPORT_TENSORBOARD_KEY"
        " INCOMPLETE_STEP_WAIT_WINDOW_DEFAULT INCOMPLETE_STEP_WAIT_WINDOW_KEY LATEST_GLOBAL_STEP_SAVED"
        " LATEST_GLOBAL_STEP_SEEN LATEST_MODE_STEP LOG_DUPLICATION_THRESHOLD METADATA_FILENAME"
        " METADATA_FILENAME_S3_UPLOADED MISSING_EVENT_FILE_RETRY_LIMIT MISSING_EVENT_FILE_RETRY_LIMIT_KEY"
        " PAPERMILL_EXECUTION_ENV_VAR PROFILER_REPORT_VERSION PROFILER_TELEMETRY_URL"
        " TENSORBOARD_CONFIG_FILE_PATH_ENV_STR TENSORBOARD_DIR_KEY TRAINING_END_DELAY_REFRESH_DEFAULT"
        " TRAINING_END_DELAY_REFRESH_KEY TRAINING_RUN"
    ),
    "smdebug.core.config_validator": "get_config_validator reset_config_validator ConfigValidator",
    "smdebug.core.error_handling_agent": "BASE_ERROR_MESSAGE ErrorHandlingAgent",
    "smdebug.core.hook": "BaseHook CallbackHook ScalarCache",
    "smdebug.core.hook_utils": "verify_and_get_out_dir get_tensorboard_dir",
    "smdebug.core.index_reader": (
        "IndexReader LocalIndexReader S3IndexReader ReadIndexFilesCache MISSING_EVENT_FILE_RETRY_LIMIT"
        " MISSING_EVENT_FILE_RETRY_LIMIT_KEY"
    ),
    "smdebug.core.json_config": (
        "create_hook_from_json_config add_collections_to_manager collect_hook_config_params get_include_collections"
        " get_json_config_as_dict get_node_id_from_resource_config get_tensorboard_dir_from_json_config"
        " parse_save_config_dict parse_save_config_modes_dict DEFAULT_RESOURCE_CONFIG_FILE DEFAULT_SAGEMAKER_OUTDIR"
        " DEFAULT_CONFIG_FILE_PATH CONFIG_FILE_PATH_ENV_STR"
    ),
    "smdebug.core.locations": (
        "EventFileLocation TensorFileLocation TensorboardFileLocation IndexFileLocationUtils TensorLocation TensorShape"
        " STEP_NUMBER_FORMATTING_LENGTH TraceFileLocation PYTHONTIMELINE_SUFFIX MERGEDTIMELINE_SUFFIX"
        " TRACE_DIRECTORY_FORMAT"
    ),
    "smdebug.core.logger": "get_logger DuplicateLogFilter MaxLevelFilter",
    "smdebug.core.modes": "ModeKeys",
    "smdebug.core.reader": "FileReader",
    "smdebug.core.reduction_config": "ReductionConfig ALLOWED_REDUCTIONS ALLOWED_NORMS",
    "smdebug.core.reductions": (
        "get_numpy_reduction get_basic_numpy_reduction get_reduction_tensor_name reverse_reduction_tensor_name"
        " REDUCTIONS_PREFIX"
    ),
    "smdebug.core.s3_utils": "list_s3_objects",
    "smdebug.core.sagemaker_utils": "is_sagemaker_job",
    "smdebug.core.save_config": "SaveConfig SaveConfigMode",
    "smdebug.core.singleton_utils": "set_hook get_hook del_hook",
    "smdebug.core.state_store": "StateStore METADATA_FILENAME CHECKPOINT_DIR_KEY",
    "smdebug.core.tensor": "Tensor StepState",
    "smdebug.core.tfevent.event_file_reader": "EventFileReader get_tensor_data",
    "smdebug.core.tfevent.event_file_writer": "EventFileWriter",
    "smdebug.core.tfevent.events_writer": "EventsWriter",
    "smdebug.core.tfevent.index_file_writer": "IndexWriter",
    "smdebug.core.tfevent.proto.event_pb2": "Event",
    "smdebug.core.tfevent.summary": "histogram_summary scalar_summary",
    "smdebug.core.tfevent.timeline_file_writer": "TimelineFileWriter",
    "smdebug.core.tfevent.util": "make_tensor_proto",
    "smdebug.core.tfrecord.record_reader": "RecordReader masked_crc32c u32 CHECKSUM_MAGIC_BYTES",
    "smdebug.core.tfrecord.record_writer": "RecordWriter masked_crc32c u32 CHECKSUM_MAGIC_BYTES",
    "smdebug.core.tfrecord.tensor_reader": "TensorReader",
    "smdebug.core.utils": (
        "FRAMEWORK error_handling_agent ErrorHandlingAgent SagemakerSimulator ScriptSimulator is_s3 make_numpy_array"
        " is_first_process CLAIM_FILENAME CONFIG_FILE_PATH_ENV_STR DEFAULT_SAGEMAKER_OUTDIR"
        " DEFAULT_SAGEMAKER_TENSORBOARD_PATH TENSORBOARD_CONFIG_FILE_PATH_ENV_STR PROFILER_REPORT_VERSION"
        " PROFILER_TELEMETRY_URL check_smdataparallel_env check_smmodelparallel_training deserialize_tf_device"
        " ensure_dir flatten get_aws_region_from_processing_job_arn get_distributed_worker get_immediate_subdirectories"
        " get_logger get_node_id get_path_to_collections get_path_to_events_directory get_region"
        " get_relative_event_file_path get_tb_worker get_worker_name_from_collection_file index"
        " is_framework_version_supported list_collection_files_in_directory list_files_in_directory load_json_as_dict"
        " match_inc merge_two_dicts parse_worker_name_from_file remove_claim_file remove_file_if_exists"
        " serialize_tf_device setup_profiler_report size_and_shape split step_in_range validate_custom_tensor_value"
    ),
    "smdebug.core.writer": "FileWriter MODE_PLUGIN_NAME MODE_STEP_PLUGIN_NAME",
    "smdebug.profiler": (
        "LocalAlgorithmMetricsReader S3AlgorithmMetricsReader MetricsReaderBase LocalSystemMetricsReader"
        " S3SystemMetricsReader S3NumpySystemMetricsReader ProfilerSystemEvents SystemProfilerEventParser"
        " HorovodProfilerEvents SMDataParallelProfilerEvents SMProfilerEvents TensorboardProfilerEvents TraceEvent"
        " TraceEventParser"
    ),
    "smdebug.profiler.profiler_config_parser": (
        "ProfilerConfigParser MetricsCategory get_profiler_config_parser reset_profiler_config_parser"
    ),
    "smdebug.profiler.profiler_config": "ProfilerConfig",
    "smdebug.profiler.profiler_constants": "DEFAULT_PREFIX",
    "smdebug.profiler.python_profiler": "PythonProfiler",
    "smdebug.profiler.python_profile_utils": "PythonProfileModes",
    "smdebug.profiler.utils": (
        "TimeUnits start_smdataparallel_profiler stop_smdataparallel_profiler stop_tf_profiler"
        " write_tf_profiler_metadata_file"
    ),
    "smdebug.profiler.hvd_trace_file_rotation": "HvdTraceFileRotation",
    "smdebug.profiler.system_metrics_reader": "S3NumpySystemMetricsReader",
    "smdebug.profiler.analysis.utils": "pandas_data_analysis",
}
ALL_NAMES = [(module, name) for module, names in OLD_NAMES.items() for name in names.split()]
# MXNet has an environment of its own, where `test_mxnet_hook.py` asks for its names.
ELSEWHERE = () if importlib.util.find_spec("mxnet") else ("smdebug.mxnet",)


def found(module: str, name: str) -> Any:
    """What `from <module> import <name>` gives."""
    names: dict[str, Any] = {}
    exec(f"from {module} import {name}", names)  # noqa: S102 - the statement that users write
    return names[name]


def test_every_name_is_offered_or_has_its_own_reason() -> None:
    pytest.importorskip("torch")
    for module, name in ALL_NAMES:
        if module.startswith(ELSEWHERE) and name in HOOK.split():
            continue
        full_name, given = f"{module}.{name}", found(module, name)
        if not not_offered.is_offered(given):
            with pytest.raises(ImportError, match=r"is not offered by trackside-smdebug\.") as caught:
                given()
            assert str(not_offered.reason_for(full_name)) in str(caught.value), full_name


# What the original's modules hold, by their sources.


def names_in(source: str) -> set[str]:
    """The public names that a module defines or imports at its top, in whatever branch. Star imports are left out."""
    found: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it escapes what needs no escape
        waiting: list[Any] = list(ast.parse(source).body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            found.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in statement.names} - {"*"}
        elif isinstance(statement, ast.Assign):
            found |= {
                node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)
            }
        else:
            parts = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody", "handlers")]
            waiting += [each for part in parts for each in part]
    return {name for name in found if not name.startswith("_")}


def originals(smdebug_python: Path) -> dict[str, set[str]]:
    """The modules of the real package, and the names in each."""
    top = next(smdebug_python.parents[1].glob("lib/python*/site-packages/smdebug"))
    modules = {}
    for file in top.rglob("*.py"):
        parts = file.relative_to(top.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = names_in(file.read_text("utf-8"))
    return modules


def test_every_name_of_the_real_package_can_be_imported(smdebug_python: Path) -> None:
    """Also with a star, as scripts do that take everything."""
    pytest.importorskip("torch")
    modules = originals(smdebug_python)
    assert len(modules) > 120
    assert sum(map(len, modules.values())) > 1500
    absent = []
    for module, names in modules.items():
        if module.startswith(ELSEWHERE):
            continue
        ours = importlib.import_module(module)
        absent += [f"{module}.{name}" for name in names if not hasattr(ours, name)]
        given: dict[str, Any] = {}
        exec(f"from {module} import *", given)  # noqa: S102 - as above
        if module not in STATIC:
            absent += [f"{module}.{name} by *" for name in names if name not in given]
    assert absent == []


# Their own lists hold the public names that scripts use; the original's also give `os`, `re` and the like.
STATIC = {"smdebug", "smdebug.pytorch", "smdebug.rules", "smdebug.trials", "smdebug.core.access_layer"}


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda name: name(), id="call"),
        pytest.param(lambda name: name.anything, id="attribute"),
        pytest.param(lambda name: name[0], id="item"),
        pytest.param(list, id="loop"),
        pytest.param(lambda name: name + "suffix", id="text"),
        pytest.param(lambda name: type("Own", (name,), {})(), id="a class of it"),
    ],
)
def test_a_name_that_is_not_offered_refuses_every_use(use: Callable[[Any], object]) -> None:
    refused = found("smdebug.trials.profiler_trial", "ProfilerTrial")
    with pytest.raises(not_offered.NotOfferedError, match="profiles by itself, under other names"):
        use(refused)
    assert "not offered" in repr(refused)
    assert not isinstance(3, refused)


# Of the real hook: what scripts and notebooks ask, as `contracts` of smdebug 1.0.34 and `dir()` tell.
HOOK_ATTRIBUTES_TEXT = (
    "GRADIENT_PREFIX INPUT_TENSOR_SUFFIX INVALID_TAG_CHARACTERS OUTPUT_TENSOR_SUFFIX SCALAR_PREFIX add_collection"
    " autograd_profiler_enabled backward_hook backward_modules_profile_stats bhook chief_worker close"
    " collection_manager count_parameters create_from_json_file custom_tensors_to_save data_type_name dry_run"
    " export_collections exported_collections fhook first_forward_submodule_name first_process forward_hook"
    " forward_modules_profile_stats forward_pre_hook get_collection get_collections has_default_configuration"
    " has_default_hook_configuration has_registered_loss_module has_registered_module hvd_reader"
    " include_collections include_regex init_step is_smdataparallel_profiling last_saved_step"
    " log_outstanding_backward_stats_and_reset log_outstanding_forward_stats_and_reset"
    " log_outstanding_timeline_metrics log_trace_event logger metrics_writer mode mode_steps module_set out_dir"
    " parent_backward_event parent_forward_event prepared_collections profiler profiler_config_parser"
    " record_tensor_value record_trace_events reduction_config register_hook register_loss register_module"
    " reset_backward_module_profile_stats reset_forward_module_profile_stats save_all save_all_workers save_config"
    " save_scalar save_tensor scalar_cache set_mode should_save_dataloader_metrics"
    " should_save_tensor_or_collection state_store step step_event tb_writers tensor_to_collections"
    " tensorboard_dir timeline_writer training_run use_cuda worker writer written_tensor_name_for_step"
)
HOOK_ATTRIBUTES = tuple(HOOK_ATTRIBUTES_TEXT.split())


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("torch")
    import smdebug.pytorch as smd

    hook = smd.Hook(str(tmp_path_factory.mktemp("run")))
    yield hook
    hook.close()
    smd.del_hook()


@pytest.mark.parametrize("name", HOOK_ATTRIBUTES)
def test_a_hook_has_it_or_says_why_not(hook: Any, name: str) -> None:
    reason = not_offered.reason_for_attribute(name)
    if reason is None:
        getattr(hook, name)
        return
    assert not hasattr(hook, name), "it is offered: take it off the list"
    with pytest.raises(AttributeError, match=rf"'Hook' object has no attribute '{name}'\. ") as caught:
        getattr(hook, name)
    assert reason in str(caught.value)


def test_an_attribute_that_never_was_has_no_reason(hook: Any) -> None:
    with pytest.raises(AttributeError, match=r"attribute 'never_was'\.$"):
        hook.never_was  # noqa: B018 - the asking is what is tested


def test_the_list_of_attributes_holds_old_ones_only() -> None:
    assert sorted({*not_offered.HOOK_ATTRIBUTES} - {*HOOK_ATTRIBUTES}) == []


def test_the_list_holds_old_names_only() -> None:
    known = {f"{module}.{name}" for module, name in ALL_NAMES}
    strangers = [
        listed for listed in not_offered.REASONS if not any(f"{name}.".startswith(f"{listed}.") for name in known)
    ]
    assert strangers == []


def test_an_attribute_says_why_too() -> None:
    with pytest.raises(ImportError, match=r"which `smdebug\.tensorflow\.KerasHook` captures"):
        found("smdebug.tensorflow", "SessionHook")()
    with pytest.raises(ImportError, match="profiles by itself, under other names"):
        found("smdebug.trials.profiler_trial", "ProfilerTrial")()


ABSENT = """
import sys
sys.modules[sys.argv[1]] = None  # Python's way to make an import fail
import importlib
module = importlib.import_module(sys.argv[2])
module.SaveConfig, module.Collection
try:
    getattr(module, sys.argv[3])
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("framework", "module", "name", "message"),
    [
        pytest.param("torch", "smdebug.pytorch", "Hook", "torch is not installed", id="PyTorch"),
        pytest.param("keras", "smdebug.tensorflow", "KerasHook", "keras is not installed", id="Keras"),
        pytest.param("xgboost", "smdebug.xgboost", "Hook", "xgboost is not installed", id="XGBoost"),
        pytest.param("mxnet", "smdebug.mxnet", "Hook", "mxnet is not installed", id="MXNet"),
        pytest.param("pandas", "smdebug.xgboost", "set_hook", "", id="another package"),
    ],
)
def test_the_hook_of_an_absent_framework_names_the_command(
    framework: str, module: str, name: str, message: str
) -> None:
    command = [sys.executable, "-c", ABSENT, framework, module, name]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANGS_SECONDS).stdout
    assert message in shown
    assert ("pip install" in shown) == bool(message)


def test_names_that_never_were_are_plainly_unknown() -> None:
    assert not hasattr(smdebug, "never_was")
    assert not hasattr(CollectionKeys, "NEVER_WAS")
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'smdebug\.never_was'"):
        importlib.import_module("smdebug.never_was")
    with pytest.raises(ModuleNotFoundError, match="No module named 'never_was'"):
        importlib.import_module("never_was")


def test_offers_what_the_real_smdebug_offers(peer: Any) -> None:
    real = peer("names", {})
    assert smdebug.__version__ == real["version"]
    assert {mode.name: mode.value for mode in modes} == real["modes"] == MODE_NUMBERS
    ours = {name: getattr(CollectionKeys, name) for name in dir(CollectionKeys) if name.isupper()}
    assert ours == real["collection_keys"]


def test_modes_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(modes.TRAIN)) is modes.TRAIN  # noqa: S301 - our own bytes


def test_importing_is_cheap() -> None:
    """Containers import smdebug in every training process, whether it is used or not."""
    script = "import sys, smdebug; sys.exit(any(name in sys.modules for name in ('numpy', 'boto3', 'torch')))"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
