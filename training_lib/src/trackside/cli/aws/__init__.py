"""`trackside aws`: the training jobs of a deployment in AWS."""

from __future__ import annotations

import click

from trackside.cli.aws.attach import command as attach
from trackside.cli.aws.redrive import command as redrive
from trackside.cli.aws.replay import command as replay
from trackside.cli.aws.rules import command as rules
from trackside.cli.aws.status import command as status
from trackside.cli.aws.verdicts import command as verdicts
from trackside.cli.aws.veto import command as veto
from trackside.cli.terminal.options import shared_options


@click.group("aws")
@shared_options
def command() -> None:
    """Show the training jobs of a deployment in AWS.

    It watches jobs with the tag trackside:run, which `attach` adds. `veto`
    forbids to stop a job. `redrive` and `replay` are for after an outage.

    \b
    Example:
      trackside aws status
      trackside aws verdicts digits-01
      trackside aws veto digits-01 --by ada --reason "it is meant to"
      trackside aws redrive --all --dry-run
    """


command.add_command(attach)
command.add_command(rules)
command.add_command(redrive)
command.add_command(replay)
command.add_command(status)
command.add_command(verdicts)
command.add_command(veto)
