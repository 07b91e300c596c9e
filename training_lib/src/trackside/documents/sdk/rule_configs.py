"""The names of `smdebug_rulesconfig`: a function for each rule, a class for each profiler rule, and the actions.

The functions return the original's values, so the SDK's own `Rule.sagemaker` accepts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from trackside.contracts.errors import ConfigurationError, Problem
from trackside.contracts.recipient import email_problem, phone_problem
from trackside.contracts.rule_request import AWS_SDK, CLASS_PARAMETER
from trackside.documents.actions import (
    EMAIL,
    ENDPOINT,
    PREFIX,
    STOP,
    job_prefix_problem,
    serialise,
)
from trackside.documents.actions import (
    SMS as _SMS,
)
from trackside.documents.profiler_rules import default_parameters, parameter_problems
from trackside.documents.rule_names import PARAMETER_ALIASES, RULE_IDS
from trackside.documents.values import as_text

_SAVED_OFTEN = {"save_interval": "500"}
_COLLECTIONS: Mapping[str, Mapping[str, str]] = {
    "weights": _SAVED_OFTEN,
    "gradients": _SAVED_OFTEN,
    "losses": _SAVED_OFTEN,
    "feature_importance": _SAVED_OFTEN,
    "input_image": {"include_regex": ".*hybridsequential0_input_0", **_SAVED_OFTEN},
    "relu_output": {"include_regex": ".*relu_output", **_SAVED_OFTEN},
    "relu_input": {"include_regex": ".*relu_input", **_SAVED_OFTEN},
    "input_sequence": {"include_regex": ".*embedding0_input_0", **_SAVED_OFTEN},
}


class Action:
    """An action on an issue; `action_parameters` is its entry in the request."""

    def __init__(self, **action_parameters: str) -> None:
        self.action_parameters = dict(action_parameters)

    def serialize(self) -> str:
        """Return the text of the rule's parameter `action_json`."""
        return serialise([self.action_parameters], one=True)

    def update_training_job_prefix_if_not_specified(self, training_job_name: str) -> None:
        """Do nothing: only `StopTraining` names a job."""


class StopTraining(Action):
    """The stop of the training. Trackside stops the job that the rule judges and no other, whatever the prefix."""

    def __init__(self, training_job_prefix: str | None = None) -> None:
        self.use_default_training_job_prefix = training_job_prefix is None
        if training_job_prefix is None:
            super().__init__(name=STOP)
            return
        _refuse("StopTraining.training_job_prefix", job_prefix_problem(training_job_prefix))
        super().__init__(**{PREFIX: training_job_prefix, "name": STOP})

    def update_training_job_prefix_if_not_specified(self, training_job_name: str) -> None:
        """Set the job's own name as the prefix, if none was given."""
        if self.use_default_training_job_prefix:
            self.action_parameters[PREFIX] = training_job_name


class Email(Action):
    """A notification of an e-mail address."""

    def __init__(self, email_address: str) -> None:
        _refuse("Email.email_address", email_problem(email_address))
        super().__init__(**{ENDPOINT: email_address, "name": EMAIL})


class SMS(Action):
    """A notification of a phone."""

    def __init__(self, phone_number: str) -> None:
        _refuse("SMS.phone_number", phone_problem(phone_number))
        super().__init__(**{ENDPOINT: phone_number, "name": _SMS})


class ActionList:
    """Several actions, each carried out once."""

    def __init__(self, *actions: Action) -> None:
        if not all(hasattr(action, "action_parameters") for action in actions):
            raise TypeError(
                f"ActionList takes actions such as StopTraining() or Email('me@example.com'), not {actions!r}."
            )
        self.actions = actions

    def serialize(self) -> str:
        """Return the text of the rule's parameter `action_json`."""
        return serialise([action.action_parameters for action in self.actions])

    def update_training_job_prefix_if_not_specified(self, training_job_name: str) -> None:
        """Set the job's name as the prefix of every `StopTraining` without one."""
        for action in self.actions:
            action.update_training_job_prefix_if_not_specified(training_job_name)


