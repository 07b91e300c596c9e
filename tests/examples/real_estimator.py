"""Runs under the real SDK 2.257.7: what its Estimators ask CreateTrainingJob for. Prints one line of JSON."""

from __future__ import annotations

import json
from typing import Any

import boto3
import sagemaker
import sagemaker.debugger
from sagemaker.estimator import Estimator, _TrainingJob

import trackside.sagemaker as ours


def estimator(names: Any, session: Any) -> Estimator:
    """With a rule, a profiler's rule and a hook's configuration, of the given names."""
    rules = [
        names.Rule.sagemaker(names.rule_configs.vanishing_gradient(), rule_parameters={"threshold": "1e-9"}),
        names.ProfilerRule.sagemaker(names.rule_configs.LowGPUUtilization()),
    ]
    collections = [names.CollectionConfig("gradients", {"save_interval": "10"})]
    return Estimator(
        image_uri="my-training:latest",
        role="arn:aws:iam::123456789012:role/data-scientist",
        instance_count=1,
        instance_type="ml.m5.large",
        output_path="s3://runs/output",
        rules=rules,
        debugger_hook_config=names.DebuggerHookConfig(collection_configs=collections),
        environment={"NCCL_DEBUG": "WARN"},
        tags={"team": "vision"},
        sagemaker_session=session,
    )


def requested(given: Estimator) -> dict[str, Any]:
    """What `fit` would ask for."""
    given._prepare_for_training("digits-1")
    arguments = _TrainingJob._get_train_args(given, None, {})
    return {
        "environment": arguments["environment"],
        "tags": {tag["Key"]: tag["Value"] for tag in arguments["tags"]},
        "debugger": sorted(name for name in arguments if name.startswith(("debugger", "profiler_rule"))),
        "profiler": arguments.get("profiler_config"),
    }


def main() -> None:
    session = sagemaker.Session(boto3.Session(), default_bucket="runs")
    found: dict[str, Any] = {}
    for case, names in {"theirs": sagemaker.debugger, "ours": ours}.items():
        given = estimator(names, session)
        notes = ours.watch_estimator(given, f"s3://runs/{case}/@job").notes
        found[case] = {**requested(given), "notes": notes}
    try:
        requested(estimator(ours, session))
    except RuntimeError as error:
        found["refused"] = str(error)
    given = estimator(sagemaker.debugger, session)
    ours.attach_to_estimator(given, ours.plan_attachment("s3://runs/attached/@job"))
    found["attached"] = requested(given)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
