"""Count the issue in a metric."""

from __future__ import annotations

from trackside.contracts.action_unit import ActionUnit

UNIT = ActionUnit(
    word="PublishMetric",
    name="publish_metric",
    description="Publishes the CloudWatch metric IssuesFound with rule, job and status.",
    in_aws="the CloudWatch metric `IssuesFound`",
    locally="a line in `rule-output/metrics.jsonl`",
    is_default=True,
    carried_out_by="notify_owner",  # docs/decisions/0061-fewer-resources.md
)