def is_valid_action_object(actions: Any) -> bool:
    """Return True for an action or a list of actions, ours or those of `smdebug_rulesconfig`."""
    return hasattr(actions, "action_parameters") or isinstance(getattr(actions, "actions", None), tuple)


def get_collection(collection_name: str) -> dict[str, Any]:
    """Return the configuration of a collection that rules request by default.

    Raises:
        KeyError: No rule requests that collection.
    """
    return {"CollectionName": collection_name, "CollectionParameters": dict(_COLLECTIONS[collection_name])}


class ProfilerRuleBase:
    """One profiler rule with its parameters, every one of which is sent."""

    RULE_ID = ""

    def __init__(self, **rule_parameters: Any) -> None:
        self.rule_name = RULE_IDS[self.RULE_ID]
        given = {PARAMETER_ALIASES.get(self.RULE_ID, {}).get(name, name): v for name, v in rule_parameters.items()}
        texts = {name: text for name, value in given.items() if (text := as_text(value)) is not None}
        if problems := parameter_problems(self.RULE_ID, texts, where=self.rule_name):
            raise ConfigurationError(problems, subject=self.rule_name)
        defaults = default_parameters(self.RULE_ID, preset=AWS_SDK)
        self.rule_parameters: dict[str, Any] = {**defaults, **given, CLASS_PARAMETER: self.rule_name}


class BatchSize(ProfilerRuleBase):
    """The rule about batches too small for the machine: CPU, GPU and GPU memory are all little used."""

    RULE_ID = "batch-size"


class CPUBottleneck(ProfilerRuleBase):
    """The rule about a GPU that waits while the CPU is busy."""

    RULE_ID = "cpu-bottleneck"


class Dataloader(ProfilerRuleBase):
    """The rule about too few or too many workers of data loaders."""

    RULE_ID = "dataloader"


class GPUMemoryIncrease(ProfilerRuleBase):
    """The rule about GPU memory that grows from step to step."""

    RULE_ID = "gpu-memory-increase"


class IOBottleneck(ProfilerRuleBase):
    """The rule about a GPU that waits for disks or the network."""

    RULE_ID = "io-bottleneck"


class LoadBalancing(ProfilerRuleBase):
    """The rule about one GPU that works more than the others."""

    RULE_ID = "load-balancing"


class LowGPUUtilization(ProfilerRuleBase):
    """The rule about a GPU with low or fluctuating use. `threshold` is another name of `threshold_p95`."""

    RULE_ID = "low-gpu-utilization"


class MaxInitializationTime(ProfilerRuleBase):
    """The rule about a long time until the first step."""

    RULE_ID = "max-initialization-time"


class OverallSystemUsage(ProfilerRuleBase):
    """A summary of the machine's use; finds nothing."""

    RULE_ID = "overall-system-usage"


class OverallFrameworkMetrics(ProfilerRuleBase):
    """A summary of the time spent in the framework; finds nothing."""

    RULE_ID = "overall-framework-metrics"


class StepOutlier(ProfilerRuleBase):
    """The rule about single steps that take far longer than the others."""

    RULE_ID = "step-outlier"


class ProfilerReport(ProfilerRuleBase):
    """All profiler rules at once; their parameters are named `<RuleName>_<parameter>`."""

    RULE_ID = "profiler-report"


# The same by the names that blogs use.
batch_size = BatchSize
cpu_bottleneck = CPUBottleneck
dataloader = Dataloader
gpu_memory_increase = GPUMemoryIncrease
io_bottleneck = IOBottleneck
load_balancing = LoadBalancing
low_gpu_utilization = LowGPUUtilization
max_initialization_time = MaxInitializationTime
overall_framework_metrics = OverallFrameworkMetrics
overall_system_usage = overallsystem_usage = OverallSystemUsage
step_outlier = StepOutlier
profiler_report = ProfilerReport


def _configuration(class_name: str, *collections: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "DebugRuleConfiguration": {
            "RuleConfigurationName": class_name,
            "RuleParameters": {CLASS_PARAMETER: class_name},
        }
    }
    if collections:
        found["CollectionConfigurations"] = [
            get_collection(each) if isinstance(each, str) else deepcopy(each) for each in collections
        ]
    return found


