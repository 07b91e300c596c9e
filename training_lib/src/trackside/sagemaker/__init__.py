"""The names of `sagemaker.debugger`, so that a notebook moves over by changing one import.

    from trackside.sagemaker import Rule, rule_configs, DebuggerHookConfig, CollectionConfig

`translate` makes a rule request and a capture request from these objects, from the SDK's own, or from a mixture.
`prepare_run` stores the rules in a run and returns the arguments of its training job.
More in docs/moving-from-sagemaker-debugger.md.
"""

from __future__ import annotations

from trackside.documents.requests import Translation, read_environment, read_training_job, training_job_document
from trackside.documents.sdk import rule_configs
from trackside.documents.sdk.hook import CollectionConfig, DebuggerHookConfig, TensorBoardOutputConfig
from trackside.documents.sdk.profiling import (
    DataloaderProfilingConfig,
    DetailedProfilingConfig,
    FrameworkProfile,
    HorovodProfilingConfig,
    Profiler,
    ProfilerConfig,
    PythonProfiler,
    PythonProfilingConfig,
    SMDataParallelProfilingConfig,
    cProfileTimer,
)
from trackside.documents.sdk.rule_configs import SMS, ActionList, Email, StopTraining
from trackside.documents.sdk.rules import ProfilerRule, Rule, RuleBase, get_rule_container_image_uri
from trackside.documents.sdk.translation import (
    to_capture_request,
    to_environment,
    to_rule_request,
    translate,
)
from trackside.sagemaker.attachment import (
    Attachment,
    attach_to_request,
    plan_attachment,
    put_objects,
    status_only_attachment,
)
from trackside.sagemaker.estimators import (
    attach_to_estimator,
    attach_to_model_trainer,
    take_over,
    watch_estimator,
)
from trackside.sagemaker.prepared_run import PreparedRun, prepare_run

__all__ = [
    "SMS",
    "ActionList",
    "Attachment",
    "CollectionConfig",
    "DataloaderProfilingConfig",
    "DebuggerHookConfig",
    "DetailedProfilingConfig",
    "Email",
    "FrameworkProfile",
    "HorovodProfilingConfig",
    "PreparedRun",
    "Profiler",
    "ProfilerConfig",
    "ProfilerRule",
    "PythonProfiler",
    "PythonProfilingConfig",
    "Rule",
    "RuleBase",
    "SMDataParallelProfilingConfig",
    "StopTraining",
    "TensorBoardOutputConfig",
    "Translation",
    "attach_to_estimator",
    "attach_to_model_trainer",
    "attach_to_request",
    "cProfileTimer",
    "get_rule_container_image_uri",
    "plan_attachment",
    "prepare_run",
    "put_objects",
    "read_environment",
    "read_training_job",
    "rule_configs",
    "status_only_attachment",
    "take_over",
    "to_capture_request",
    "to_environment",
    "to_rule_request",
    "training_job_document",
    "translate",
    "watch_estimator",
]
