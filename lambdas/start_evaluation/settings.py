"""Settings of start_evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class StartEvaluationSettings(EnvironmentSettings):
    """How processing jobs that judge a run are started.

    `run_bucket` is the bucket that evaluators may read; `event_bus` the name of the bus they report to. Rules from
    files below `custom_rules_from`, an s3:// prefix ("": none), are judged by jobs of their own, of an image and a role
    of their own. `pause_milliseconds` keeps calls of SageMaker apart. `cost_tags`: `name=value,...`, on every
    processing job.
    """

    image_uri: str
    role_arn: str
    run_bucket: str
    event_bus: str
    instance_type: str = "ml.t3.medium"
    volume_gb: int = 10
    max_runtime_seconds: int = 432_000
    pause_milliseconds: int = 0
    cost_tags: str = "project=trackside"
    custom_rules_from: str = ""
    custom_rule_image_uri: str = ""
    custom_rule_role_arn: str = ""
