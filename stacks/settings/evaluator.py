"""Settings of the evaluators: the processing jobs that judge runs."""

from __future__ import annotations

from dataclasses import dataclass

import trackside
from stacks.settings.place import KEY
from stacks.settings.setting import IMAGE_TAG, REPOSITORY, between, matching, setting
from trackside.contracts.deployment.evaluators import EVALUATOR_MODES, PER_JOB
from trackside.contracts.errors import did_you_mean


def _check_mode(value: str) -> None:
    if value not in EVALUATOR_MODES:
        modes = dict.fromkeys(EVALUATOR_MODES)
        raise ValueError(f"it must be one of {', '.join(EVALUATOR_MODES)}. {did_you_mean(value, modes)}".strip())


@dataclass(frozen=True)
class EvaluatorSettings:
    """The evaluators.

    repository           name of the ECR repository of the rule container
    image_tag            tag of the image that judges runs
    instance_type        instance of the processing jobs
    volume_gb            size of their disk
    poll_seconds         time between two requests to S3 for new steps while steps are quick (1 to 300); where a step
                         takes minutes, a job asks every 10 seconds by itself. [Its cost](costs.md); the fleet gets a
                         message about new steps instead
    max_runtime_seconds  AWS ends a processing job then, and [another goes
                         on](evaluators.md#longer-than-a-processing-job-may-run); 600 to 777600 (9 days)
    mode                 [how runs are judged](evaluators.md): `per-job`, one processing job for each training job;
                         `per-rule`, one for each of its rules; `fleet`, workers that share all runs
    most_rule_jobs       `per-rule`: processing jobs of one training job; the rules beyond share the last (1 to 100)
    started_at_once      calls of `start_evaluation` to SageMaker at a time (2 to 1000): [at
                         scale](scale.md#what-to-set)
    volume_key_arn       [key of the disks](landing-zone.md#disks-and-traffic-of-processing-jobs) of the processing
                         jobs; none: SageMaker's
    encrypt_traffic      `true`: processing jobs are started with inter-container encryption
    """

    repository: str = setting(
        "trackside-evaluator", matching(REPOSITORY, "'trackside-evaluator'"), key="evaluator_repository"
    )
    image_tag: str = setting(trackside.__version__, IMAGE_TAG, key="evaluator_image_tag")
    instance_type: str = setting(
        "ml.t3.medium", matching(r"ml\.[a-z0-9-]+\.[a-z0-9-]+", "'ml.t3.medium'"), key="evaluator_instance_type"
    )
    volume_gb: int = setting(10, between(1, 16_384), key="evaluator_volume_gb")
    poll_seconds: int = setting(1, between(1, 300), key="evaluator_poll_seconds")
    # The least: a container starts for minutes, and hands over in time.
    max_runtime_seconds: int = setting(432_000, between(600, 777_600), key="evaluator_max_runtime_seconds")
    mode: str = setting(PER_JOB, _check_mode, key="evaluator_mode")
    most_rule_jobs: int = setting(20, between(1, 100), key="evaluator_most_rule_jobs")
    started_at_once: int = setting(2, between(2, 1_000), key="evaluations_started_at_once")
    volume_key_arn: str = setting("", KEY, key="evaluator_volume_key_arn")
    encrypt_traffic: bool = setting(False, key="evaluator_encrypts_traffic")
