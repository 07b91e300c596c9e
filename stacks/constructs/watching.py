"""The watched jobs beside those with the tag, and the permissions of the function that starts evaluators for them."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from stacks.constructs.acknowledge import accept_wildcard, name_in_findings
from stacks.constructs.allow import allow
from stacks.constructs.queue_backed_function import QueueBackedFunction
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import in_rules, untagged_training_started
from trackside.contracts.event import SOURCE
from trackside.contracts.job_choice import RUN_TAG, WATCH_TAG
from trackside.contracts.run_layout import JOB_PLACE, RULE_REQUEST_KEY


def rule_parameters_below(settings: DeploymentSettings) -> str:
    """Return the path in SSM of rules that many jobs choose, put below it by people."""
    return f"/trackside/{settings.event_bus_name}/rules"


def untagged_runs(settings: DeploymentSettings, runs: s3.IBucket) -> str:
    """Return the address of the runs of jobs that are watched for their name."""
    return f"s3://{runs.bucket_name}/{settings.watching.untagged_runs}/{JOB_PLACE}"


def watches_untagged(settings: DeploymentSettings) -> bool:
    """Return True if jobs without the tag may be watched."""
    return bool(settings.watching.watched_jobs) or settings.watching.watch_by_environment


def let_settle_rules(
    reaction: QueueBackedFunction,
    *,
    settings: DeploymentSettings,
    runs: s3.IBucket,
    key: kms.IKey,
    bus: events.IEventBus,
) -> None:
    """Let start_evaluation put the rules that a job chose into its run, and report on the bus if it cannot."""
    function, requests = reaction.function, f"*/{RULE_REQUEST_KEY}"
    why = "Puts a job's rule request into its run, where the evaluator reads it, and replaces no existing one."
    allow(function, "PutRuleRequests", ["s3:PutObject"], [runs.arn_for_objects(requests)], why=why)
    why = "Runs are encrypted with this key."
    allow(function, "EncryptRuleRequests", ["kms:GenerateDataKey"], [key.key_arn], why=why)
    allow(
        function,
        "SayWhatIsWrong",
        ["events:PutEvents"],
        [bus.event_bus_arn],
        conditions={"StringEquals": {"events:source": SOURCE}},
        why="Says that a job's choice of rules is wrong, in our name only.",
    )
    below = rule_parameters_below(settings)
    parameters = Stack.of(function).format_arn(
        service="ssm", resource="parameter", resource_name=f"{below.lstrip('/')}/*"
    )
    why = "Rules that many jobs choose by name; no other parameter can be read."
    allow(function, "ReadRulesOfParameters", ["ssm:GetParameter"], [parameters], why=why)
    where = f"arn:<AWS::Partition>:ssm:<AWS::Region>:<AWS::AccountId>:parameter{below}/*"
    accept_wildcard(function, where, reason="People put rules there; nothing else lies below that path.")
    where = f"{name_in_findings(runs)}/{requests}"
    accept_wildcard(function, where, reason="A run lies where its job's tag says; only requests are touched.")


def watch_untagged_jobs(reaction: QueueBackedFunction, settings: DeploymentSettings) -> None:
    """Watch jobs that name their run in their environment, or have a name among `watched_jobs`."""
    if not watches_untagged(settings):
        return
    function = reaction.function
    # By environment: any job may be one of them, and it must be asked for its environment.
    names = () if settings.watching.watch_by_environment else settings.watching.watched_jobs
    for number, group in enumerate(in_rules(names)):
        reaction.react_to(
            f"UntaggedTrainingStarted{number or ''}",
            untagged_training_started(group),
            description="A training job without the tag runs, and may be one that is watched",
        )
    jobs = Stack.of(function).format_arn(service="sagemaker", resource="training-job", resource_name="*")
    allow(
        function,
        "TagJobs",
        ["sagemaker:AddTags"],
        [jobs],
        conditions={
            "ForAllValues:StringEquals": {"aws:TagKeys": [RUN_TAG, WATCH_TAG]},
            "Null": {"aws:TagKeys": "false"},
        },
        why="A job that is watched for its name or environment gets our tag, which leads every other part to its run.",
    )
    if settings.watching.watch_by_environment:
        why = "No event contains a job's environment, which may name its run. Reads only."
        allow(function, "ReadEnvironments", ["sagemaker:DescribeTrainingJob"], [jobs], why=why)
    where = "arn:<AWS::Partition>:sagemaker:<AWS::Region>:<AWS::AccountId>:training-job/*"
    accept_wildcard(function, where, reason="Which jobs are watched for their name or environment is not known before.")
