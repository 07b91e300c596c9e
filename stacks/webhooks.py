"""The webhooks of a deployment, and the messages of each."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_events as events
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.constructs.allow import allow
from stacks.constructs.webhook import Webhook
from stacks.deployment_settings import DeploymentSettings
from stacks.event_patterns import owner_notified
from stacks.webhook_forms import webhook_form
from trackside.contracts.event import SOURCE


def create_webhooks(scope: Construct, *, settings: DeploymentSettings, bus: events.IEventBus) -> Mapping[str, Webhook]:
    """Return the webhooks that the settings request, by name: `webhook`.

    Slack is none: it refuses a message with 200, which EventBridge takes for success. notify_owner posts to it.
    """
    found: dict[str, Webhook] = {}
    if settings.notices.webhook_url:
        form = webhook_form(settings.notices.webhook_url)
        found["webhook"] = Webhook(
            scope,
            "Webhook",
            bus=bus,
            pattern=owner_notified(),
            url=settings.notices.webhook_url,
            header=form.header,
            secret_name=settings.notices.webhook_secret,
            body=form.body(),
            calls_per_second=settings.notices.webhook_calls_per_second,
            description="Sends the messages of owners to an HTTPS endpoint",
        )
    return found


def let_publish_to_webhooks(function: lambda_.Function, bus: events.IEventBus) -> None:
    """Let the function put the owners' messages onto the bus too, where webhooks take them."""
    allow(
        function,
        "TellWebhooks",
        ["events:PutEvents"],
        [bus.event_bus_arn],
        conditions={"StringEquals": {"events:source": SOURCE}},
        why="The bus calls webhooks, in our name only.",
    )
