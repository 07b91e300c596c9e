"""Settings of start_evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from lambdas.shared.settings import EnvironmentSettings


@dataclass(frozen=True)
class StartEvaluationSettings(EnvironmentSettings):
    """Settings of the processing jobs that judge runs, and of the jobs that are watched.

    image_uri              image of the evaluator
    role_arn               role of the evaluators
    run_bucket             bucket that they may read
    event_bus              name of the bus of their verdicts
    instance_type          of the processing jobs
    volume_gb              of their disk
    poll_seconds           between two requests of an evaluator for new steps
    max_runtime_seconds    of a processing job
    pause_milliseconds     between two calls of SageMaker
    cost_tags              `name=value`, on every processing job
    custom_rules_from      s3:// prefix of the rule files that may judge ("": none)
    custom_rule_image_uri  image of the processing jobs that judge by them
    custom_rule_role_arn   role of these processing jobs
    subnets                ids, of the VPC that processing jobs join (none: they join none)
    security_groups        ids, in that VPC
    volume_key_arn         key of the disks ("": SageMaker's)
    encrypt_traffic        True: with inter-container encryption
    spoke_accounts         other accounts with jobs that are judged here
    evaluator_mode         `per-job`, `per-rule` or `fleet` (docs/evaluators.md)
    most_rule_jobs         `per-rule`: processing jobs of a run at most
    lease_table            `fleet`: table that gets an item for each run
    fleet_queue_url        `fleet`: queue in which runs are announced
    failed_queue_url       queue for people: jobs that are no longer watched
    notify_queue_url       queue of the function that notifies owners: jobs that are no longer watched
    watch_by_environment   True: jobs without the tag `trackside:run` are watched that name a run in their environment
    watched_jobs           patterns of names, with asterisks, of jobs that are watched without the tag
    unwatched_jobs         patterns of names of jobs that are not watched without the tag
    untagged_runs          address of the runs of `watched_jobs`
    default_rules          rules of jobs that choose none: words, or an address
    rule_parameters_below  path of the SSM parameters that hold rules
    """

    image_uri: str
    role_arn: str
    run_bucket: str
    event_bus: str
    instance_type: str
    volume_gb: int
    poll_seconds: int
    max_runtime_seconds: int
    pause_milliseconds: int
    cost_tags: tuple[str, ...]
    custom_rules_from: str
    custom_rule_image_uri: str
    custom_rule_role_arn: str
    subnets: tuple[str, ...]
    security_groups: tuple[str, ...]
    volume_key_arn: str
    encrypt_traffic: bool
    spoke_accounts: tuple[str, ...]
    evaluator_mode: str
    most_rule_jobs: int
    lease_table: str
    fleet_queue_url: str
    failed_queue_url: str
    notify_queue_url: str
    watch_by_environment: bool
    watched_jobs: tuple[str, ...]
    unwatched_jobs: tuple[str, ...]
    untagged_runs: str
    default_rules: str
    rule_parameters_below: str
