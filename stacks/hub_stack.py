"""The parts that make a deployment the hub of other accounts: their events come in, and their jobs may be stopped."""

from __future__ import annotations

from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stacks.constructs.allow import allow
from stacks.deployment_settings import DeploymentSettings
from stacks.spokes import hub_role_name, role_arn, spoke_role_name
from stacks.standing import warn_that_it_stays
from trackside.contracts.event import AWS_DETAIL_TYPE, AWS_SOURCE


class HubStack(Stack):
    """The stack of a hub, made only with `spoke_accounts`.

    Their events come onto the default bus, where the deployment's own rules match them as they match those of the hub's
    own jobs; the evaluators run here, too.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, settings: DeploymentSettings, stop_training: lambda_.Function
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            stack_name=settings.stack_name(construct_id),
            description="Trackside: the permissions of watched accounts to send",
        )
        self._settings = settings
        warn_that_it_stays(self, "spoke_accounts")
        self._let_events_in()
        self._let_stop(stop_training)

    def _let_events_in(self) -> None:
        """Let the spokes' events in.

        Nobody can put an event of AWS's source by hand (API_PutEvents refuses it), so they are true.
        """
        condition: dict[str, Any] = {
            "StringEquals": {"events:source": AWS_SOURCE, "events:detail-type": AWS_DETAIL_TYPE},
        }
        if self._settings.accounts.organization:
            condition["StringEquals"]["aws:PrincipalOrgID"] = self._settings.accounts.organization
        accounts = self._settings.accounts.spoke_accounts
        statement_id = f"{self._settings.event_bus_name}-spokes"
        events.CfnEventBusPolicy(
            self,
            "EventsOfSpokes",
            event_bus_name="default",
            statement_id=statement_id,
            statement={
                "Sid": statement_id,
                "Effect": "Allow",
                "Principal": {"AWS": [f"arn:{self.partition}:iam::{account}:root" for account in accounts]},
                "Action": "events:PutEvents",
                "Resource": self.format_arn(service="events", resource="event-bus", resource_name="default"),
                "Condition": condition,
            },
        )

    def _let_stop(self, function: lambda_.Function) -> None:
        role = function.role.node.default_child if function.role else None
        if not isinstance(role, iam.CfnRole):
            raise TypeError(f"{function.node.path} has no role of CloudFormation.")
        stack = Stack.of(function)
        role.role_name = hub_role_name(self._settings, stack.region)
        allow(
            function,
            "StopInSpokes",
            ["sts:AssumeRole"],
            [
                role_arn(stack, account, spoke_role_name(self._settings, stack.region))
                for account in self._settings.accounts.spoke_accounts
            ],
            why="Jobs of the accounts that this hub watches; the role there may stop tagged training jobs only.",
        )
