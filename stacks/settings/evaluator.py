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
    image_tag            tag in it (default: this version)
    instance_type        of the processing jobs
    volume_gb            of their disk
    poll_seconds         between two requests to S3 for new steps; each costs two requests
    max_runtime_seconds  600 to 777,600 (9 days); AWS stops the job then
    mode                 `per-job` (one processing job for each run), `per-rule` (one for each rule) or `fleet`
                         (workers on ECS that share all runs); docs/evaluators.md
    most_rule_jobs       `per-rule`: processing jobs of one training job; the rules beyond share the last
    started_at_once      number of start_evaluation functions that call SageMaker at a time (2 to 1,000)
    volume_key_arn       KMS key of the processing jobs' disks ("": SageMaker's)
    encrypt_traffic      True: processing jobs are started with inter-container encryption
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
