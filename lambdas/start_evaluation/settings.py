"""Settings of start_evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings
from trackside.contracts.deployment.evaluators import PER_JOB


@dataclass(frozen=True)
class StartEvaluationSettings(EnvironmentSettings):
    """How processing jobs that judge a run are started.

    Evaluators ask for new steps every `poll_seconds`. `run_bucket` is the bucket that they may read; `event_bus` the
    name of the bus they report to. Rules from files below `custom_rules_from`, an s3:// prefix ("": none), are judged
    by jobs of their own, of an image and a role of their own. Jobs without the tag `trackside:run` are watched if their
    environment names a run and `watch_by_environment`, or their name matches one of `watched_jobs` (patterns with
    asterisks, divided by commas) and none of `unwatched_jobs`; then their runs lie at `untagged_runs`. `default_rules`
    (words, or an address) judge jobs that choose none; parameters of SSM with rules lie below `rule_parameters_below`.
    `pause_milliseconds` keeps calls of SageMaker apart. `cost_tags`: `name=value,...`, on every processing job.
    `subnets` and `security_groups`: ids with commas; the VPC that processing jobs join ("": none). `volume_key_arn`
    encrypts their disks ("": SageMaker's key). `spoke_accounts`: numbers with commas, of other accounts whose jobs are
    judged here.

    `evaluator_mode`: what judges a run (docs/evaluators.md). With `per-rule` a run has at most `most_rule_jobs`
    processing jobs; with `fleet` it gets an item in `lease_table`, and is announced in the queue. Whoever is no longer
    watched is told of in the queues of `failed_queue_url`, which people look at, and of `notify_queue_url`, whose
    function tells the owner.
    """

    image_uri: str
    role_arn: str
    run_bucket: str
    event_bus: str
    instance_type: str = "ml.t3.medium"
    volume_gb: int = 10
    poll_seconds: int = 1
    max_runtime_seconds: int = 432_000
    pause_milliseconds: int = 0
    cost_tags: str = "project=trackside"
    custom_rules_from: str = ""
    custom_rule_image_uri: str = ""
    custom_rule_role_arn: str = ""
    subnets: str = ""
    security_groups: str = ""
    volume_key_arn: str = ""
    encrypt_traffic: bool = False
    spoke_accounts: str = ""
    evaluator_mode: str = PER_JOB
    most_rule_jobs: int = 20
    lease_table: str = ""
    fleet_queue_url: str = ""
    failed_queue_url: str = ""
    notify_queue_url: str = ""
    watch_by_environment: bool = False
    watched_jobs: str = ""
    unwatched_jobs: str = ""
    untagged_runs: str = ""
    default_rules: str = ""
    rule_parameters_below: str = "/trackside/trackside/rules"
