"""`trackside stop`: stop a run that `trackside run` runs on this machine."""

from __future__ import annotations

import click

from trackside.cli.terminal.options import shared_options


@click.command("stop")
@click.argument("run", default="latest")
@click.option("--reason", default="by hand", show_default=True, metavar="TEXT", help="Clause for the owner of the run.")
@shared_options
def command(*, run: str, reason: str) -> None:
    """Stop RUN, which `trackside run` runs on this machine.

    RUN is named as for `trackside findings`; without it, the latest run. `trackside run` stops the training as for a
    critical issue: SIGTERM, and SIGKILL after its grace. The run is marked as stopped, and its rules judge the rest.

    \b
    Example:
      trackside stop
      trackside stop digits --reason "the loss is not finite"
    """
    from trackside.cli.terminal.text import printable
    from trackside.local.stop_request import request_stop
    from trackside.runs.run_folder import find_run, typed_name

    uri = find_run(run)
    request_stop(uri, reason)
    click.echo(printable(f"Asked to stop: {typed_name(uri)}. Its end: trackside wait {typed_name(uri)} --until end"))
