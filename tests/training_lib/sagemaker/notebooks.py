"""Notebooks as users of SageMaker Debugger wrote them: each takes the module that holds the names, whoever's it is.

They run under the real SDK too, so they hold nothing that it refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Notebook = Callable[[Any], dict[str, Any]]


def built_in_rules(sdk: Any) -> dict[str, Any]:
    configs = sdk.rule_configs
    names = [
        "all_zero check_input_images class_imbalance confusion create_xgboost_report dead_relu exploding_tensor",
        "feature_importance_overweight loss_not_decreasing nlp_sequence_ratio overfit overtraining",
        "poor_weight_initialization saturated_activation similar_across_runs stalled_training_rule tensor_variance",
        "tree_depth unchanged_tensor vanishing_gradient weight_update_ratio",
    ]
    return {"rules": [sdk.Rule.sagemaker(getattr(configs, name)()) for name in " ".join(names).split()]}


def blog_rules(sdk: Any) -> dict[str, Any]:
    configs = sdk.rule_configs
    return {
        "rules": [
            sdk.Rule.sagemaker(
                configs.loss_not_decreasing(),
                rule_parameters={"collection_names": "losses", "num_steps": 10, "diff_percent": 0.1},
            ),
            sdk.Rule.sagemaker(configs.vanishing_gradient(), rule_parameters={"threshold": 0.0000001}),
            sdk.Rule.sagemaker(
                configs.exploding_tensor(), rule_parameters={"collection_names": "weights,gradients", "only_nan": False}
            ),
        ],
        "debugger_hook_config": sdk.DebuggerHookConfig(
            s3_output_path="s3://bucket/debugger-output",
            collection_configs=[
                sdk.CollectionConfig(name="losses", parameters={"save_interval": "10"}),
                sdk.CollectionConfig(name="weights", parameters={"save_interval": "100"}),
                sdk.CollectionConfig(name="gradients", parameters={"save_interval": "100"}),
            ],
        ),
    }


def actions(sdk: Any) -> dict[str, Any]:
    configs = sdk.rule_configs
    all_three = configs.ActionList(
        configs.StopTraining("My-Job"), configs.Email("abc@abc.com"), configs.SMS("+14155550100")
    )
    return {
        "rules": [
            sdk.Rule.sagemaker(configs.vanishing_gradient(), actions=all_three),
            sdk.Rule.sagemaker(configs.exploding_tensor(), actions=configs.StopTraining()),
            sdk.Rule.sagemaker(configs.loss_not_decreasing(), name="told", actions=configs.Email("abc@abc.com")),
        ]
    }


def actions_of_a_started_job(sdk: Any) -> dict[str, Any]:
    """As after `fit`: the actions stand in the parameters too. (A lone Email fails there, under the real SDK.)"""
    given = actions(sdk)
    for rule in given["rules"][:2]:
        rule.prepare_actions("My-Job-2026")
    return given


def custom_rule(sdk: Any) -> dict[str, Any]:
    return {
        "rules": [
            sdk.Rule.custom(
                name="MyRule",
                image_uri="503895931360.dkr.ecr.us-east-1.amazonaws.com/sagemaker-debugger-rule-evaluator:latest",
                instance_type="ml.t3.medium",
                volume_size_in_gb=30,
                source="rules/mine.py",
                rule_to_invoke="LargeGradients",
                rule_parameters={"threshold": "10"},
                collections_to_save=[
                    sdk.CollectionConfig("gradients", {"save_interval": "7"}),
                    sdk.CollectionConfig("relu", {"include_regex": ".*relu_output", "save_steps": "1,2"}),
                ],
            )
        ]
    }


def profiling(sdk: Any) -> dict[str, Any]:
    configs = sdk.rule_configs
    kinds = (
        "BatchSize CPUBottleneck GPUMemoryIncrease IOBottleneck LoadBalancing LowGPUUtilization MaxInitializationTime "
        "OverallSystemUsage ProfilerReport StepOutlier"
    )
    return {
        "rules": [
            *(sdk.ProfilerRule.sagemaker(getattr(configs, kind)()) for kind in kinds.split()),
            sdk.ProfilerRule.sagemaker(configs.LowGPUUtilization(threshold_p95=30, patience=7), name="low"),
            sdk.ProfilerRule.sagemaker(configs.ProfilerReport(CPUBottleneck_threshold=90), name="report"),
            sdk.ProfilerRule.custom("own", "image", "ml.t3.medium", 30, source="a.py", rule_to_invoke="Own"),
        ],
        "profiler_config": sdk.ProfilerConfig(
            system_monitor_interval_millis=500,
            framework_profile_params=sdk.FrameworkProfile(
                start_step=5, num_steps=10, local_path="/opt/ml/output/profiler"
            ),
        ),
        "tensorboard_output_config": sdk.TensorBoardOutputConfig("s3://bucket/tensorboard"),
    }


def every_knob_of_the_hook(sdk: Any) -> dict[str, Any]:
    return {
        "debugger_hook_config": sdk.DebuggerHookConfig(
            s3_output_path="s3://bucket/out",
            container_local_output_path="/opt/ml/output/elsewhere",
            hook_parameters={"save_interval": "50", "eval.save_steps": "3,4", "include_workers": "all"},
            collection_configs=[
                sdk.CollectionConfig("weights", {"reductions": "mean,abs_l1", "train.end_step": "100"}),
                sdk.CollectionConfig("outs", {"include_regex": "relu_output_0,tanh", "save_histogram": "False"}),
                sdk.CollectionConfig("biases"),
                sdk.CollectionConfig("trees", {"save_interval": 5}),
            ],
        ),
        "rules": [
            sdk.Rule.sagemaker(
                sdk.rule_configs.vanishing_gradient(),
                collections_to_save=[sdk.CollectionConfig("gradients", {"save_interval": 25})],
            )
        ],
    }


NOTEBOOKS: dict[str, Notebook] = {
    each.__name__: each
    for each in (
        built_in_rules,
        blog_rules,
        actions,
        actions_of_a_started_job,
        custom_rule,
        profiling,
        every_knob_of_the_hook,
    )
}
