"""The reaction that stops training jobs, and the switch that forbids all stops."""

from __future__ import annotations

from aws_cdk import Stack
from aws_cdk import aws_ssm as ssm

from lambdas.stop_training.settings import StopTrainingSettings
from stacks.constructs.action_reaction import ActionParts, create_reaction, let_publish
from stacks.constructs.allow import allow
from stacks.constructs.queue_backed_function import QueueBackedFunction, pause_milliseconds
from stacks.constructs.resume_permission import let_resume
from stacks.constructs.stop_permission import let_stop
from stacks.deployment_settings import DeploymentSettings
from stacks.spokes import spoke_role_name
from trackside.contracts.action import Action


def create(action: Action, parts: ActionParts) -> QueueBackedFunction:
    """Create the reaction and its switch."""
    settings, dry_run = parts.settings, _create_dry_run_switch(parts)
    at_once = settings.stops.made_at_once
    reaction = create_reaction(
        action,
        parts,
        # SageMaker takes one or two stops a second. Of a thousand at once, made by as many functions as Lambda
        # allows, eight in ten ended as dead letters (docs/scale.md).
        most_at_once=at_once,
        batch_size=1,
        settings=lambda queue: StopTrainingSettings.of(
            settings,
            settings.stops,
            settings.accounts,
            idempotency_table=parts.table.table_name,
            run_table=parts.run_table.table_name,
            queue_url=queue.queue_url,
            topic_arn=parts.topic.topic_arn,
            dry_run_parameter=dry_run.parameter_name,
            retention_days=settings.retention.record_days,
            pause_milliseconds=pause_milliseconds(settings.control_calls_per_second, at_once=at_once),
            **_role_in_spokes(parts),
        ),
    )
    function = reaction.function
    why = "Reads earlier verdicts, and records each decision about a stop."
    parts.run_table.let(function, "PutItem", "Query", "UpdateItem", why=why)
    switch, queue = dry_run.parameter_arn, reaction.queue.queue_arn
    allow(function, "ReadTheSwitch", ["ssm:GetParameter"], [switch], why="A person may forbid all stops.")
    allow(function, "LookAgainLater", ["sqs:SendMessage"], [queue], why="A stop waits for its veto in the queue.")
    let_publish(function, parts, why="Announces a stop that may be vetoed, and a job that goes on.")
    let_stop(function, settings)
    let_resume(function, settings)
    return reaction


def switch_name(settings: DeploymentSettings) -> str:
    """Return the name of the SSM parameter that is `true` while nothing may be stopped."""
    return f"/trackside/{settings.event_bus_name}/dry-run"


def _create_dry_run_switch(parts: ActionParts) -> ssm.StringParameter:
    """Return the switch.

    A person may change it at any time; a deployment sets it only after the setting has changed.
    """
    return ssm.StringParameter(
        parts.scope,
        "DryRun",
        parameter_name=switch_name(parts.settings),
        string_value="true" if parts.settings.stops.dry_run else "false",
        allowed_pattern="^(true|false)$",
        description="Trackside: true while no training job may be stopped",
    )


def _role_in_spokes(parts: ActionParts) -> dict[str, str]:
    settings = parts.settings
    if not settings.accounts.spoke_accounts:
        return {"spoke_role": "", "external_id": ""}
    return {
        "spoke_role": spoke_role_name(settings, Stack.of(parts.scope).region),
        "external_id": settings.event_bus_name,
    }