def vanishing_gradient() -> dict[str, Any]:
    """Return the rule about gradients that shrink to almost nothing."""
    return _configuration("VanishingGradient", "gradients")


def exploding_tensor() -> dict[str, Any]:
    """Return the rule about tensors with NaN or infinity."""
    return _configuration("ExplodingTensor")


def poor_weight_initialization() -> dict[str, Any]:
    """Return the rule about initial weights from which a network cannot learn."""
    return _configuration("PoorWeightInitialization", "relu_input")


def saturated_activation() -> dict[str, Any]:
    """Return the rule about tanh and sigmoid units that are stuck at their ends."""
    return _configuration("SaturatedActivation")


def dead_relu() -> dict[str, Any]:
    """Return the rule about ReLU units that never fire."""
    return _configuration("DeadRelu", "relu_output")


def weight_update_ratio() -> dict[str, Any]:
    """Return the rule about updates that are far too large or small for their weights."""
    return _configuration("WeightUpdateRatio", "weights")


def weight_update() -> dict[str, Any]:
    """Return the same as `weight_update_ratio`."""
    return weight_update_ratio()


def gradient_clipping() -> dict[str, Any]:
    """Return the rule about clipping that removes most of most gradients. Trackside's own: Amazon has no such rule."""
    return _configuration("GradientClipping")


def all_zero() -> dict[str, Any]:
    """Return the rule about tensors of zeros only."""
    return _configuration("AllZero")


def tensor_variance() -> dict[str, Any]:
    """Return the rule about tensors that vary too much or too little."""
    return _configuration("TensorVariance")


def unchanged_tensor() -> dict[str, Any]:
    """Return the rule about tensors that no longer change."""
    return _configuration("UnchangedTensor")


def similar_across_runs() -> dict[str, Any]:
    """Return the rule about tensors that differ from another run."""
    return _configuration("SimilarAcrossRuns")


def loss_not_decreasing() -> dict[str, Any]:
    """Return the rule about a loss that is stuck or rises."""
    return _configuration("LossNotDecreasing", "losses")


def overfit() -> dict[str, Any]:
    """Return the rule about a validation loss that rises above the training loss."""
    return _configuration("Overfit")


def overtraining() -> dict[str, Any]:
    """Return the rule about training that goes on without improvement."""
    return _configuration("Overtraining")


def stalled_training_rule() -> dict[str, Any]:
    """Return the rule about a run without new steps for a long time."""
    return _configuration("StalledTrainingRule")


def class_imbalance() -> dict[str, Any]:
    """Return the rule about classes that are far rarer than others, or always mistaken."""
    return _configuration("ClassImbalance")


def check_input_images() -> dict[str, Any]:
    """Return the rule about input images that were not normalised."""
    return _configuration("CheckInputImages", "input_image")


def nlp_sequence_ratio() -> dict[str, Any]:
    """Return the rule about input sequences that are mostly padding."""
    return _configuration("NLPSequenceRatio", "input_sequence")


def confusion() -> dict[str, Any]:
    """Return the rule about classes that are mistaken for one another."""
    return _configuration("Confusion")


def tree_depth() -> dict[str, Any]:
    """Return the rule about XGBoost trees that grow too deep."""
    return _configuration("TreeDepth")


def feature_importance_overweight() -> dict[str, Any]:
    """Return the rule about few features that decide nearly all."""
    return _configuration("FeatureImportanceOverweight", "feature_importance")


def create_xgboost_report() -> dict[str, Any]:
    """Return the configuration of a report about an XGBoost run."""
    often = {"save_interval": "5"}
    parameters = {
        "metrics": often,
        "feature_importance": often,
        "hyperparameters": {"save_steps": "0"},
        "predictions": often,
        "labels": often,
    }
    entries = ({"CollectionName": name, "CollectionParameters": each} for name, each in parameters.items())
    return _configuration("CreateXgboostReport", *entries)


def _refuse(where: str, wrong: str) -> None:
    if wrong:
        raise ConfigurationError([Problem(where, wrong)], subject="The action")
