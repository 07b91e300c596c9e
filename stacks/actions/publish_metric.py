"""The reaction that counts issues in CloudWatch."""

from __future__ import annotations

from lambdas.publish_metric.settings import PublishMetricSettings
from stacks.constructs.action_reaction import ActionParts, create_reaction
from stacks.constructs.allow import allow
from stacks.constructs.queue_backed_function import QueueBackedFunction
from trackside.contracts.action import Action
from trackside.contracts.deployment.metrics import issue_namespace


def create(action: Action, parts: ActionParts) -> QueueBackedFunction:
    """Create the reaction, which may write to one namespace of metrics."""
    namespace = issue_namespace(parts.settings.environment)
    reaction = create_reaction(
        action,
        parts,
        settings=PublishMetricSettings.of(
            parts.settings, idempotency_table=parts.table.table_name, namespace=namespace
        ),
    )
    allow(
        reaction.function,
        "CountIssues",
        ["cloudwatch:PutMetricData"],
        ["*"],
        conditions={"StringEquals": {"cloudwatch:namespace": namespace}},
        why="Its purpose. Metrics have no ARNs: the namespace is the fence.",
    )
    return reaction
