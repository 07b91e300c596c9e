"""What one deployment may choose: the `trackside:` entries of cdk.json's context, or `-c trackside:name=value`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import trackside
from stacks.evaluator_checks import EVALUATOR_CHECKS, fleet_problems
from stacks.place_checks import PLACE_CHECKS, combination_problems
from stacks.setting_checks import (
    READERS,
    accept,
    between,
    check_cost_tags,
    check_emails,
    check_log_retention,
    check_prices,
    check_rules_place,
    matching,
    too_long_for_variables,
)
from stacks.telling_checks import TELLING_CHECKS, missing_secrets
from stacks.watching_checks import WATCHING_CHECKS
from trackside.contracts.action import DEFAULT_ACTIONS, Action
from trackside.contracts.errors import ConfigurationError, Problem, did_you_mean
from trackside.contracts.evaluator_mode import PER_JOB

PREFIX = "trackside:"


@dataclasses.dataclass(frozen=True)
class DeploymentSettings:
    """One deployment.

    event_bus_name                name of the bus that verdicts travel on
    evaluator_repository          name of the ECR repository of the rule container
    evaluator_image_tag           tag in it (default: this version)
    evaluator_instance_type       of the processing jobs that judge runs
    evaluator_volume_gb           of their disk
    evaluator_poll_seconds        how often an evaluator asks S3 for new steps; each time costs two requests
    evaluator_max_runtime_seconds 600 to 777,600 (9 days); AWS stops the job then
    evaluator_mode                what judges a run: `per-job` (one processing job), `per-rule` (one for each rule) or
                                  `fleet` (workers on ECS that share all runs); docs/evaluators.md
    evaluator_most_rule_jobs      `per-rule`: of one training job; the rules beyond share the last
    fleet_least_workers           `fleet`: how many workers there always are (0: none while nothing trains)
    fleet_most_workers            at most
    fleet_runs_per_worker         how many runs each judges at once
    fleet_cpu_units               of a worker; 1,024 are one processor
    fleet_memory_mb               of a worker
    evaluations_started_at_once   how many start_evaluation functions call SageMaker at a time (2 to 1,000)
    control_calls_per_second      how often stop_training and start_evaluation each call SageMaker (1 to 100)
    custom_rules_from             s3:// prefix below which rule files lie that may judge runs ("": none may). Whoever
                                  may write there may read every run
    custom_rule_repository        name of the ECR repository of the container that runs them
    custom_rule_image_tag         tag in it (default: this version)
    watched_jobs                  patterns of names (`nightly-*`) of jobs that are watched though they carry no tag
    unwatched_jobs                patterns of names of jobs that are not, unless they carry it
    untagged_runs                 prefix in the bucket of runs below which the runs of `watched_jobs` lie, by job name
    watch_by_environment          true: jobs without the tag are watched that name their run in TRACKSIDE_RUN
    default_rules                 which rules judge where a job chooses none, in the words of a tag, or an address ("":
                                  all that are usual)
    default_actions               for events of the original, of jobs whose tags name no action
    dry_run                       true: stop_training says what it would stop and stops nothing. Only what the switch
                                  (an SSM parameter) says at first: a person may change it without a deployment
    stops_per_hour                how many training jobs may be stopped in an hour (0: any number)
    stops_made_at_once            how many stop_training functions call SageMaker at a time (2 to 1,000)
    stop_cool_down_minutes        how long after a stop or a veto the same job is not stopped (0: not at all)
    veto_minutes                  how long before a stop people are told of it, and may forbid it (0: made at once)
    stop_after_findings           how many findings of a job must ask for its stop
    stop_after_rules              of how many rules, whose issue still stands
    instance_prices               what an instance costs an hour, as `ml.m5.large=0.12`; to tell what a stop spared
    owner_emails                  who is told of issues and of dead letters; each address confirms once
    owner_phones                  who gets an SMS of issues (`+14155550100`)
    notify_quiet_minutes          after a rule was told of, what it finds anew in the same job is told so much later, as
                                  one message (0: each at once)
    slack_channel                 the channel of Slack that is told what owners are told ("": none)
    slack_secret                  name of the Secrets Manager secret that holds `Bearer xoxb-...`, a bot's token
    webhook_url                   an https:// endpoint that is sent what owners are told, as JSON ("": none)
    webhook_secret                name of the secret that holds the value of its header Authorization
    webhook_calls_per_second      at most so many calls of it
    run_retention_days            when runs are deleted (0: never)
    reconcile_minutes             how often it is looked for what events missed
    record_retention_days         when what is known of a run is forgotten, in the table of runs (0: never)
    archive_retention_days        how long events can be replayed
    log_retention_days            of the functions' logs
    evaluator_silence_minutes     an evaluator that gives no sign of life for so long raises an alarm
    detection_latency_seconds     a verdict that takes so long to its record raises an alarm
    oldest_message_minutes        a message that waits so long for its function raises an alarm
    cost_tags                     `name=value` on all that this deployment makes, and on the processing jobs it starts
    drills                        true: also makes the role that the training job of `trackside drill` runs with
    keep_data                     false: `cdk destroy` also deletes the table of runs, the bucket, if it is empty, and
                                  their key

    Where it stands, and what is there already ("" or none: made by the deployment, or not used); docs/landing-zone.md:

    environment                   `staging`: one of several deployments in an account and region; it becomes part of
                                  every name
    key_arn                       KMS key for runs and messages
    run_bucket                    name of the bucket of runs
    alarm_topic_arn               SNS topic that alarms about Trackside tell
    notification_topic_arn        SNS topic that owners are told on
    permissions_boundary          ARN of the policy that bounds every role
    vpc_subnets                   of the processing jobs, and of the functions if `functions_in_vpc`
    vpc_security_groups           likewise
    functions_in_vpc              true: functions run in the VPC, too
    evaluator_volume_key_arn      KMS key of the processing jobs' disks
    evaluator_encrypts_traffic    true: processing jobs are started with inter-container encryption
    spoke_accounts                accounts whose training jobs this one, the hub, watches
    hub_account                   the account that watches the training jobs of this one, a spoke; nothing else is made
    organization                  id of the organization that hub and spokes must be of
    """

    event_bus_name: str = "trackside"
    evaluator_repository: str = "trackside-evaluator"
    evaluator_image_tag: str = trackside.__version__
    evaluator_instance_type: str = "ml.t3.medium"
    evaluator_volume_gb: int = 10
    evaluator_poll_seconds: int = 1
    evaluator_max_runtime_seconds: int = 432_000
    evaluator_mode: str = PER_JOB
    evaluator_most_rule_jobs: int = 20
    fleet_least_workers: int = 1
    fleet_most_workers: int = 10
    fleet_runs_per_worker: int = 8
    fleet_cpu_units: int = 1024
    fleet_memory_mb: int = 4096
    evaluations_started_at_once: int = 2
    control_calls_per_second: int = 2
    custom_rules_from: str = ""
    custom_rule_repository: str = "trackside-custom-rule"
    custom_rule_image_tag: str = trackside.__version__
    watched_jobs: tuple[str, ...] = ()
    unwatched_jobs: tuple[str, ...] = ()
    untagged_runs: str = "jobs"
    watch_by_environment: bool = False
    default_rules: str = ""
    default_actions: tuple[Action, ...] = DEFAULT_ACTIONS
    dry_run: bool = False
    stops_per_hour: int = 20
    stops_made_at_once: int = 2
    stop_cool_down_minutes: int = 60
    veto_minutes: int = 0
    stop_after_findings: int = 1
    stop_after_rules: int = 1
    instance_prices: tuple[str, ...] = ()
    owner_emails: tuple[str, ...] = ()
    owner_phones: tuple[str, ...] = ()
    notify_quiet_minutes: int = 60
    slack_channel: str = ""
    slack_secret: str = ""
    webhook_url: str = ""
    webhook_secret: str = ""
    webhook_calls_per_second: int = 10
    run_retention_days: int = 90
    reconcile_minutes: int = 5
    record_retention_days: int = 365
    archive_retention_days: int = 30
    log_retention_days: int = 30
    evaluator_silence_minutes: int = 30
    detection_latency_seconds: int = 300
    oldest_message_minutes: int = 30
    cost_tags: tuple[str, ...] = ()
    drills: bool = False
    keep_data: bool = True
    environment: str = ""
    key_arn: str = ""
    run_bucket: str = ""
    alarm_topic_arn: str = ""
    notification_topic_arn: str = ""
    permissions_boundary: str = ""
    vpc_subnets: tuple[str, ...] = ()
    vpc_security_groups: tuple[str, ...] = ()
    functions_in_vpc: bool = False
    evaluator_volume_key_arn: str = ""
    evaluator_encrypts_traffic: bool = False
    spoke_accounts: tuple[str, ...] = ()
    hub_account: str = ""
    organization: str = ""

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> DeploymentSettings:
        """Reads the `trackside:` entries of a CDK context; texts, as `-c` gives them, are understood too.

        Errors: `ConfigurationError` with every problem at once.
        """
        types = get_type_hints(cls)
        problems: list[Problem] = []
        values: dict[str, Any] = {}
        for key, given in context.items():
            name = key.removeprefix(PREFIX)
            if name == key:
                if name in types:  # CDK would take it, and nobody would ever read it
                    problems.append(Problem(key, "is not read.", f"Did you mean {PREFIX + key!r}?"))
                continue
            if name not in types:
                problems.append(Problem(key, "is not a setting.", did_you_mean(name, types)))
                continue
            try:
                values[name] = READERS[types[name]](given)
                _CHECKS.get(name, accept)(values[name])
            except ValueError as error:
                problems.append(Problem(key, f"is {given!r}: {error}{'' if str(error).endswith('?') else '.'}"))
        wrong_together = (
            *combination_problems(values),
            *fleet_problems(values),
            *missing_secrets(values),
            *too_long_for_variables(values),
        )
        problems += [Problem(PREFIX + name, why) for name, why in wrong_together]
        if problems:
            raise ConfigurationError(problems, subject="The deployment's settings (cdk.json, -c)")
        return cls(**values)._named_for_its_environment()

    def _named_for_its_environment(self) -> DeploymentSettings:
        """Every name that must not be taken twice in an account and region, or is made of one that is so."""
        if not self.environment:
            return self
        return dataclasses.replace(
            self,
            event_bus_name=f"{self.event_bus_name}-{self.environment}",
            evaluator_repository=f"{self.evaluator_repository}-{self.environment}",
            custom_rule_repository=f"{self.custom_rule_repository}-{self.environment}",
        )

    def stack_name(self, construct_id: str) -> str:
        """`TracksideStorage`, or `Trackside-staging-Storage`."""
        concern = construct_id.removeprefix("Trackside")
        return f"Trackside-{self.environment}-{concern}" if self.environment else construct_id

    def service_name(self, reaction: str) -> str:
        """What a reaction calls itself in its metrics: `reconcile`, or `staging-reconcile`. Of two that call themselves
        the same, one that sweeps would hide that the other does not."""
        return f"{self.environment}-{reaction}" if self.environment else reaction


def cost_tags(settings: DeploymentSettings) -> tuple[tuple[str, str], ...]:
    """Name and value of every tag that all of a deployment carries: its own, and `project` if it is not among them."""
    given = dict(tag.split("=", 1) for tag in settings.cost_tags)
    return tuple({"project": "trackside", **given}.items())


_CHECKS: Mapping[str, Callable[[Any], None]] = {
    "event_bus_name": matching(r"(?!aws\.|default$)[A-Za-z0-9_.-]{1,64}", "'trackside'"),
    "evaluator_repository": matching(r"[a-z0-9]+([._/-][a-z0-9]+)*", "'trackside-evaluator'"),
    "evaluator_image_tag": matching(r"(?a:\w[\w.-]{0,127})", "'0.1.0'"),
    "evaluator_instance_type": matching(r"ml\.[a-z0-9-]+\.[a-z0-9-]+", "'ml.t3.medium'"),
    "evaluator_volume_gb": between(1, 16_384),
    "evaluator_poll_seconds": between(1, 300),
    "evaluator_max_runtime_seconds": between(600, 777_600),  # a container starts for minutes, and hands over in time
    "evaluations_started_at_once": between(2, 1_000),
    "control_calls_per_second": between(1, 100),
    **EVALUATOR_CHECKS,
    "custom_rules_from": check_rules_place,
    "custom_rule_repository": matching(r"[a-z0-9]+([._/-][a-z0-9]+)*", "'trackside-custom-rule'"),
    "custom_rule_image_tag": matching(r"(?a:\w[\w.-]{0,127})", "'0.1.0'"),
    **WATCHING_CHECKS,
    "stops_per_hour": between(0, 3_000),  # their ARNs, 130 bytes each, stand in one item of at most 400 KB
    "stops_made_at_once": between(2, 1_000),
    "stop_cool_down_minutes": between(0, 10_080),
    "veto_minutes": between(0, 10_080),
    "stop_after_findings": between(1, 100),
    "stop_after_rules": between(1, 100),
    "instance_prices": check_prices,
    "owner_emails": check_emails,
    **TELLING_CHECKS,
    "run_retention_days": between(0, 36_500),
    "reconcile_minutes": between(1, 1_440),
    "record_retention_days": between(0, 36_500),
    "archive_retention_days": between(1, 36_500),
    "log_retention_days": check_log_retention,
    "evaluator_silence_minutes": between(10, 1_440),
    "detection_latency_seconds": between(10, 86_400),
    "oldest_message_minutes": between(20, 1_440),  # a stop that waits for its veto lies there for up to 15
    "cost_tags": check_cost_tags,
    **PLACE_CHECKS,
}
