"""`trackside aws redrive`: puts dead letters back into the queues of their functions."""

from __future__ import annotations

import click

from trackside.cli.terminal.failure import REMOTE
from trackside.cli.terminal.options import format_option, shared_options, wants_color
from trackside.cli.terminal.rows import print_json, print_table
from trackside.cli.terminal.table_option import environment_option


@click.command("redrive")
@click.argument("functions", nargs=-1, metavar="[FUNCTION]...")
@click.option("--all", "every", is_flag=True, help="Those of all functions.")
@click.option("--dry-run", is_flag=True, help="Only print the number of waiting messages.")
@format_option("table", "json")
@environment_option
@shared_options
def command(*, environment: str, functions: tuple[str, ...], every: bool, dry_run: bool, output: str) -> None:
    """Put dead letters back into the queues of their functions.

    A dead letter is an event that a FUNCTION, such as stop_training, gave up on. First mend the error in its
    log, or the letter comes back. Actions that were carried out already are not repeated.

    \b
    Example:
      trackside aws redrive --all --dry-run
      trackside aws redrive stop_training notify
    """
    from trackside.cloud.redelivery import Redelivery
    from trackside.contracts.errors import StorageError

    if bool(functions) == every:
        raise click.UsageError("Name functions, or give --all.")
    deployment = Redelivery(environment=environment)
    rows, hindered = [], False
    for letters in deployment.choose(functions):
        is_moved = letters.count > 0 and not dry_run
        if is_moved:
            try:
                deployment.redrive(letters)
            except StorageError as error:  # the others must not wait for it
                click.echo(f"{letters.name}: {error}", err=True)
                is_moved, hindered = False, True
        rows.append({"function": letters.name, "dead_letters": letters.count, "redriven": is_moved})
    if output == "json":
        print_json({"queues": rows})
    else:
        cells = [(row["function"], str(row["dead_letters"]), "redriven" if row["redriven"] else "-") for row in rows]
        print_table(("function", "dead letters", "done"), [tuple(map(str, row)) for row in cells], color=wants_color())
    if hindered:
        click.get_current_context().exit(REMOTE)
