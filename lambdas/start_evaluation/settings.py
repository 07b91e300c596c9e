"""Settings of start_evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings

NAME_PREFIX = "trackside-"  # of every processing job that judges a training job


@dataclass(frozen=True)
class StartEvaluationSettings(EnvironmentSettings):
    """How processing jobs that judge a run are started.

    `run_bucket` is the bucket that evaluators may read; `event_bus` the name of the bus they report to.
    """

    image_uri: str
    role_arn: str
    run_bucket: str
    event_bus: str
    instance_type: str = "ml.t3.medium"
    volume_gb: int = 10
    max_runtime_seconds: int = 432_000
