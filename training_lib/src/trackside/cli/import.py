# ruff: noqa: N999 - a command's file has its name, and is loaded by it; no `import` statement ever names this one
"""`trackside import`: makes a run of smdebug a run of Trackside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackside.cli.terminal.failure import NOT_FOUND
from trackside.cli.terminal.options import is_quiet, quiet_option, shared_options
from trackside.cli.terminal.progress import shown
from trackside.cli.terminal.text import printable
from trackside.contracts.english import counted

if TYPE_CHECKING:
    from trackside.contracts.errors import RecordError
    from trackside.exchange.import_run import ImportedRun

MOST_NAMED = 5


@click.command("import")
@click.argument("source")
@click.argument("destination", required=False)
@quiet_option("Print nothing if all is well, and no progress bar.")
@shared_options
def command(*, source: str, destination: str | None) -> None:
    """Make SOURCE, a run of smdebug, a run of Trackside.

    SOURCE is a folder or s3://bucket/prefix: the one that holds debug-output, or index and events. It is never changed;
    without DESTINATION a packed index is put beside it, with which it opens in a few requests. DESTINATION is a new
    folder or prefix: on the same disk files are linked, within S3 copied by S3 itself, else copied. An import that was
    interrupted can be run again. Exit code 3 if a file of SOURCE could not be read; the others are imported.

    \b
    Example:
      trackside import s3://bucket/old-job/debug-output
      trackside import old-run .trackside/runs/old-run
    """
    from trackside.exchange.import_run import import_run

    done = import_run(_found(source), destination, progress=shown)
    steps, workers = counted(done.steps, "step"), counted(done.workers, "worker")
    if not is_quiet():
        click.echo(f"{printable(done.run)}: {steps} of {workers}; {'ended' if done.has_ended else 'no end marker'}")
        click.echo(
            _brought(done) if destination else "Nothing was moved or copied; a packed index was written beside it."
        )
        if not done.has_ended:
            click.echo("Without an end marker it is read as a run that still trains.", err=True)
    _warn("damaged, imported as it is" if destination else "damaged", done.damaged)
    _warn("not imported", done.left_out)
    if done.left_out:
        click.get_current_context().exit(NOT_FOUND)


def _found(source: str) -> str:
    """Return the location of a run of this folder for its name; any other text as it is."""
    from trackside.contracts.errors import RunNotFoundError
    from trackside.runs.run_folder import find_run

    if Path(source).exists():
        return source
    try:
        return find_run(source)
    except RunNotFoundError:
        return source


def _brought(done: ImportedRun) -> str:
    how = "copied by S3" if done.on_server else "copied"
    ways = [f"{done.linked:,} linked"] if done.linked or not done.copied else []
    ways += [f"{done.copied:,} {how}"] if done.copied else []
    ways += [f"{done.already_copied:,} already there"] if done.already_copied else []
    return f"{counted(done.files, 'file')}: {', '.join(ways)}; {counted(done.copied_bytes, 'byte')} {how}."


def _warn(what: str, errors: Sequence[RecordError]) -> None:
    for error in errors[:MOST_NAMED]:
        click.echo(f"Warning: {what}: {printable(str(error))}", err=True)
    if len(errors) > MOST_NAMED:
        click.echo(f"Warning: and {len(errors) - MOST_NAMED:,} more files {what}.", err=True)
