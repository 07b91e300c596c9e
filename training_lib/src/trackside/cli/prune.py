"""`trackside prune`: removes old or failed runs of this machine."""

from __future__ import annotations

import re
import time

import click

from trackside.cli.terminal.options import format_option, shared_options

_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


class _Age(click.ParamType):  # type: ignore[type-arg] # generic in click 8.5 and later only
    name = "age"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no age. Write a number and a unit: 90m, 12h, 30d or 4w.", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


@click.command("prune")
@click.option("--older-than", type=_Age(), metavar="AGE", help="Runs that began longer ago: 90m, 12h, 30d or 4w.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="All but the newest N runs.")
@click.option("--failed", is_flag=True, help="Runs that failed, or were cut off.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only show the runs and their size.")
@format_option("table", "json")
@shared_options
def command(*, older_than: float | None, keep: int | None, failed: bool, yes: bool, dry_run: bool, output: str) -> None:
    """Remove runs below .trackside/runs that fit all conditions.

    A run that is still being written is never removed.

    \b
    Example:
      trackside prune --older-than 30d --dry-run
      trackside prune --failed --yes
      trackside prune --keep 20
    """
    from trackside.cli.terminal.removal import remove_runs
    from trackside.local.run_removal import runs_to_prune
    from trackside.runs.run_folder import RUNS

    if older_than is None and keep is None and not failed:
        raise click.UsageError("Name the runs to remove: --older-than, --keep or --failed.")
    found = runs_to_prune(RUNS, now=time.time(), older_than_seconds=older_than, keep=keep, only_failed=failed)
    remove_runs(found, is_agreed=yes, is_rehearsal=dry_run, output=output)
