"""`trackside aws status`: the jobs that a deployment watches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.rows import print_json, print_json_lines, print_table
from trackside.cli.terminal.table_option import shown_moment, table_option

if TYPE_CHECKING:
    from trackside.contracts.deployment.run_table import JobRecord, RuleRecord


@click.command("status")
@click.option(
    "--days", type=click.IntRange(1, 366), default=2, show_default=True, help="Created in so many days (UTC)."
)
@format_option("table", "json", "jsonl")
@table_option
@shared_options
def command(*, days: int, output: str, table: str, environment: str) -> None:
    """List running jobs, and those that ended lately.

    With their states, and the status of each rule.

    \b
    Example:
      trackside aws status
      trackside aws status --days 7 --json
    """
    from trackside.cloud.run_table import RunTable

    runs = RunTable(table, environment=environment)
    jobs = [(job, runs.rules(job.job.arn, job=job.job)) for job in runs.jobs(days=days)]
    after = {before: job.job.name for job, _ in jobs if (before := _before(job))}
    rows = [_plain(job, rules, after) for job, rules in jobs]
    if output == "json":
        print_json({"table": runs.name, "jobs": rows})
    elif output == "jsonl":
        print_json_lines(rows)
    elif rows:
        header = ("job", "state", "created", "rules", "issues")
        cells = [
            (job.job.name, _state(job, after), shown_moment(job.created_at), str(len(rules)), _issues(rules))
            for job, rules in jobs
        ]
        print_table(header, cells, color=wants_color())
    else:
        click.echo(f"The table {runs.name} knows no job that runs, and none of the last {days} days.", err=True)


def _before(job: JobRecord) -> str:
    """Return the name of the job that it continues; "" for none."""
    return job.job.continues.partition("@")[0].rpartition("/")[2]


def _state(job: JobRecord, after: Mapping[str, str]) -> str:
    """Return the state, with the job that it continues, and the one that goes on in its place."""
    before, successor = _before(job), after.get(job.job.name, "")
    links = (f"continues {before}" if before else "", f"goes on as {successor}" if successor else "")
    return ", ".join(filter(None, (job.status, *links)))


def _plain(job: JobRecord, rules: tuple[RuleRecord, ...], after: Mapping[str, str]) -> dict[str, Any]:
    return {
        "job": job.job.name,
        "arn": job.job.arn,
        "state": job.status,
        "secondary_state": job.secondary_status,
        "created_at": job.created_at,
        "ended_at": job.ended_at or None,
        "failure_reason": job.failure_reason,
        "run": job.run_uri,
        "continues": _before(job) or None,
        "goes_on_as": after.get(job.job.name),
        "rules": {record.evaluation.configuration_name: record.evaluation.status.value for record in rules},
    }


def _issues(rules: tuple[RuleRecord, ...]) -> str:
    found = [record.evaluation.configuration_name for record in rules if record.evaluation.found_issues]
    return ", ".join(found) or ("none" if rules else "not judged")
