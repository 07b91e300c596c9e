"""The reaction of an action, and of others that it carries out: queue, function and rules of EventBridge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from aws_cdk import Stack
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_events as events
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambdas.shared.settings import ActionSettings, EnvironmentSettings
from stacks.constructs.allow import allow
from stacks.constructs.queue_backed_function import MOST_AT_ONCE, MOST_BATCH_SIZE, QueueBackedFunction
from stacks.constructs.run_table import RunTable
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import issue_found, official_issue_found, official_issue_found_with_action
from trackside.contracts.action import Action

PACKAGE = "stacks.actions"


@dataclass(frozen=True)
class ActionParts:
    """The parts of the stack of actions that its reactions share.

    scope         place of the parts
    settings      of the deployment
    key           key of topics and tables
    run_table     table of runs
    runs          bucket of runs
    bus           bus of verdicts
    topic         topic of notices to owners
    table         table of finished actions
    has_webhooks  True: what owners get also travels on the bus, for webhooks
    """

    scope: Construct
    settings: DeploymentSettings
    key: kms.IKey
    run_table: RunTable
    runs: s3.IBucket
    bus: events.IEventBus
    topic: sns.ITopic
    table: dynamodb.Table
    has_webhooks: bool


def create_reaction_to(action: Action, parts: ActionParts) -> QueueBackedFunction:
    """Create the reaction of an action: by its own file in `stacks/actions`, or else with nothing of its own."""
    name = f"{PACKAGE}.{action.unit.name}"
    try:
        create: Callable[[Action, ActionParts], QueueBackedFunction] = import_module(name).create
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return create_reaction(action, parts)
    return create(action, parts)


def create_reaction(
    action: Action,
    parts: ActionParts,
    *,
    settings: EnvironmentSettings | Callable[[sqs.IQueue], EnvironmentSettings] | None = None,
    most_at_once: int = MOST_AT_ONCE,
    batch_size: int = MOST_BATCH_SIZE,
) -> QueueBackedFunction:
    """Create queue, function and rules of an action.

    Args:
        action: The action.
        parts: The shared parts.
        settings: Settings of the function, or how they are made of its queue. None: those that all actions have.
        most_at_once: Functions at a time, at most.
        batch_size: Messages of one call.
    """
    reaction = QueueBackedFunction(
        parts.scope,
        action.value,
        name=action.unit.name,
        description=f"Trackside: {action.description}",
        settings=settings or ActionSettings.of(parts.settings, idempotency_table=parts.table.table_name),
        log_retention_days=parts.settings.retention.log_days,
        most_at_once=most_at_once,
        batch_size=batch_size,
    )
    allow(
        reaction.function,
        "RememberWhatIsDone",
        ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"],
        [parts.table.table_arn],
        why="A message that comes twice acts once.",
    )
    actions = [each for each in Action if each.unit.reaction == action.unit.name]
    reaction.react_to(
        "IssueFound",
        issue_found(*actions),
        event_bus=parts.bus,
        description=f"A rule that asks for {' or '.join(each.value for each in actions)} found an issue",
    )
    if set(actions) & set(parts.settings.default_actions):
        reaction.react_to(
            "OfficialIssueFound",
            official_issue_found(),
            description="A rule of SageMaker Debugger itself found an issue",
        )
    else:
        reaction.react_to(
            "OfficialIssueFoundAndAsked",
            official_issue_found_with_action(*actions),
            description="A rule of SageMaker Debugger itself found an issue in a job whose tag asks for this",
        )
    return reaction


def let_publish(function: lambda_.Function, parts: ActionParts, *, why: str) -> None:
    """Let a function publish on the topic of notices to owners, which is encrypted."""
    allow(function, "TellOwners", ["sns:Publish"], [parts.topic.topic_arn], why=why)
    actions, why = ["kms:Decrypt", "kms:GenerateDataKey"], "The topic is encrypted with this key."
    through_sns = {"StringEquals": {"kms:ViaService": f"sns.{Stack.of(function).region}.amazonaws.com"}}
    allow(function, "EncryptForTheTopic", actions, [parts.key.key_arn], conditions=through_sns, why=why)
