"""SageMaker Debugger's names of rules, and the rules of Trackside that replace them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trackside.contracts.errors import did_you_mean

# Class names, as they stand in `rule_to_invoke`, of the rules on tensors and models.
_TENSOR_RULES = {
    "VanishingGradient": "vanishing-gradient",
    "ExplodingTensor": "exploding-tensor",
    "PoorWeightInitialization": "poor-weight-initialization",
    "SaturatedActivation": "saturated-activation",
    "DeadRelu": "dead-relu",
    "WeightUpdateRatio": "weight-update-ratio",
    "AllZero": "all-zero",
    "TensorVariance": "tensor-variance",
    "UnchangedTensor": "unchanged-tensor",
    "SimilarAcrossRuns": "similar-across-runs",
    "LossNotDecreasing": "loss-not-decreasing",
    "Overfit": "overfit",
    "Overtraining": "overtraining",
    "StalledTrainingRule": "stalled-training",
    "ClassImbalance": "class-imbalance",
    "CheckInputImages": "unnormalized-inputs",
    "NLPSequenceRatio": "nlp-sequence-ratio",
    "Confusion": "confusion",
    "TreeDepth": "tree-depth",
    "FeatureImportanceOverweight": "feature-importance-overweight",
    "GradientClipping": "gradient-clipping",
}
_PROFILER_RULES = {
    "BatchSize": "batch-size",
    "CPUBottleneck": "cpu-bottleneck",
    "Dataloader": "dataloader",
    "GPUMemoryIncrease": "gpu-memory-increase",
    "IOBottleneck": "io-bottleneck",
    "LoadBalancing": "load-balancing",
    "LowGPUUtilization": "low-gpu-utilization",
    "MaxInitializationTime": "max-initialization-time",
    "OverallFrameworkMetrics": "overall-framework-metrics",
    "OverallSystemUsage": "overall-system-usage",
    "StepOutlier": "step-outlier",
    "ProfilerReport": "profiler-report",
}
# Written a report, never a finding.
_REPORTS = {"CreateXgboostReport": "create-xgboost-report"}
CLASS_NAMES: Mapping[str, str] = {**_TENSOR_RULES, **_PROFILER_RULES, **_REPORTS}
RULE_IDS: Mapping[str, str] = {rule_id: name for name, rule_id in CLASS_NAMES.items()}

# Further names that stand in blogs and notebooks.
ALIASES: Mapping[str, str] = {
    "WeightUpdate": "weight-update-ratio",
    "StalledTraining": "stalled-training",
    "NlpSequenceRatio": "nlp-sequence-ratio",
    "OverallsystemUsage": "overall-system-usage",
    "HardwareUtilization": "low-gpu-utilization",
    "CPUUtilization": "cpu-bottleneck",
    "TfOperatorTime": "overall-framework-metrics",
}

# Names of parameters that stand for others, by rule.
PARAMETER_ALIASES: Mapping[str, Mapping[str, str]] = {
    "low-gpu-utilization": {"threshold": "threshold_p95"},
}

# What Amazon documents for each rule on tensors, https://docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html
_SELECTION = ("collection_names", "tensor_regex")
_LAYERS = ("threshold_inactivity", "threshold_layer")
DOCUMENTED_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "vanishing-gradient": ("threshold",),
    "exploding-tensor": (*_SELECTION, "only_nan"),
    "poor-weight-initialization": ("activation_inputs_regex", "threshold", "distribution_range", "patience", "steps"),
    "saturated-activation": (
        *_SELECTION,
        *(f"threshold_{kind}_{end}" for kind in ("tanh", "sigmoid") for end in ("min", "max")),
        *_LAYERS,
    ),
    "dead-relu": ("tensor_regex", *_LAYERS),
    "weight-update-ratio": ("num_steps", "large_threshold", "small_threshold", "epsilon"),
    "all-zero": (*_SELECTION, "threshold"),
    "tensor-variance": (*_SELECTION, "max_threshold", "min_threshold"),
    "unchanged-tensor": (*_SELECTION, "num_steps", "rtol", "atol", "equal_nan"),
    "similar-across-runs": ("other_trials", *_SELECTION),
    "loss-not-decreasing": (
        *_SELECTION,
        "use_losses_collection",
        "num_steps",
        "diff_percent",
        "increase_threshold_percent",
        "mode",
    ),
    "overfit": ("tensor_regex", "start_step", "patience", "ratio_threshold"),
    "overtraining": ("patience_train", "patience_validation", "delta"),
    "stalled-training": ("threshold", "stop_training_on_fire", "training_job_name_prefix"),
    "class-imbalance": (
        "threshold_imbalance",
        "threshold_misprediction",
        "samples",
        "argmax",
        "labels_regex",
        "predictions_regex",
    ),
    "unnormalized-inputs": ("threshold_mean", "threshold_samples", "regex", "channel"),
    "nlp-sequence-ratio": ("tensor_regex", "token_values", "token_thresholds_percent"),
    "confusion": (
        "category_no",
        "labels",
        "predictions",
        "labels_collection",
        "predictions_collection",
        "min_diag",
        "max_off_diag",
    ),
    "tree-depth": ("depth",),
    "feature-importance-overweight": ("threshold", "nfeatures", "tensor_regex"),
    "create-xgboost-report": (),
}


@dataclass(frozen=True)
class KnownRule:
    """A rule of SageMaker Debugger: its class name, and the id of the rule that replaces it."""

    rule_id: str
    class_name: str

    @property
    def is_profiler_rule(self) -> bool:
        """True if the rule judges measurements of the machine."""
        return self.class_name in _PROFILER_RULES

    @property
    def is_report(self) -> bool:
        """True if the rule judges nothing and writes a report."""
        return self.class_name in _REPORTS


def known_rule(name: str) -> KnownRule | None:
    """Return the rule with that class name, alias or id, in upper or lower case; None if unknown."""
    spelled = {**CLASS_NAMES, **ALIASES, **{rule_id: rule_id for rule_id in RULE_IDS}}
    by_letters = {_letters(known): rule_id for known, rule_id in spelled.items()}
    rule_id = spelled.get(name) or by_letters.get(_letters(name))
    return KnownRule(rule_id, RULE_IDS[rule_id]) if rule_id else None


def suggest_rule(name: str) -> str:
    """Return `Did you mean 'VanishingGradient'?`, or the list of known names."""
    return did_you_mean(name, [*CLASS_NAMES, "WeightUpdate"])


def _letters(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()
