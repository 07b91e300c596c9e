"""One alarm for each EventBridge rule of the deployment: an event that it matched was not delivered."""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import CfnOutput, Duration, Fn, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_sns as sns
from constructs import Construct, IConstruct

from stacks.constructs.alarm import TopicAlarm

SUFFIX = "Undelivered"


def undelivered_alarms(scope: Construct, *, topic: sns.ITopic) -> list[TopicAlarm]:
    """Return the alarms for all rules in the app by now, so call it last.

    EventBridge tries for a day, so this is rare.
    """
    return [
        TopicAlarm(
            scope,
            f"{name}{SUFFIX}",
            topic=topic,
            metric=_failed_invocations(rule),
            threshold=1,
            description=f"EventBridge could not deliver an event of the rule {rule.node.path}: its queue is gone, or "
            "does not let EventBridge in. The event lies in the rule's dead-letter queue, if that was reached; what "
            "became of training jobs the next sweep finds.",
        )
        for name, rule in _rules(scope.node.root)
    ]


def _rules(root: IConstruct) -> Iterator[tuple[str, events.Rule]]:
    for each in root.node.find_all():
        if isinstance(each, events.Rule):
            yield "".join(each.node.path.removeprefix("Trackside").split("/")), each


def _failed_invocations(rule: events.Rule) -> cloudwatch.Metric:
    """Return the metric. Of the default bus metrics have the rule's name, of others the bus's, too.

    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-monitoring.html. The name is the last part of the ARN,
    rule/name or rule/bus/name; CloudFormation's Ref of a rule on a bus of one's own is not its name.
    """
    bus = getattr(rule.node.default_child, "event_bus_name", None)
    name = _name_of_other_stack(rule, Fn.select(2 if bus else 1, Fn.split("/", rule.rule_arn)))
    dimensions = {"RuleName": name, **({"EventBusName": bus} if bus else {})}
    return cloudwatch.Metric(
        namespace="AWS/Events",
        metric_name="FailedInvocations",
        dimensions_map=dimensions,
        statistic=cloudwatch.Stats.SUM,
        period=Duration.minutes(5),
    )


def _name_of_other_stack(rule: events.Rule, name: str) -> str:
    """Return the name as an output of the rule's stack: cfn-lint knows no `Fn::Split` of another stack's output."""
    stack = Stack.of(rule)
    stack.export_value(rule.rule_arn)  # alarms of 0.1.0 import it: docs/decisions/0060-settings-that-change.md
    output = CfnOutput(rule, "Name", value=name)
    return Fn.get_stack_output(stack.stack_name, stack.get_logical_id(output))
