"""`trackside aws veto`: a person forbids to stop a job."""

from __future__ import annotations

import click

from trackside.cli.terminal.options import shared_options
from trackside.cli.terminal.table_option import table_option


@click.command("veto")
@click.argument("job")
@click.option("--by", default="", metavar="NAME", help="Your name, for the record.")
@click.option("--reason", default="", metavar="TEXT", help="Why; it stands in the record.")
@table_option
@shared_options
def command(*, job: str, by: str, reason: str, table: str, environment: str) -> None:
    """Forbid to stop JOB for its findings until now.

    JOB is the name of a training job, or its ARN. The veto also holds for the deployment's cool-down
    after it. A job that was stopped already stays stopped.

    \b
    Example:
      trackside aws veto digits-01 --by ada --reason "the loss rises on purpose"
    """
    from trackside.cloud.run_table import RunTable

    known = RunTable(table, environment=environment).veto(job, by=by, reason=reason)
    name = known.arn.rpartition("/")[2]
    if known.job and known.job.ended_at:
        click.echo(
            f"{name} has ended already ({known.job.status}): the veto stands in the record, and changes nothing."
        )
    else:
        click.echo(f"{name} is not stopped for what was found until now.")
