"""`trackside aws replay`: sends verdicts of the bus's archive once more."""

from __future__ import annotations

from datetime import datetime

import click

from trackside.cli.terminal.options import shared_options
from trackside.cli.terminal.table_option import environment_option


class _Moment(click.ParamType[datetime]):
    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        from trackside.cloud.redelivery import moment

        if isinstance(value, datetime):
            return value
        try:
            return moment(str(value))
        except ValueError:
            self.fail(f"{value!r} is no moment, such as 2026-11-21T14:00 (UTC).", param, ctx)


@click.command("replay")
@click.option("--from", "first", type=_Moment(), required=True, metavar="MOMENT", help="From then on (UTC).")
@click.option("--to", "last", type=_Moment(), required=True, metavar="MOMENT", help="Until then (UTC).")
@click.option("--archive", default="", metavar="NAME", help="The archive, if the bus has several.")
@click.option("--act-again", is_flag=True, help="Also what is so old that it would be repeated.")
@environment_option
@shared_options
def command(*, environment: str, first: datetime, last: datetime, archive: str, act_again: bool) -> None:
    """Send verdicts of the archive once more.

    Functions receive every event that came onto the bus between the two moments as if it came now.
    Actions for it within the last 14 days are not repeated. A second replay of the same moments changes
    nothing.

    \b
    Example:
      trackside aws replay --from 2026-11-21T14:00 --to 2026-11-21T15:00
    """
    from trackside.cloud.redelivery import Redelivery

    replay = Redelivery(environment=environment).replay(first, last, archive=archive, act_again=act_again)
    if replay.is_new:
        click.echo(f"{replay.name} has begun: aws events describe-replay --replay-name {replay.name}")
    else:
        click.echo(f"{replay.name} was asked for before; nothing is sent again.")
