"""`trackside rm`: removes runs of this machine."""

from __future__ import annotations

import time

import click

from trackside.cli.terminal.options import format_option, shared_options


@click.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show the runs and their size.")
@format_option("table", "json")
@shared_options
def command(*, runs: tuple[str, ...], yes: bool, dry_run: bool, output: str) -> None:
    """Remove RUNs of this machine, with all their files.

    RUN is a folder, the name of a run below .trackside/runs, or `latest`. A run that is still being written, and a
    folder that holds other files too, are refused.

    \b
    Example:
      trackside rm latest
      trackside rm 20261122-075818-train-580d 20261122-081502-train-11aa --yes
    """
    from trackside.cli.terminal.removal import remove_runs
    from trackside.local.run_removal import find_removable

    found = find_removable(runs, now=time.time())
    remove_runs(found, is_agreed=yes, is_rehearsal=dry_run, output=output)
