"""`trackside aws rules`: the statuses of a job's rules, in the shape of DescribeTrainingJob."""

from __future__ import annotations

import json

import click

from trackside.cli.terminal.options import shared_options
from trackside.cli.terminal.table_option import table_option


@click.command("rules")
@click.argument("job")
@table_option
@shared_options
def command(*, job: str, table: str, environment: str) -> None:
    """Print the DebugRuleEvaluationStatuses of JOB as JSON.

    JOB is the name of a training job, or its ARN. For scripts that read them from `aws sagemaker
    describe-training-job`: the shape is the same, moments are ISO 8601. The list is empty while no rule has judged the
    job yet. `verdicts` shows a person more.

    \b
    Example:
      trackside aws rules digits-01
      trackside aws rules digits-01 | jq '.DebugRuleEvaluationStatuses'
    """
    from trackside.cloud.rule_statuses import STATUSES, debug_rule_evaluation_statuses
    from trackside.cloud.run_table import RunTable

    found = debug_rule_evaluation_statuses(job, table=RunTable(table, environment=environment))
    plain = [{**each, "LastModifiedTime": each["LastModifiedTime"].isoformat()} for each in found]
    click.echo(json.dumps({STATUSES: plain}, indent=2))  # AWS's shape and no more: no version of ours
